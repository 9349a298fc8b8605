"""Checks for SELECTs that ksqlDB refuses: misplaced aggregates and table functions, and non-boolean conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlglot import exp

from ottla.sql.errors import SqlError
from ottla.sql.parsing.dialect import identifier_name
from ottla.sql.parsing.statements import Select
from ottla.sql.planning.expression_texts import shown, type_text
from ottla.sql.planning.functions import AGGREGATES, names
from ottla.sql.planning.scope import Scope
from ottla.sql.sources import WINDOW_COLUMNS, map_key
from ottla.sql.sql_types import has_map


def check_select(select: Select, scope: Scope, groups: Sequence[str], *, batch: bool) -> None:
    """Check a SELECT. `groups` is GROUP BY as Spark SQL. `batch` marks a pull query, which has fewer limits here."""
    for clause, trees in (
        ("WHERE", [select.where]),
        ("GROUP BY", select.group_by),
        ("PARTITION BY", select.partition_by),
    ):
        for tree in trees:
            _no_aggregate(tree, clause, scope)
    for clause, trees in (
        ("WHERE", [select.where]),
        ("HAVING", [select.having]),
        ("GROUP BY", select.group_by),
        ("PARTITION BY", select.partition_by),
    ):
        for tree in trees:
            _no_table_function(tree, clause, scope)
    for clause, tree in (("WHERE", select.where), ("HAVING", select.having)):
        _is_condition(tree, clause, scope)
    if select.window is not None:
        _check_bounds(select, scope)
    source = scope.sources[select.source.alias]
    if select.partition_by and source.window is not None:
        raise SqlError(
            f"PARTITION BY of {source.name} is not supported, because its keys have windows.",
            scope.place(select.partition_by[0]),
        )
    _is_a_key((*select.group_by, *select.partition_by), scope)
    for item in select.items:
        if item.expression is not None:
            _not_nested(item.expression, scope)
            if source.kind == "TABLE" and not batch and any(_table_functions(item.expression, scope)):
                raise SqlError(
                    "Table source is not supported with table functions", scope.place(item.expression)
                )
            if select.group_by and any(_table_functions(item.expression, scope)):
                raise SqlError(
                    "Table functions cannot be used with aggregations.",
                    scope.place(item.expression),
                )
    if select.group_by:
        _check_groups(select, scope, groups, batch)


_KNOWN = {*names(), "MAP", "STRUCT"}
_TABLE_FUNCTIONS = {"EXPLODE", "CUBE_EXPLODE"}


def _aggregates(tree: exp.Expr | None, scope: Scope) -> Iterator[exp.Anonymous]:
    return _calls(tree, AGGREGATES, "AGGREGATE", scope)


def _table_functions(tree: exp.Expr | None, scope: Scope) -> Iterator[exp.Anonymous]:
    return _calls(tree, _TABLE_FUNCTIONS, "TABLE", scope)


def _calls(tree: exp.Expr | None, names: Collection[str], kind: str, scope: Scope) -> Iterator[exp.Anonymous]:
    if tree is not None:
        for node in tree.find_all(exp.Anonymous):
            user = scope.functions.get(str(node.this).upper())
            if str(node.this).upper() in names or (user is not None and user.kind == kind):
                yield node


def _no_aggregate(tree: exp.Expr | None, clause: str, scope: Scope) -> None:
    for node in _aggregates(tree, scope):
        other = " Use HAVING." if clause == "WHERE" else ""
        raise SqlError(
            f"{clause} does not support aggregate functions: "
            f"{str(node.this).upper()} is an aggregate function.{other}",
            scope.place(tree or node),
        )


def _no_table_function(tree: exp.Expr | None, clause: str, scope: Scope) -> None:
    for node in _table_functions(tree, scope):
        raise SqlError(
            f"{clause} cannot have table functions, and {str(node.this).upper()} is one.", scope.place(node)
        )


def _not_nested(tree: exp.Expr, scope: Scope) -> None:
    for node in _aggregates(tree, scope):
        for argument in node.expressions:
            inner = next(_aggregates(argument, scope), None)
            if inner is not None:
                raise SqlError(f"Aggregate functions can not be nested: {shown(node)}.", scope.place(node))


def _check_bounds(select: Select, scope: Scope) -> None:
    """Refuse window bounds outside the SELECT clause, because they are known only after grouping."""
    listed = [item.expression for item in select.items if item.expression is not None]
    inside = [node for tree in listed for node in _aggregates(tree, scope)]
    for tree in (select.where, select.having, *select.group_by, *inside):
        for node in () if tree is None else tree.find_all(exp.Column):
            if node.name.upper() in WINDOW_COLUMNS:
                raise SqlError(
                    f"Window bounds column {node.name.upper()} can only be used in the SELECT clause of windowed "
                    "aggregations and can not be passed to aggregate functions.",
                    scope.place(node),
                )


def _is_condition(tree: exp.Expr | None, clause: str, scope: Scope) -> None:
    if tree is None:
        return
    try:
        scope.sql_in(clause, tree)
    except SqlError as error:
        raise SqlError(f"Error in {clause} expression: {error.message}", error.position) from None
    kind = scope.type_of(tree)
    if kind is not None and kind.name != "BOOLEAN":
        raise SqlError(
            f"Type error in {clause} expression: Should evaluate to boolean but is {shown(tree)} "
            f"({type_text(kind)}) instead.",
            scope.place(tree),
        )


def _is_a_key(trees: Sequence[exp.Expr], scope: Scope) -> None:
    for tree in trees:
        kind = scope.type_of(tree)
        if kind is not None and has_map(kind):
            name = identifier_name(tree.parts[-1]) if isinstance(tree, exp.Column) else "KSQL_COL_0"
            raise map_key(name, kind, scope.place(tree))


def _check_groups(select: Select, scope: Scope, groups: Sequence[str], batch: bool) -> None:
    for number, group in enumerate(groups):
        if group in groups[:number]:
            tree = select.group_by[number]
            raise SqlError(f"Duplicate GROUP BY expression: {shown(tree)}.", scope.place(tree))
    trees = [item.expression for item in select.items if item.expression is not None]
    aggregates = [node for tree in (*trees, select.having) for node in _aggregates(tree, scope)]
    if not batch and not aggregates:
        for tree in trees:
            for call in tree.find_all(exp.Anonymous):
                name = str(call.this).upper()
                if name not in _KNOWN and scope.functions.get(name) is None:
                    raise SqlError(f"Can't find any functions with the name '{name}'.", scope.place(call))
        raise SqlError(
            "GROUP BY requires aggregate functions in either the SELECT or HAVING clause.",
            scope.place(select.group_by[0]),
        )
    for item in select.items:
        if item.expression is None:
            raise SqlError("* cannot be used with GROUP BY: name the groups and aggregates.", item.position)
        loose = _not_grouped(item.expression, scope, set(groups))
        if loose is not None:
            raise SqlError(
                f"Non-aggregate SELECT expression(s) not part of GROUP BY: {shown(item.expression)}. "
                "Either add the column(s) to the GROUP BY or remove them from the SELECT.",
                scope.place(loose),
            )


def _not_grouped(tree: exp.Expr, scope: Scope, groups: set[str]) -> exp.Expr | None:
    if isinstance(tree, exp.Lambda) or any(node is tree for node in _aggregates(tree, scope)):
        return None
    has_column = tree.find(exp.Column) is not None and not any(_aggregates(tree, scope))
    if has_column and scope.sql(tree.unnest()) in groups:
        return None
    if isinstance(tree, exp.Column):
        name = tree.name.upper()
        return None if name in scope.replaced or name in ("WINDOWSTART", "WINDOWEND") else tree
    if isinstance(tree, exp.PropertyEQ):
        return _not_grouped(tree.expression, scope, groups)
    for child in tree.iter_expressions():
        loose = _not_grouped(child, scope, groups)
        if loose is not None:
            return loose
    return None
