"""Plan of a SELECT with GROUP BY: expressions per record, the aggregation, and expressions over its result.

The first and the last part are SQL. In the last part, groups and aggregate results are columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.sql.errors import Position, SqlError
from ottla.sql.parsing.statements import Window
from ottla.sql.planning.expression_texts import shown
from ottla.sql.planning.functions import AGGREGATES, WrongArguments, render
from ottla.sql.planning.functions.rules import Argument
from ottla.sql.planning.scope import Scope, has_aggregate
from ottla.sql.sql_types import SqlType
from ottla.sql.stateful.aggregates import AggregateCall, can_undo, settings_of
from ottla.sql.stateful.aggregation import Layout
from ottla.sql.stateful.grouped import Aggregation
from ottla.sql.user_functions.catalogue import chosen, refusal, wanted

DEFAULT_GRACE_MS = 24 * 3_600_000

#: Hidden columns of every query's result.
ROW_TIME, KEEP, RESULT_START, RESULT_END = "__rowtime", "__keep", "__window_start", "__window_end"


def group_column(number: int) -> str:
    return f"__group_{number}"


def argument_column(call: int, number: int) -> str:
    return f"__arg_{call}_{number}"


def result_column(number: int, *, before: bool = False) -> str:
    return f"__before_{number}" if before else f"__result_{number}"


@dataclass
class GroupedScope(Scope):
    """Scope for expressions over groups. Groups and aggregates become columns; other expressions must build on them."""

    groups: list[str] = field(default_factory=list)  # as SQL over the sources
    calls: list[tuple[AggregateCall, list[str]]] = field(default_factory=list)  # with their arguments as SQL
    types: list[SqlType | None] = field(default_factory=list)  # of the results
    of_rows: Scope | None = None
    before: bool = False  # whether results are those before a change

    @classmethod
    def over(cls, scope: Scope, groups: list[str]) -> GroupedScope:
        grouped = cls(scope.sources, scope.position, functions=scope.functions, groups=groups, of_rows=scope)
        if scope.exploded:
            raise grouped._no_table_functions(scope.position)
        return grouped

    def group(self, number: int) -> str:
        return quoted(group_column(number))

    def _changed(self, node: exp.Expr) -> exp.Expr:
        if not self.parameters:
            number = self._group(node)
            if number is not None:
                return exp.Var(this=quoted(group_column(number)))
        if isinstance(node, exp.Anonymous) and self._is_table_function(str(node.this).upper()):
            raise self._no_table_functions(self.place(node))
        if isinstance(node, exp.Anonymous) and has_aggregate(exp.Anonymous(this=node.this), self.functions):
            return self._aggregate(node, str(node.this).upper())
        return super()._changed(node)

    def _is_table_function(self, name: str) -> bool:
        user = self.functions.get(name)
        return name in ("EXPLODE", "CUBE_EXPLODE") or (user is not None and user.kind == "TABLE")

    def _no_table_functions(self, position: Position) -> SqlError:
        return SqlError("Table functions cannot be used with aggregations.", position)

    def _group(self, node: exp.Expr) -> int | None:
        if isinstance(node, exp.Identifier | exp.Star) or has_aggregate(node, self.functions):
            return None
        assert self.of_rows is not None
        try:
            written = self.of_rows.sql(node)
        except SqlError:
            return None
        return self.groups.index(written) if written in self.groups else None

    def _column(self, node: exp.Column) -> exp.Expr:
        name = node.name.upper()
        if name in self.replaced:
            return exp.Var(this=self.replaced[name])
        assert self.of_rows is not None
        self.of_rows.sql(node)  # raises if the column does not exist
        raise self._not_grouped(name, self.place(node))

    def column(self, alias: str, name: str) -> str:
        assert self.of_rows is not None
        written = self.of_rows.column(alias, name)
        if written not in self.groups:
            raise self._not_grouped(name, self.position)
        return quoted(group_column(self.groups.index(written)))

    def _not_grouped(self, name: str, position: Position) -> SqlError:
        return SqlError(
            f"Non-aggregate SELECT expression(s) not part of GROUP BY: {name}. "
            "Either add the column(s) to the GROUP BY or remove them from the SELECT.",
            position,
        )

    def _aggregate(self, node: exp.Anonymous, name: str) -> exp.Expr:
        assert self.of_rows is not None
        where, given = self.place(node), node.expressions
        if given and isinstance(given[0], exp.Distinct):
            raise SqlError("COUNT(DISTINCT …) is not supported; use COUNT_DISTINCT(…).", where)
        if any(has_aggregate(each, self.functions) for each in given):
            raise SqlError(f"Aggregate functions can not be nested: {shown(node)}.", where)
        result = self.type_of(node)
        given = self.of_rows.aggregate_arguments(name, given)
        arguments = [Argument(self.of_rows.sql(each), self.of_rows.type_of(each)) for each in given]
        call, written = (
            self._user(node, name, arguments) if name not in AGGREGATES else self._own(node, name, arguments)
        )
        entry = (call, written)
        if entry not in self.calls:
            self.calls.append(entry)
            self.types.append(result)
        return exp.Var(this=quoted(result_column(self.calls.index(entry), before=self.before)))

    def _own(self, node: exp.Anonymous, name: str, given: list[Argument]) -> tuple[AggregateCall, list[str]]:
        try:
            render(name, given, "")  # checks the number of arguments
        except WrongArguments as error:
            raise SqlError(f"{error}.", self.place(node)) from None
        columns = len(given) - settings_of(name, len(given))
        settings = tuple(self._literal(node, each.sql) for each in given[columns:])
        written = [each.sql for each in given[:columns]]
        if name == "HISTOGRAM":
            written = [f"CAST({each} AS STRING)" for each in written]
        return AggregateCall(name, tuple(each.type for each in given[:columns]), settings), written

    def _user(self, node: exp.Anonymous, name: str, given: list[Argument]) -> tuple[AggregateCall, list[str]]:
        function = self.functions.get(name)
        assert function is not None
        types = [each.type for each in given]
        number = chosen(function, types)
        if number is None:
            raise SqlError(refusal(function, types), self.place(node))
        overload = function.overloads[number]
        columns = len(given) - len(overload.settings)
        settings = tuple(self._literal(node, each.sql) for each in given[columns:])
        written = [
            f"CAST({each.sql} AS {parameter.type.ddl})"
            for each, parameter in zip(given[:columns], wanted(overload, len(given)), strict=False)
        ]
        return AggregateCall(name, tuple(types[:columns]), settings, overload), written

    def _literal(self, node: exp.Anonymous, written: str) -> Any:
        plain = written.strip()
        if plain.upper() in ("TRUE", "FALSE"):
            return plain.upper() == "TRUE"
        if plain.startswith("'") and plain.endswith("'"):
            return plain[1:-1].replace("\\'", "'")
        try:
            return int(plain)
        except ValueError:
            pass
        try:
            return float(plain)
        except ValueError:
            name = str(node.this).upper()
            raise SqlError(
                f"The settings of {name} must be literals, and {written} is none.", self.place(node)
            ) from None


#: Payload columns after the groups, arguments and results.
WINDOW_START, WINDOW_END, HAD = "__start", "__end", "__had"
BECAME = "__became"
ROW_KEY = "__row_key"
_HEAD = ("__input", "__time", "__deleted", "__part", "__seq")


@dataclass(frozen=True)
class AggregationPlan:
    """Plan of an aggregation. `rows_sql` runs over the flow for each record; the plan holds the final SELECT."""

    rows_sql: str
    layout: Layout
    aggregation: Aggregation
    group_key: str


def aggregation_plan(
    scope: GroupedScope,
    *,
    window: Window | None,
    final: bool,
    every_change: bool,
    where: str | None,
    table_key: str | None,
    flow: str,
) -> AggregationPlan:
    """Build the plan. Call this after all expressions over the groups are rendered, because only then are the calls
    known.

    For a table, `table_key` is the key of its rows: a change removes the old row from its group.
    """
    of_table = table_key is not None
    if of_table:
        _check_undo(scope)
    if window is not None and window.kind == "SESSION":
        _check_merge(scope)
    groups = [f"{sql} AS {group_column(number)}" for number, sql in enumerate(scope.groups)]
    arguments = [
        (argument_column(call, number), sql)
        for call, (_, written) in enumerate(scope.calls)
        for number, sql in enumerate(written)
    ]
    columns = [*_HEAD, *groups, *(f"{sql} AS {name}" for name, sql in arguments)]
    if of_table:
        columns += [f"{sql} AS {name.replace('__arg', '__was')}" for name, sql in arguments]
        columns.append(f"0 AS {BECAME}")
    shapes = [_shape(call, written) for call, written in scope.calls]
    for before in (False, True):
        columns += [
            f"CASE WHEN false THEN {shape} END AS {result_column(number, before=before)}"
            for number, shape in enumerate(shapes)
        ]
    columns += [f"CAST(NULL AS BIGINT) AS {WINDOW_START}", f"CAST(NULL AS BIGINT) AS {WINDOW_END}"]
    # For a table, this first tells whether the row exists; comparing it with the old row replaces the value.
    kept = "NOT __deleted" + (f" AND coalesce({where}, false)" if where is not None else "")
    columns.append(f"{kept if of_table else 'false'} AS {HAD}")
    if of_table:
        columns.append(f"to_json(struct({table_key})) AS {ROW_KEY}")
    text = f"SELECT {', '.join(columns)}\nFROM {flow}"
    if not of_table:
        conditions = [f"({each}) IS NOT NULL" for each in scope.groups]
        conditions += [] if where is None else [f"({where})"]
        text += f"\nWHERE {' AND '.join(conditions)}"
    layout = Layout(
        len(scope.groups), tuple(len(written) for _, written in scope.calls), of_table, tuple(scope.types)
    )
    keys = ", ".join(group_column(number) for number in range(len(scope.groups)))
    return AggregationPlan(
        text,
        layout,
        _aggregation(scope, window, final, every_change),
        f"struct({keys})",
    )


def _aggregation(scope: GroupedScope, window: Window | None, final: bool, every_change: bool) -> Aggregation:
    calls = tuple(call for call, _ in scope.calls)
    if window is None:
        return Aggregation(calls, every_change=every_change)
    grace = window.grace_ms
    if grace is None:
        # As in ksqlDB: EMIT FINAL has no grace period, and other queries accept late records for a day.
        grace = 0 if final else max(DEFAULT_GRACE_MS - window.size_ms, 0)
    return Aggregation(calls, window.kind, window.size_ms, window.advance_ms or 0, grace, final, every_change)


def _check_undo(scope: GroupedScope) -> None:
    names = list(dict.fromkeys(call.name for call, _ in scope.calls if not can_undo(call)))
    if names:
        *most, last = names
        listed = f"{', '.join(most)} and {last}" if most else last
        raise SqlError(
            f"The aggregation function{'s' if most else ''} {listed} cannot be applied to a table source, "
            "only to a stream source.",
            scope.position,
        )


def _check_merge(scope: GroupedScope) -> None:
    for call, _ in scope.calls:
        if call.user is not None and not call.user.can_merge:
            raise SqlError(
                f"{call.name} has no method merge, so it cannot be used with SESSION windows.", scope.position
            )


def _shape(call: AggregateCall, written: list[str]) -> str:
    if call.user is not None:
        return f"CAST(NULL AS {call.user.returns.ddl})"
    name, value = call.name, written[0]
    if name in ("COUNT", "COUNT_DISTINCT"):
        return "0L"
    if name in ("AVG", "STDDEV_SAMP", "STDDEV_SAMPLE", "CORRELATION"):
        return "0D"
    if name == "HISTOGRAM":
        return "map('', 0L)"
    if name == "TOPK" and len(written) > 1:
        fields = ", ".join(
            f"'{field}', {sql}"
            for field, sql in zip(
                ["sort_col", *(f"col{i}" for i in range(len(written) - 1))], written, strict=True
            )
        )
        return f"array(named_struct({fields}))"
    if name == "SUM_LIST":
        return f"element_at({value}, 1)"
    counts = any(not isinstance(each, bool) for each in call.settings)
    if name in ("COLLECT_LIST", "COLLECT_SET", "TOPK", "TOPKDISTINCT") or counts:
        return f"array({value})"
    return value


def final_sql(columns: list[str], having: tuple[str, str] | None, *, windowed: bool, flow: str) -> str:
    """Build the SELECT over the aggregated rows. A row that no longer passes HAVING becomes a tombstone.

    `having` is the condition over the results, and over the results before the change.
    """
    kept = "NOT __deleted" if having is None else f"NOT __deleted AND coalesce({having[0]}, false)"
    rows = [*columns, f"__time AS {ROW_TIME}"]
    if windowed:
        rows += [f"{WINDOW_START} AS {RESULT_START}", f"{WINDOW_END} AS {RESULT_END}"]
    text = f"SELECT {', '.join([*rows, f'{kept} AS {KEEP}'])}\nFROM {flow}"
    if having is not None:
        text += f"\nWHERE ({kept}) OR ({HAD} AND coalesce({having[1]}, false))"
    return text
