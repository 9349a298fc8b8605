"""Task for one partition of a stage in one micro-batch, run in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.spark.state import StatePlace, open_state
from ottla.sql.stateful.arrow_rows import from_values, to_rows
from ottla.sql.stateful.columns import HEAD, INPUT, KEY, PART, REMOVED, SEQ, TIME
from ottla.sql.stateful.format_1 import upgraded
from ottla.sql.stateful.ordering import processing_order
from ottla.sql.stateful.records import Finishing, Operator, Record

_ROWS = 4096


@dataclass(frozen=True)
class StageTask:
    """Callable for `mapInArrow`. Input columns are those of a flow plus the key; output columns are `schema`."""

    operator: Operator
    tables: frozenset[int]
    together: frozenset[int]
    checkpoint: str
    query_id: str
    batch: int
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return self.run(context.partitionId(), list(batches))

    def run(self, partition: int, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = StatePlace(self.checkpoint, self.query_id, self.operator.name, partition)
        with open_state(place, self.batch, upgrade=partial(upgraded, self.operator)) as state:
            made: list[Record] = []
            count = 0
            process = self.operator.process
            for record in _records(batches, self.tables, self.together):
                made += process(record, state)
                if len(made) >= _ROWS:
                    yield self._batch(made, partition, count)
                    count += len(made)
                    made = []
            if isinstance(self.operator, Finishing):
                made += self.operator.finish(state)
            if made:
                yield self._batch(made, partition, count)
            state.commit()

    def _batch(self, made: list[Record], partition: int, count: int) -> pa.RecordBatch:
        head: dict[str, Any] = {
            INPUT: [each.input for each in made],
            TIME: [each.time for each in made],
            REMOVED: [each.deleted for each in made],
            PART: [partition] * len(made),
            SEQ: range(count, count + len(made)),
        }
        columns = [pa.array(head[name], self.schema.field(name).type) for name in HEAD]
        payload = list(zip(*(each.values for each in made), strict=True))
        kinds = [field.type for field in self.schema][len(HEAD) :]
        columns += [from_values(values, kind) for values, kind in zip(payload, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _records(
    batches: list[pa.RecordBatch], tables: frozenset[int], together: frozenset[int]
) -> Iterator[Record]:
    batches = [each for each in batches if each.num_rows]
    if not batches:
        return
    table = pa.Table.from_batches(batches).combine_chunks()
    inputs, parts, places, times = (
        table.column(name).to_numpy().astype(np.int64) for name in (INPUT, PART, SEQ, TIME)
    )
    if together:
        inputs = np.where(np.isin(inputs, list(together)), min(together), inputs)
    order = processing_order(inputs, parts, places, times, tables)
    payload = [name for name in table.column_names if name not in (*HEAD, KEY)]
    for start in range(0, len(order), _ROWS):
        rows = table.take(pa.array(order[start : start + _ROWS])).combine_chunks()
        head = [rows.column(name).to_pylist() for name in (INPUT, KEY, TIME, REMOVED)]
        values = to_rows([_whole(rows.column(name)) for name in payload])
        for source, key, time, deleted, held in zip(*head, values, strict=True):
            yield Record(source, key, time, deleted, held)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
