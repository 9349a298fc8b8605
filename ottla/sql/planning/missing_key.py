"""ksqlDB's error for a SELECT that lacks the key of its target topic."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.sql.parsing.statements import Select
from ottla.sql.planning.join_plan import Joins
from ottla.sql.planning.projection import Output
from ottla.sql.planning.scope import Scope
from ottla.sql.planning.written import written


def missing_key(
    select: Select, scope: Scope, joins: Joins | None, key_sql: Sequence[Sequence[str]], outputs: list[Output]
) -> str | None:
    """Return the error, or None if the key is complete. `key_sql` lists the expressions equal to each key column."""
    there = {output.sql for output in outputs if output.is_key}
    if all(there & set(choices) for choices in key_sql):
        return None
    if select.group_by:
        return _all("grouping expression", [written(each, scope) for each in select.group_by])
    if select.partition_by:
        return _all("partitioning expression", [written(each, scope) for each in select.partition_by])
    left = scope.sources[select.source.alias]
    if joins is None:
        return _all("key column", [key.name for key in left.keys])
    if joins.row_key is not None:
        name = joins.row_key
        return (
            f"{_all('join expression', [name])} {name} was added as a synthetic key column because the join "
            "criteria did not match any source column. This expression must be included in the projection and "
            "may be aliased."
        )
    if joins.value is None:
        return _all("key column", [f"{select.source.alias}.{key.name}" for key in left.keys])
    return _one_of([each.replace("`", "") for each in joins.key[0]])


def _all(what: str, names: list[str]) -> str:
    *most, last = names
    listed = f"{', '.join(most)} and {last}" if most else last
    return _must(f"{what}{'s' if most else ''} {listed}", ", ".join(names))


def _one_of(names: list[str]) -> str:
    *most, last = names
    listed = f"{', '.join(most)} or {last}" if most else last
    return _must(f"join expression{'s' if most else ''} {listed}", names[0])


def _must(listed: str, example: str) -> str:
    return f"must include the {listed} in its projection (eg, SELECT {example}...)."
