"""Plan of a SELECT for Spark: the SQL over its sources, the key columns, and the mode of execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.sql.errors import Position, SqlError
from ottla.sql.frames import DELETED, TIME
from ottla.sql.parsing.statements import ColumnDefinition, Select, SourceKind, Window
from ottla.sql.planning.aggregate_plan import (
    DEFAULT_GRACE_MS,
    KEEP,
    RESULT_END,
    RESULT_START,
    ROW_TIME,
    AggregationPlan,
    GroupedScope,
    aggregation_plan,
    final_sql,
)
from ottla.sql.planning.aggregate_plan import WINDOW_END as GROUP_END
from ottla.sql.planning.aggregate_plan import WINDOW_START as GROUP_START
from ottla.sql.planning.checks import check_select
from ottla.sql.planning.join_plan import (
    FLOW,
    FLOW_DELETED,
    FLOW_TIME,
    Joins,
    JoinStep,
    join_clause,
    plan_joins,
    view,
)
from ottla.sql.planning.missing_key import missing_key
from ottla.sql.planning.projection import Output, Projection
from ottla.sql.planning.scope import Scope, has_aggregate
from ottla.sql.sources import Source
from ottla.sql.user_functions import UserFunctions

#: - append: each row follows from one record, or is final when emitted
#: - update: an aggregation that emits a row for each change
#: - changes: a table in which each change causes one change
#: - stateful: joins and other queries with Ottla's own state; the SQL reads the resulting flow (`stateful/`)
#: - batch: the current rows
Mode = Literal["append", "update", "changes", "stateful", "batch"]

#: Hidden columns of the result, besides ROW_TIME and KEEP.
WINDOW_START, WINDOW_END = RESULT_START, RESULT_END


@dataclass(frozen=True)
class Plan:
    select: Select
    sources: dict[str, Source]
    mode: Mode
    outputs: tuple[Output, ...]
    sql: str  # over the views of the aliases
    result: SourceKind
    window: Window | None
    windowed_like: Source | None  # source whose windows the result inherits
    watermarks: dict[str, int]
    missing_key: str | None  # error if the result is written to a topic
    joins: tuple[JoinStep, ...] = ()
    aggregation: AggregationPlan | None = None  # for stateful queries; the SELECT reads the groups
    own_state: str | None = None  # why a stateful query does not run on Spark's operators

    @property
    def names(self) -> list[str]:
        return [output.name for output in self.outputs]


def plan_select(
    select: Select,
    find: Callable[[str, Position], Source],
    *,
    batch: bool,
    reader: bool = False,
    functions: UserFunctions | None = None,
) -> Plan:
    """Plan a SELECT.

    With `reader`, a person reads the rows and `*` includes window bounds, which are otherwise in the key.
    """
    relations = [select.source, *(join.right for join in select.joins)]
    sources: dict[str, Source] = {}
    for relation in relations:
        if relation.alias in sources:
            raise SqlError(
                f"Joins do not support multiple occurrences of the same source. Source: '{relation.alias}'",
                relation.position,
            )
        sources[relation.alias] = find(relation.name, relation.position)
    return _Planner(select, sources, batch, reader or batch, functions or UserFunctions()).plan()


class _Planner:
    def __init__(
        self,
        select: Select,
        sources: dict[str, Source],
        batch: bool,
        reader: bool,
        functions: UserFunctions,
    ) -> None:
        self._select = select
        self._sources = sources
        self._batch = batch
        self._reader = reader
        self._left = sources[select.source.alias]
        self._aggregates = bool(select.group_by) or any(
            has_aggregate(item.expression, functions) for item in select.items
        )
        self._scope = Scope(sources, select.position, functions=functions)
        self._joins: Joins | None = None

    def plan(self) -> Plan:
        select, scope = self._select, self._scope
        joins = self._joins = plan_joins(select, self._sources, scope)
        self._check_clauses()
        mode = self._mode()
        if joins is not None and joins.row_key is not None and joins.value is not None:
            scope.replaced[joins.row_key] = joins.value
        if mode == "stateful" and self._aggregates:
            return self._grouped(joins)
        if select.window is not None:
            column = "session_window" if select.window.kind == "SESSION" else "window"
            scope.replaced["WINDOWSTART"] = f"unix_millis({column}.start)"
            scope.replaced["WINDOWEND"] = f"unix_millis({column}.end)"
        groups = [scope.sql_in("GROUP BY", each.unnest()) for each in select.group_by]
        scope.order = self._order(groups)
        partitions = (
            []
            if _is_null(select.partition_by)
            else [scope.sql_in("PARTITION BY", each.unnest()) for each in select.partition_by]
        )
        key_sql = self._key(groups, partitions)
        check_select(select, scope, groups, batch=self._batch)
        row_key = None if joins is None else joins.row_key
        outputs = Projection(select, self._sources, scope, self._reader, row_key).outputs(key_sql)
        missing = missing_key(select, scope, joins, key_sql, outputs)
        if joins is not None and joins.value is not None and not (groups or partitions):
            # Keep the key even if the column that names it is null, as in a LEFT JOIN.
            outputs = [replace(each, sql=joins.value) if each.is_key else each for each in outputs]
        if mode == "append":
            outputs = self._without_values(outputs, partitions)
        return Plan(
            select,
            self._sources,
            mode,
            tuple(outputs),
            self._sql(mode, outputs, groups),
            "TABLE" if self._left.kind == "TABLE" or self._aggregates else "STREAM",
            select.window,
            self._left if self._left.window is not None and not self._aggregates else None,
            self._watermarks(),
            missing,
            () if joins is None else joins.steps,
            own_state=self._own_state() if mode == "stateful" else None,
        )

    def _grouped(self, joins: Joins | None) -> Plan:
        select, rows = self._select, self._scope
        groups = [rows.sql_in("GROUP BY", each.unnest()) for each in select.group_by]
        grouped = GroupedScope.over(rows, groups)
        checked: Scope = rows
        if select.window is not None:
            bounds = {"WINDOWSTART": quoted(GROUP_START), "WINDOWEND": quoted(GROUP_END)}
            grouped.replaced |= bounds
            checked = replace(rows, replaced=rows.replaced | bounds)
        self._scope = grouped
        key_sql = [[grouped.group(number)] for number in range(len(groups))]
        check_select(select, checked, groups, batch=self._batch)
        outputs = Projection(select, self._sources, grouped, self._reader).outputs(key_sql)
        having = None
        if select.having is not None:
            having = grouped.sql(select.having), replace(grouped, before=True).sql(select.having)
        where = None if select.where is None else rows.sql(select.where)
        columns = [f"{output.sql} AS {quoted(output.name)}" for output in outputs]
        missing = missing_key(select, rows, joins, key_sql, outputs)
        return Plan(
            select,
            self._sources,
            "stateful",
            tuple(outputs),
            final_sql(columns, having, windowed=select.window is not None, flow=FLOW),
            "TABLE",
            select.window,
            None,
            {},
            missing,
            () if joins is None else joins.steps,
            aggregation_plan(
                grouped,
                window=select.window,
                final=select.emit == "FINAL",
                every_change=having is not None,
                where=where,
                table_key=self._table_key(joins) if self._left.kind == "TABLE" else None,
                flow=FLOW,
            ),
            self._own_state(),
        )

    def _table_key(self, joins: Joins | None) -> str:
        if joins is not None and joins.value is not None:
            return joins.value
        alias, source = self._select.source.alias, self._left
        names = [*(column.name for column in source.keys), *source.window_columns]
        return f"struct({', '.join(f'{quoted(alias)}.{quoted(name)}' for name in names)})"

    # Mode of execution

    def _mode(self) -> Mode:
        if self._batch:
            return "batch"
        if self._own_state() is not None:
            return "stateful"
        if self._aggregates:
            return "update"
        return "changes" if self._left.kind == "TABLE" else "append"

    def _own_state(self) -> str | None:
        """Return why the query needs Ottla's own state: Spark cannot run it, or runs it differently than ksqlDB."""
        select, functions = self._select, self._scope.functions
        if select.joins:
            return "JOIN"
        if not self._aggregates:
            return None
        if self._left.kind == "TABLE":
            return "GROUP BY over a table"
        if select.emit == "FINAL":
            return "EMIT FINAL"
        if select.having is not None:
            return "HAVING"
        if select.window is not None and select.window.kind == "SESSION":
            return "SESSION windows"
        if select.window is not None and select.window.grace_ms is not None:
            # Spark compares late records with the latest time of earlier batches only.
            return "GRACE PERIOD"
        for item in select.items:
            for node in () if item.expression is None else item.expression.find_all(exp.Anonymous):
                if functions.is_aggregate(str(node.this).upper()):
                    return f"the aggregate {str(node.this).upper()} in Python"
        return None

    def _check_clauses(self) -> None:
        select, position = self._select, self._select.position
        if select.window is not None and not select.group_by:
            raise SqlError("WINDOW needs GROUP BY.", position)
        if select.having is not None and not self._aggregates:
            raise SqlError("HAVING needs GROUP BY; use WHERE.", position)
        if select.partition_by and select.group_by:
            raise SqlError("PARTITION BY with GROUP BY is not supported: the groups are the key.", position)
        if len(select.partition_by) > 1 and any(isinstance(each, exp.Null) for each in select.partition_by):
            raise SqlError("Cannot PARTITION BY multiple columns including NULL", position)
        if self._left.kind == "TABLE":
            if select.window is not None:
                raise SqlError("WINDOW over a table is not supported: windows are made of streams.", position)
            if select.partition_by:
                raise SqlError(
                    "PARTITION BY of a table is not supported: its key is its PRIMARY KEY.", position
                )
        if self._batch:
            return
        if self._aggregates and not select.group_by:
            raise SqlError(self._needs_group_by(), position)
        if select.emit == "FINAL" and select.window is None:
            raise SqlError(
                "EMIT FINAL is only supported for windowed aggregations. Only they have an end.", position
            )

    def _needs_group_by(self) -> str:
        functions = self._scope.functions
        name = next(
            str(node.this).upper()
            for item in self._select.items
            if item.expression is not None
            for node in item.expression.find_all(exp.Anonymous)
            if has_aggregate(exp.Anonymous(this=node.this), functions)
        )
        return f"Use of aggregate function {name} requires a GROUP BY clause."

    def _watermarks(self) -> dict[str, int]:
        select = self._select
        if select.window is not None:
            grace = select.window.grace_ms
            if grace is None:
                grace = max(DEFAULT_GRACE_MS - select.window.size_ms, 0)
            return {select.source.alias: grace}
        return {}

    def _order(self, groups: list[str]) -> str:
        """Return SQL that orders rows: the offset if each group is in one partition, otherwise the time."""
        alias = self._select.source.alias
        columns = [self._scope.column(alias, each) for each in ("ROWTIME", "ROWOFFSET", "ROWPARTITION")]
        keys = {self._scope.column(alias, key.name) for key in self._left.keys}
        if keys and keys <= set(groups):
            return columns[1]
        return f"struct({', '.join(columns)})"

    # The key of the result

    def _key(self, groups: list[str], partitions: list[str]) -> list[list[str]]:
        if groups:
            return [[each] for each in groups]
        if self._select.partition_by:
            return [[each] for each in partitions]
        if self._joins is not None:
            return self._joins.key
        alias = self._select.source.alias
        return [[self._scope.column(alias, column.name)] for column in self._left.keys]

    def _without_values(self, outputs: list[Output], partitions: list[str]) -> list[Output]:
        """For a tombstone, make a new key null as well, unless it derives only from the old key."""
        alias = self._select.source.alias
        keys = {key.name for key in self._left.keys}
        of_values = {
            sql
            for tree, sql in zip(self._select.partition_by, partitions, strict=False)
            for node in tree.find_all(exp.Column)
            if self._scope.own_name(node, alias) not in keys
        }
        there = f"NOT {self._scope.column(alias, DELETED)}"
        return [
            replace(each, sql=f"CASE WHEN {there} THEN {each.sql} END")
            if each.is_key and each.sql in of_values
            else each
            for each in outputs
        ]

    # SQL text

    def _sql(self, mode: Mode, outputs: list[Output], groups: list[str]) -> str:
        select, scope = self._select, self._scope
        alias = select.source.alias
        rows: list[str] = [f"{output.sql} AS {quoted(output.name)}" for output in outputs]
        times = [
            scope.column(each, "ROWTIME")
            for each, source in self._sources.items()
            if source.kind == "STREAM" or self._left.kind == "TABLE"
        ]
        time = times[0] if len(times) == 1 else f"greatest({', '.join(times)})"
        if mode == "stateful":
            time = FLOW_TIME
        rows.append(f"{f'max({time})' if self._aggregates else time} AS {ROW_TIME}")
        if select.window is not None:
            rows.append(f"{scope.replaced['WINDOWSTART']} AS {WINDOW_START}")
            rows.append(f"{scope.replaced['WINDOWEND']} AS {WINDOW_END}")
        elif self._left.window is not None and not self._aggregates:
            rows.append(f"{self._window_bound('WINDOWSTART')} AS {WINDOW_START}")
            rows.append(f"{self._window_bound('WINDOWEND')} AS {WINDOW_END}")
        where = None if select.where is None else scope.sql(select.where)
        having = None if select.having is None else scope.sql(select.having)
        conditions = [f"({group}) IS NOT NULL" for group in groups]
        if mode == "changes" or (mode == "stateful" and self._left.kind == "TABLE"):
            kept = f"coalesce({where}, false)" if where is not None else "true"
            deleted = FLOW_DELETED if mode == "stateful" else scope.column(alias, DELETED)
            rows.append(f"NOT {deleted} AND {kept} AS {KEEP}")
        elif where is not None:
            conditions.append(f"({where})")
        if self._left.kind == "STREAM" and not select.joins and mode != "stateful":
            deleted = scope.column(alias, DELETED)
            if mode == "append" and not self._aggregates and where is None and not scope.exploded:
                rows.append(f"NOT {deleted} AS {KEEP}")  # a tombstone stays a tombstone
            else:
                conditions.append(f"NOT {deleted}")
        text = f"SELECT {', '.join(rows)}\nFROM "
        text += FLOW if mode == "stateful" else f"{view(alias)} AS {quoted(alias)}"
        for join in select.joins if mode == "batch" else ():
            text += "\n" + join_clause(join, select.source.alias, scope)
        text += scope.exploding()
        if conditions:
            text += f"\nWHERE {' AND '.join(conditions)}"
        if groups:
            text += f"\nGROUP BY {', '.join([*groups, *self._window_sql()])}"
        filters = [] if having is None else [f"({having})"]
        if groups and select.window is not None and select.window.advance_ms is not None:
            filters.append("window.start >= timestamp_millis(0)")  # Kafka has no windows before time 0
        if filters:
            text += f"\nHAVING {' AND '.join(filters)}"
        if mode == "batch" and self._left.kind == "TABLE" and not select.joins and not self._aggregates:
            # ksqlDB's stores are ordered by key.
            names = [*(column.name for column in self._left.keys), *self._left.window_columns]
            text += f"\nORDER BY {', '.join(scope.column(alias, name) for name in names)}"
        if mode == "batch" and select.limit is not None:
            text += f"\nLIMIT {select.limit}"
        return text

    def _window_bound(self, name: str) -> str:
        """Return the window bound of a row. In a join, the left side may be missing."""
        bounds = [
            self._scope.column(alias, name)
            for alias, source in self._sources.items()
            if source.window is not None
        ]
        return bounds[0] if len(bounds) == 1 else f"coalesce({', '.join(bounds)})"

    def _window_sql(self) -> list[str]:
        window = self._select.window
        if window is None:
            return []
        time = f"{quoted(self._select.source.alias)}.{TIME}"
        if window.kind == "SESSION":
            return [f"session_window({time}, '{window.size_ms} milliseconds')"]
        hop = f", '{window.advance_ms} milliseconds'" if window.advance_ms is not None else ""
        return [f"window({time}, '{window.size_ms} milliseconds'{hop})"]


def _is_null(partition_by: tuple[exp.Expr, ...]) -> bool:
    return len(partition_by) == 1 and isinstance(partition_by[0], exp.Null)


def inherited_formats(plan: Plan, columns: Sequence[ColumnDefinition]) -> Mapping[str, str]:
    """Return the default formats of a query's result: those of its first source, if they can hold the columns."""
    left = plan.sources[plan.select.source.alias]
    values = [column for column in columns if not column.is_key]
    holds = left.value_format != "NONE" and (left.value_format != "KAFKA" or len(values) == 1)
    inherited = {
        "key_format": left.key_format if left.key_format != "NONE" else "KAFKA",
        "value_format": left.value_format if holds else "JSON",
    }
    for part, form in (("key", left.key_format), ("value", left.value_format)):
        if form == "DELIMITED":
            inherited[f"{part}_delimiter"] = getattr(left, f"{part}_delimiter")
    return inherited
