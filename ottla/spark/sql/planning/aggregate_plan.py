"""A SELECT with GROUP BY in three parts: what each record brings along, what is aggregated, and the columns of that.

The first and the last are SQL; in the last one the groups and the results of aggregates are columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.spark.sql.errors import SqlError
from ottla.spark.sql.planning.functions import AGGREGATES, WrongArguments, render
from ottla.spark.sql.planning.functions.rules import Argument
from ottla.spark.sql.planning.scope import Scope, has_aggregate
from ottla.spark.sql.sql_types import SqlType
from ottla.spark.sql.stateful.aggregates import AggregateCall, settings_of
from ottla.spark.sql.user_functions.catalogue import chosen, refusal, wanted


def group_column(number: int) -> str:
    return f"__group_{number}"


def argument_column(call: int, number: int) -> str:
    return f"__arg_{call}_{number}"


def result_column(number: int, *, before: bool = False) -> str:
    return f"__before_{number}" if before else f"__result_{number}"


@dataclass
class GroupedScope(Scope):
    """Expressions over groups. What is a group, or an aggregate, becomes a column; all else must be made of them."""

    groups: list[str] = field(default_factory=list)  # as SQL over the sources
    calls: list[tuple[AggregateCall, list[str]]] = field(default_factory=list)  # with their arguments as SQL
    types: list[SqlType | None] = field(default_factory=list)  # of the results
    of_rows: Scope | None = None

    @classmethod
    def over(cls, scope: Scope, groups: list[str]) -> GroupedScope:
        return cls(
            scope.sources,
            scope.position,
            dict(scope.replaced),
            functions=scope.functions,
            groups=groups,
            of_rows=scope,
        )

    def _changed(self, node: exp.Expr) -> exp.Expr:
        if not self.parameters:
            number = self._group(node)
            if number is not None:
                return exp.Var(this=quoted(group_column(number)))
        if isinstance(node, exp.Anonymous) and has_aggregate(exp.Anonymous(this=node.this), self.functions):
            return self._aggregate(node, str(node.this).upper())
        return super()._changed(node)

    def _group(self, node: exp.Expr) -> int | None:
        if isinstance(node, exp.Literal | exp.Identifier | exp.Star) or has_aggregate(node, self.functions):
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
        super()._column(node)  # says so if there is no such column
        raise SqlError(
            f"Non-aggregate SELECT expression(s) not part of GROUP BY: {node.name.upper()}. "
            "Either add the column(s) to the GROUP BY or remove them from the SELECT.",
            self.place(node),
        )

    def _aggregate(self, node: exp.Anonymous, name: str) -> exp.Expr:
        assert self.of_rows is not None
        where, given = self.place(node), node.expressions
        if given and isinstance(given[0], exp.Distinct):
            raise SqlError("COUNT(DISTINCT …) is not supported; use COUNT_DISTINCT(…).", where)
        if any(has_aggregate(each, self.functions) for each in given):
            raise SqlError("Aggregate functions can not be nested.", where)
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
        return exp.Var(this=quoted(result_column(self.calls.index(entry))))

    def _own(self, node: exp.Anonymous, name: str, given: list[Argument]) -> tuple[AggregateCall, list[str]]:
        try:
            render(name, given, "")  # so many arguments must there be
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
