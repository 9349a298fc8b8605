"""The join cases without Spark and without a broker: their records through the operators, both ways.

Only cases with plain column expressions run here; `tests/sql/cases` evaluates all of them on Spark.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("lmdb")
pytest.importorskip("pyspark")
pytest.importorskip("numpy")

import numpy as np

from ottla.sql.errors import Position
from ottla.sql.parsing import statements as s
from ottla.sql.parsing.parser import parse
from ottla.sql.planning.plan import Plan, plan_select
from ottla.sql.sources import Source, from_statement
from ottla.sql.stateful.flows import source_columns
from ottla.sql.stateful.joins.stages import join_stages
from ottla.sql.stateful.ordering import processing_order
from ottla.sql.stateful.records import Record
from ottla.sql.stateful.runner import Stage
from tests.sql.cases import joins_foreign_key, joins_several, joins_stream_stream, joins_stream_table
from tests.sql.cases import joins_table_table as joins_of_tables
from tests.sql.cases.case import Case, In, Way

Evaluate = Callable[[tuple[Any, ...]], Any]
_MODULES = (joins_stream_table, joins_of_tables, joins_foreign_key, joins_stream_stream, joins_several)


class MemoryState:
    def __init__(self) -> None:
        self._held: dict[bytes, bytes] = {}
        self.get = self._held.get
        self.put = self._held.__setitem__

    def delete(self, key: bytes) -> None:
        self._held.pop(key, None)

    def scan(
        self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        found = [
            (key, value)
            for key, value in sorted(self._held.items())
            if key.startswith(prefix) and key >= start and (stop is None or key < stop)
        ]
        return found[:limit]


class NotHere(Exception):
    """An expression that needs Spark."""


class Flow:
    """The runner's DataFrame operations, with one partition."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._aliases = list(plan.sources)
        self._columns = source_columns(plan)
        self._stages = [
            (stage, {n: self.expression(key) for n, key in stage.keys.items()}, MemoryState())
            for stage in join_stages(plan)
        ]
        self._outputs = [(each, self.expression(each.sql)) for each in plan.outputs]
        left = plan.sources[self._aliases[0]]
        has_structs = any(
            column.type.name == "STRUCT" for each in plan.sources.values() for column in each.columns
        )
        if (
            plan.select.where is not None
            or plan.select.partition_by
            or left.window is not None
            or has_structs
        ):
            raise NotHere

    def expression(self, sql: str) -> Evaluate:
        if (column := re.fullmatch(r"`(\w+)`\.`(\w+)`", sql)) is not None:
            source = self._aliases.index(column[1])
            names = self._columns[column[1]]
            if column[2] not in [each.name for each in self._plan.sources[column[1]].columns]:
                raise NotHere
            place = names.index(column[2])
            return lambda row: None if row[source] is None else row[source][place]
        if (either := re.fullmatch(r"coalesce\((.*), (`\w+`\.`\w+`)\)", sql)) is not None:
            first, second = map(self.expression, either.groups())
            return lambda row: second(row) if first(row) is None else first(row)
        raise NotHere

    def batch(self, inputs: list[tuple[int, In]]) -> Iterator[tuple[Any, Any, int]]:
        records = [(0, offset, self._record(each)) for offset, each in inputs]
        waiting = [each for each in records if each[2] is not None]
        for stage, keys, state in self._stages:
            mine = [each for each in waiting if each[2].input in keys]
            made = [
                out
                for record in self._ordered(mine, stage)
                for out in stage.operator.process(
                    record._replace(key=self._key(keys[record.input](record.values))), state
                )
            ]
            later = [each for each in waiting if each[2].input not in keys]
            waiting = [*later, *((0, number, each) for number, each in enumerate(made))]
        for _, _, record in waiting:
            key = [use(record.values) for each, use in self._outputs if each.is_key]
            value = {each.name: use(record.values) for each, use in self._outputs if not each.is_key}
            yield key[0], None if record.deleted else value, record.time

    def _ordered(self, rows: list[tuple[int, int, Record]], stage: Stage) -> list[Record]:
        if not rows:
            return []
        columns = (
            [min(stage.together) if row[2].input in stage.together else row[2].input for row in rows],
            [row[0] for row in rows],
            [row[1] for row in rows],
            [row[2].time for row in rows],
        )
        order = processing_order(*(np.array(each) for each in columns), stage.tables)
        return [rows[place][2] for place in order]

    def _key(self, value: Any) -> bytes | None:
        return None if value is None else json.dumps(value).encode()

    def _record(self, given: In) -> Any:
        alias = next(name for name, source in self._plan.sources.items() if source.topic == given.topic)
        source = self._plan.sources[alias]
        if not isinstance(given.value, dict | None):
            raise NotHere
        if (given.value is None and source.kind == "STREAM") or (
            given.key is None and source.kind == "TABLE"
        ):
            return None
        fields = {name.upper(): value for name, value in (given.value or {}).items()}
        keys = {each.name for each in source.keys}
        row = tuple(given.key if name in keys else fields.get(name) for name in self._columns[alias])
        number = self._aliases.index(alias)
        values = tuple(row if place == number else None for place in range(len(self._aliases)))
        return Record(number, None, given.ts, given.value is None, values)


def _flow(case: Case) -> Flow:
    known: dict[str, Source] = {}
    for statement in parse(case.statements):
        if isinstance(statement, s.CreateSource):
            known[statement.name] = from_statement(statement)[0]
        elif isinstance(statement, s.CreateAsSelect) and len(parse(case.statements)) - len(known) == 1:

            def find(name: str, position: Position) -> Source:
                return known[name]

            return Flow(plan_select(statement.select, find, batch=False))
    raise NotHere


def _cases() -> Iterator[Any]:
    for module in _MODULES:
        for case in module.CASES:
            if case.refused is not None:
                continue
            try:
                _flow(case)
            except NotHere:
                continue
            for way in case.ways:
                yield pytest.param(case, way, id=f"{case.grouped}: {case.name}, {way}")


@pytest.mark.parametrize(("case", "way"), list(_cases()))
def test_records_in_records_out(case: Case, way: Way) -> None:
    try:
        flow = _flow(case)
        inputs = [(number, each) for number, each in enumerate(case.inputs) if isinstance(each, In)]
        batches = [inputs] if way == "all at once" else [[each] for each in inputs]
        found = [each for batch in batches for each in flow.batch(batch)]
    except NotHere:
        pytest.skip("needs Spark")
    wanted = [(out.key, out.value, out.ts) for out in case.outputs]
    if way == "all at once":
        is_table = "CREATE TABLE o AS" in case.statements
        assert _by_key(found, is_table) == _by_key(wanted, is_table)
    else:
        assert found == wanted


def _by_key(rows: list[Any], is_table: bool) -> dict[Any, list[Any]]:
    by_key = defaultdict(list)
    for key, value, time in rows:
        by_key[key].append((value, time))
    if is_table:
        return {key: each[-1:] for key, each in by_key.items() if each[-1][0] is not None}
    return by_key
