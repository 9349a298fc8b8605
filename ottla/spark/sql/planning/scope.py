"""Names in expressions: which column of which source is meant. Out comes Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.spark.sql.errors import Position, SqlError
from ottla.spark.sql.parsing.dialect import identifier_name
from ottla.spark.sql.planning.functions import AGGREGATES, REFUSED, UNITS_FIRST, WrongArguments, render
from ottla.spark.sql.sources import WINDOW_COLUMNS, Source

EXPLODED = "`__exploded`"


@dataclass
class Scope:
    """The sources of one query, by alias. `replaced` are names that mean an expression, such as WINDOWSTART."""

    sources: dict[str, Source]
    position: Position
    replaced: dict[str, str] = field(default_factory=dict)
    order: str = "ROWOFFSET"
    exploded: list[str] = field(default_factory=list)

    def sql(self, tree: exp.Expr) -> str:
        """The expression for Spark."""
        return _sql(self._changed(tree.copy()))

    def column(self, alias: str, name: str) -> str:
        return f"{quoted(alias)}.{quoted(name)}"

    def _changed(self, node: exp.Expr) -> exp.Expr:
        """From the leaves up, so that functions see arguments that are done."""
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Anonymous):
            return self._function(node)
        if isinstance(node, exp.Lambda):
            return self._lambda(node)
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            before = node.this
            plain = isinstance(before, exp.Identifier)
            owner = quoted(identifier_name(before)) if plain else _sql(self._changed(before))
            return exp.Var(this=f"{owner}.{quoted(identifier_name(node.expression))}")
        for child in list(node.iter_expressions()):
            changed = self._changed(child)
            if changed is not child:
                child.replace(changed)
        if isinstance(node, exp.Bracket):
            # Arrays are counted from 1, and from -1 at their end; what is not there is null.
            [index] = node.expressions
            return exp.Var(this=f"try_element_at({_sql(node.this)}, {_sql(index)})")
        if isinstance(node, exp.Cast):
            return exp.Var(this=f"try_cast({_sql(node.this)} AS {node.args['to'].sql(dialect='spark')})")
        if isinstance(node, exp.Div):
            return exp.Var(this=f"try_divide({_sql(node.this)}, {_sql(node.expression)})")
        if isinstance(node, exp.Subquery | exp.Select):
            raise SqlError("A SELECT inside an expression is not supported.", self.place(node))
        return node

    # Columns

    def _column(self, node: exp.Column) -> exp.Expr:
        parts = list(node.parts)
        names = [identifier_name(part) for part in parts]
        position = self.place(node)
        if len(names) > 1 and names[0] in self.sources and self.sources[names[0]].has(names[1]):
            found, rest = self.column(names[0], names[1]), names[2:]
        else:
            found, rest = self._unqualified(names, position), names[1:]
        return exp.Var(this=".".join([found, *map(quoted, rest)]))

    def _unqualified(self, names: Sequence[str], position: Position) -> str:
        name = names[0]
        if name in self.replaced:
            return self.replaced[name]
        owners = [alias for alias, source in self.sources.items() if source.has(name)]
        if len(owners) == 1:
            return self.column(owners[0], name)
        if len(owners) > 1:
            choices = " or ".join(f"{alias}.{name}" for alias in owners)
            raise SqlError(f"Which {name} is meant: {choices}?", position)
        if name in self.sources and len(names) > 1:
            raise SqlError(self._no_column(names[1], [name]), position)
        if name in WINDOW_COLUMNS:
            raise SqlError(f"{name} needs a WINDOW, or a source that was made with one.", position)
        raise SqlError(self._no_column(name, list(self.sources)), position)

    def _no_column(self, name: str, aliases: list[str]) -> str:
        from difflib import get_close_matches

        has = [column.name for alias in aliases for column in self.sources[alias].columns]
        close = get_close_matches(name, has, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"It has {', '.join(has)}."
        where = " and ".join(self.sources[alias].name for alias in aliases)
        return f"There is no column {name} in {where}. {hint}"

    # Functions

    def _function(self, node: exp.Anonymous) -> exp.Expr:
        name = str(node.this).upper()
        if name in REFUSED:
            raise SqlError(f"{name} is not supported; {REFUSED[name]}.", self.place(node))
        given = node.expressions
        if name in ("MAP", "STRUCT"):
            return self._built(name, given)
        arguments = []
        for i, argument in enumerate(given):
            if i == 0 and name in UNITS_FIRST:
                arguments.append(argument.name.upper().removesuffix("S"))
            else:
                arguments.append(_sql(self._changed(argument)))
        if name == "EXPLODE":
            return self._explode(node, arguments)
        if name == "COUNT" and given and isinstance(given[0], exp.Distinct):
            raise SqlError("COUNT(DISTINCT …) is not supported; use COUNT_DISTINCT(…).", self.place(node))
        if name == "FILTER" and len(given) == 2 and _parameters(given[1]) == 2:
            return exp.Var(this=f"map_filter({', '.join(arguments)})")
        if name == "TRANSFORM" and len(given) == 3:
            source, keys, values = arguments
            return exp.Var(this=f"transform_keys(transform_values({source}, {values}), {keys})")
        try:
            rendered = render(name, arguments, self.order)
        except WrongArguments as error:
            raise SqlError(f"{error}.", self.place(node)) from None
        return exp.Var(this=rendered or f"{name}({', '.join(arguments)})")

    def _built(self, name: str, given: list[exp.Expr]) -> exp.Expr:
        """MAP('a' := 1) and STRUCT(a := 1)."""
        parts: list[str] = []
        for each in given:
            if not isinstance(each, exp.PropertyEQ):
                raise SqlError(f"{name} is written {name}(… := …).", self.place(each))
            if name == "MAP":
                parts.append(_sql(self._changed(each.this)))
            else:
                field_name = each.this.this if isinstance(each.this, exp.Column) else each.this
                parts.append("'" + identifier_name(field_name).replace("'", "\\'") + "'")
            parts.append(_sql(self._changed(each.expression)))
        return exp.Var(this=f"{'map' if name == 'MAP' else 'named_struct'}({', '.join(parts)})")

    def _explode(self, node: exp.Anonymous, arguments: list[str]) -> exp.Expr:
        if len(arguments) != 1:
            raise SqlError("EXPLODE takes 1 argument.", self.place(node))
        if arguments[0] not in self.exploded:
            self.exploded.append(arguments[0])
        if len(self.exploded) > 1:
            raise SqlError(
                "Two EXPLODEs in one SELECT are not supported; CREATE STREAM … AS SELECT the first.",
                self.place(node),
            )
        return exp.Var(this=EXPLODED)

    def _lambda(self, node: exp.Lambda) -> exp.Expr:
        names = [identifier_name(each) for each in node.expressions]
        inner = replace(self, replaced=self.replaced | {name: quoted(name) for name in names})
        # sqlglot has made bare identifiers of the parameters; they are names like others here.
        body = node.this.copy().transform(
            lambda each: (
                exp.Column(this=each.copy())
                if isinstance(each, exp.Identifier) and not isinstance(each.parent, exp.Column | exp.Dot)
                else each
            )
        )
        written = ", ".join(quoted(name) for name in names)
        parameters = written if len(names) == 1 else f"({written})"
        return exp.Var(this=f"{parameters} -> {_sql(inner._changed(body))}")

    # Places

    def place(self, node: exp.Expr) -> Position:
        for each in node.find_all(exp.Identifier, exp.Literal):
            line, column, start, end = (each.meta.get(name) for name in ("line", "col", "start", "end"))
            if line is not None and column is not None:
                length = 0 if start is None or end is None else end - start
                return Position(line, max(column - length, 1))
        return self.position


def _sql(node: exp.Expr) -> str:
    return str(node.sql(dialect="spark"))


def _parameters(node: exp.Expr) -> int:
    return len(node.expressions) if isinstance(node, exp.Lambda) else 0


def has_aggregate(tree: exp.Expr | None) -> bool:
    return tree is not None and any(
        str(node.this).upper() in AGGREGATES for node in tree.find_all(exp.Anonymous)
    )
