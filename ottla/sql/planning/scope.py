"""Resolution of column names and translation of expressions to Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.sql.errors import Position, SqlError
from ottla.sql.parsing.dialect import identifier_name
from ottla.sql.planning.coercion import NotCoercible, coerced, coerced_list, common_type, member_of
from ottla.sql.planning.comparisons import OPERATORS, compared
from ottla.sql.planning.comparisons import refusal as refusal_to_compare
from ottla.sql.planning.expression_texts import shown, type_text
from ottla.sql.planning.expression_types import cast_type, field_type, type_of
from ottla.sql.planning.functions import AGGREGATES, UNITS_FIRST, WrongArguments, render
from ottla.sql.planning.functions.aggregates import listed
from ottla.sql.planning.functions.casts import can_cast, cast
from ottla.sql.planning.functions.rules import BIGINT, INTEGERS, NUMBERS, STRING, Argument, array_of
from ottla.sql.planning.pseudo_times import with_milliseconds
from ottla.sql.sources import WINDOW_COLUMNS, Source
from ottla.sql.sql_types import SqlType
from ottla.sql.user_functions import UserFunction, UserFunctions
from ottla.sql.user_functions.catalogue import chosen, refusal, wanted
from ottla.sql.user_functions.running import spark_name

EXPLODED = "__exploded"


@dataclass
class Scope:
    """Sources of one query by alias. `replaced` maps names such as WINDOWSTART to expressions."""

    sources: dict[str, Source]
    position: Position
    replaced: dict[str, str] = field(default_factory=dict)
    order: str = "ROWOFFSET"
    exploded: list[str] = field(default_factory=list)
    #: Types of lambda parameters, as far as known.
    parameters: dict[str, SqlType | None] = field(default_factory=dict)
    #: User functions in Python.
    functions: UserFunctions = field(default_factory=UserFunctions)
    #: Current clause, for error messages.
    clause: str = "SELECT"

    def sql(self, tree: exp.Expr) -> str:
        return _sql(self._changed(tree.copy()))

    def sql_in(self, clause: str, tree: exp.Expr) -> str:
        self.clause, before = clause, self.clause
        try:
            return self.sql(tree)
        finally:
            self.clause = before

    def column(self, alias: str, name: str) -> str:
        return f"{quoted(alias)}.{quoted(name)}"

    def _changed(self, node: exp.Expr) -> exp.Expr:
        """Translate from the leaves up, so that functions see translated arguments."""
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
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if type(node) in OPERATORS or isinstance(node, exp.Between):
            node = with_milliseconds(node)
        if type(node) in OPERATORS:
            return self._comparison(node)
        if isinstance(node, exp.In | exp.Array):
            return self._listed(node)
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.Bracket):
            return self._by_type(node)
        if isinstance(node, exp.Case):
            self._check_case(node)
        if isinstance(node, exp.Between | exp.Like | exp.Connector | exp.Not):
            self._check_condition(node)
        if isinstance(node, exp.Literal):
            self._check_number(node)
        for child in list(node.iter_expressions()):
            changed = self._changed(child)
            if changed is not child:
                child.replace(changed)
        if isinstance(node, exp.Subquery | exp.Select):
            raise SqlError("A SELECT inside an expression is not supported.", self.place(node))
        return exp.Var(this=f"coalesce({_sql(node)}, false)") if isinstance(node, exp.Between) else node

    def _comparison(self, node: exp.Expr) -> exp.Expr:
        where = self.place(node)
        reason = refusal_to_compare(node, self.type_of(node.this), self.type_of(node.expression))
        if reason is not None:
            raise SqlError(reason, where)
        return exp.Var(this=compared(node, self._argument(node.this), self._argument(node.expression)))

    def _listed(self, node: exp.In | exp.Array) -> exp.Expr:
        where, given = self.place(node), node.expressions

        def sql_of(each: exp.Expr) -> str:
            return self.sql(exp.Column(this=each) if isinstance(each, exp.Identifier) else each)

        try:
            if isinstance(node, exp.In) and not given and node.args.get("query") is None:
                raise NotCoercible("mismatched input ')' expecting an expression: IN () has no values")
            if isinstance(node, exp.In):
                written = member_of(node.this, given, self.type_of, sql_of) if given else None
            elif not given:
                raise NotCoercible("Array constructor cannot be empty. Please supply at least one element")
            elif all(isinstance(each, exp.Null) for each in given):
                raise NotCoercible("Cannot construct an array with all NULL elements. CAST one of them")
            else:
                target = array_of(common_type(given, self.type_of))
                written = None if target is None else coerced(node, target, self.type_of, sql_of)
        except NotCoercible as error:
            raise SqlError(f"{error}.", where) from None
        if written is not None:
            return exp.Var(this=written)
        for child in list(node.iter_expressions()):
            child.replace(self._changed(child))
        return node

    def _cast(self, node: exp.Cast) -> exp.Expr:
        target = cast_type(node.args["to"])
        if target is None:
            raise SqlError(f"{node.args['to'].sql().upper()} is not a type to CAST to.", self.place(node))
        where = self.place(node)
        value = self._argument(node.this)
        if value.type is not None and not can_cast(value.type, target):
            hint = "; use FROM_BYTES" if value.is_a("BYTES") else ""
            raise SqlError(
                f"Cast of {type_text(value.type)} to {type_text(target)} is not supported{hint}.", where
            )
        return exp.Var(this=cast(value, target))

    def _by_type(self, node: exp.Expr) -> exp.Expr:
        """Translate operators whose Spark form depends on the operand types."""
        where = self.place(node)
        left = self._argument(node.this)
        if isinstance(node, exp.Bracket):
            # Array indexes start at 1, or at -1 from the end. Missing elements are null.
            [index] = node.expressions
            place = self._argument(index)
            if place.is_a(*INTEGERS) and not (place.sql.lstrip("-").isdigit() and place.sql != "0"):
                place = Argument(f"nullif({place.sql}, 0)")
            return exp.Var(this=f"try_element_at({left.sql}, {place.sql})")
        right = self._argument(node.expression)
        if isinstance(node.this, exp.Null) or isinstance(node.expression, exp.Null):
            kinds = " ".join("null" if each.type is None else each.type.name for each in (left, right))
            raise SqlError(f"Unsupported arithmetic types. {kinds}; CAST one of them.", where)
        texts = isinstance(node, exp.Add) and left.is_a("STRING") and right.is_a("STRING")
        if left.type and right.type and not texts and not (left.is_a(*NUMBERS) and right.is_a(*NUMBERS)):
            raise SqlError(
                f"Unsupported arithmetic types. {left.type.name} {right.type.name}; CAST one of them.", where
            )
        if isinstance(node, exp.Sub | exp.Mul | exp.Mod):
            operator = {exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}[type(node)]
            return exp.Var(this=f"{left.sql} {operator} {right.sql}")
        if isinstance(node, exp.Div):
            if left.is_a(*INTEGERS) and right.is_a(*INTEGERS):
                kind = "BIGINT" if "BIGINT" in (_name(left), _name(right)) else "INT"
                return exp.Var(this=f"CAST(({left.sql}) div ({right.sql}) AS {kind})")
            return exp.Var(this=f"try_divide({left.sql}, {right.sql})")
        if left.is_a("STRING") or right.is_a("STRING"):
            return exp.Var(this=f"concat({left.sql}, {right.sql})")
        return exp.Var(this=f"{left.sql} + {right.sql}")

    def _check_condition(self, node: exp.Expr) -> None:
        """Refuse operands that ksqlDB refuses: texts beside numbers, and conditions that are not boolean."""
        reason: str | None = None
        if isinstance(node, exp.Between):
            for operator, bound in ((exp.GTE, node.args["low"]), (exp.LTE, node.args["high"])):
                pair = operator(this=node.this.copy(), expression=bound.copy())
                reason = reason or refusal_to_compare(pair, self.type_of(node.this), self.type_of(bound))
        elif isinstance(node, exp.Like):
            for side in (node.this, node.expression):
                kind = self.type_of(side)
                if kind is not None and kind.name != "STRING":
                    reason = (
                        f"Like condition must be between strings, and {shown(side)} is {type_text(kind)}."
                    )
        else:
            for side in node.iter_expressions():
                kind = self.type_of(side)
                if kind is not None and kind.name != "BOOLEAN":
                    reason = f"{shown(side)} should evaluate to boolean but is {type_text(kind)} instead."
        if reason is not None:
            raise SqlError(reason, self.place(node))

    def _check_number(self, node: exp.Literal) -> None:
        if node.is_string or not node.name.isdigit():
            return
        limit = (1 << 63) + isinstance(node.parent, exp.Neg)
        if int(node.name) >= limit:
            raise SqlError(f"Invalid numeric literal: {node.name} is beyond BIGINT.", self.place(node))

    def _check_case(self, node: exp.Case) -> None:
        for each in node.args["ifs"]:
            kind = self.type_of(each.this)
            if kind is not None and kind.name != "BOOLEAN" and node.this is None:
                raise SqlError(
                    f"WHEN operand type should be boolean, and {shown(each.this)} is {type_text(kind)}.",
                    self.place(node),
                )
        results = [each.args["true"] for each in node.args["ifs"]]
        if node.args.get("default") is not None:
            results.append(node.args["default"])
        results = [each for each in results if not isinstance(each, exp.Null)]
        if not results:
            raise SqlError("Invalid Case expression. All case branches have NULL type.", self.place(node))
        try:
            common_type(results, self.type_of)
        except NotCoercible as error:
            raise SqlError(
                f"Invalid Case expression. Type for all 'THEN' clauses should be the same: {error}.",
                self.place(node),
            ) from None

    # Types

    def _argument(self, node: exp.Expr) -> Argument:
        kind = self.type_of(node)
        return Argument(_sql(self._changed(node)), kind)

    def type_of(self, node: exp.Expr) -> SqlType | None:
        """Return the type, or None if only Spark knows it."""
        return type_of(node, self._name_type, self.functions)

    def _name_type(self, node: exp.Expr) -> SqlType | None:
        names = [identifier_name(part) for part in (node.parts if isinstance(node, exp.Column) else [node])]
        if names[0] in self.parameters:
            return field_type(self.parameters[names[0]], names[1:])
        if names[0] in self.replaced:
            return BIGINT if names[0] in WINDOW_COLUMNS else None
        if len(names) > 1 and names[0] in self.sources and names[1] in WINDOW_COLUMNS:
            return BIGINT
        owners = list(self.sources.values())
        if len(names) > 1 and names[0] in self.sources and self.sources[names[0]].has(names[1]):
            owners, names = [self.sources[names[0]]], names[1:]
        for source in owners:
            for column in source.columns:
                if column.name == names[0]:
                    return field_type(column.type, names[1:])
        return BIGINT if names[0] in ("ROWTIME", "ROWOFFSET", *WINDOW_COLUMNS) else None

    # Columns

    def own_name(self, node: exp.Column, alias: str) -> str:
        names = [identifier_name(part) for part in node.parts]
        return names[1] if len(names) > 1 and names[0] == alias else names[0]

    def _column(self, node: exp.Column) -> exp.Expr:
        parts = list(node.parts)
        names = [identifier_name(part) for part in parts]
        position = self.place(node)
        qualified = len(names) > 1 and names[0] in self.sources
        if qualified and names[1] in self.replaced and names[1] in WINDOW_COLUMNS:
            found, rest = self.replaced[names[1]], names[2:]
        elif qualified and self.sources[names[0]].has(names[1]):
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
            raise SqlError(f"Column '{name}' is ambiguous. Could be {choices}.", position)
        if name in self.sources and len(names) > 1:
            raise SqlError(self._no_column(names[1], [name]), position)
        if name in WINDOW_COLUMNS:
            raise SqlError(f"{name} needs a WINDOW, or a source that was made with one.", position)
        if len(names) > 1 and len(self.sources) > 1:
            raise SqlError(f"'{name}' is not a valid stream/table name or alias.", position)
        raise SqlError(self._no_column(name, list(self.sources)), position)

    def _no_column(self, name: str, aliases: list[str]) -> str:
        from difflib import get_close_matches

        has = [column.name for alias in aliases for column in self.sources[alias].columns]
        close = get_close_matches(name, has, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"It has {', '.join(has)}."
        where = " and ".join(self.sources[alias].name for alias in aliases)
        return (
            f"{self.clause} column '{name}' cannot be resolved. There is no column {name} in {where}. {hint}"
        )

    # Functions

    def _function(self, node: exp.Anonymous) -> exp.Expr:
        name = str(node.this).upper()
        given = node.expressions
        if name == "COUNT" and given and isinstance(given[0], exp.Distinct):
            raise SqlError("COUNT(DISTINCT …) is not supported; use COUNT_DISTINCT(…).", self.place(node))
        if name in ("MAP", "STRUCT"):
            return self._built(node, name, given)
        if name in ("TRANSFORM", "FILTER", "REDUCE") and given:
            return self._invocation(node, name, given)
        given = self.aggregate_arguments(name, given)
        if any(isinstance(each, exp.Star) for each in given):
            raise SqlError(
                f"Function '{name}' does not accept parameters (*); name columns.", self.place(node)
            )
        arguments = []
        for i, argument in enumerate(given):
            if i == 0 and name in UNITS_FIRST:
                arguments.append(Argument(argument.name.upper().removesuffix("S")))
            else:
                arguments.append(self._argument(argument))
        if name == "EXPLODE":
            return self._explode(node, [each.sql for each in arguments])
        user = self.functions.get(name)
        if user is not None:
            return self._user_function(node, user, arguments)
        try:
            rendered = render(name, arguments, self.order)
        except WrongArguments as error:
            raise SqlError(f"{error}.", self.place(node)) from None
        if name == "CUBE_EXPLODE" and rendered is not None:
            return self._explode(node, [rendered])
        return exp.Var(this=rendered or f"{name}({', '.join(each.sql for each in arguments)})")

    def _invocation(self, node: exp.Anonymous, name: str, given: list[exp.Expr]) -> exp.Expr:
        """Translate TRANSFORM, FILTER and REDUCE. The number of lambda parameters tells arrays from maps."""
        lambdas = [each for each in given[1:] if isinstance(each, exp.Lambda)]
        wanted = {"TRANSFORM": (2, 3), "FILTER": (2,), "REDUCE": (3,)}[name]
        if len(given) not in wanted or len(lambdas) != len(given) - (2 if name == "REDUCE" else 1):
            raise SqlError(
                f"{name} takes a collection{', a start' if name == 'REDUCE' else ''} and a lambda, x => ….",
                self.place(node),
            )
        source = self._argument(given[0])
        inner = None if source.type is None else source.type.element
        parameters = len(lambdas[0].expressions)
        if name == "REDUCE":
            return self._reduced(source, self._argument(given[1]), lambdas[0])
        if parameters == 1:
            [one] = lambdas[:1]
            made = f"{name.lower()}({source.sql}, {self._lambda_sql(one, [inner])})"
            return exp.Var(
                this=_whole(made, made) if name == "TRANSFORM" and _calculates(one, inner) else made
            )
        if name == "FILTER":
            return exp.Var(this=f"map_filter({source.sql}, {self._lambda_sql(lambdas[0], [STRING, inner])})")
        if len(lambdas) != 2:
            raise SqlError(
                "TRANSFORM of a map takes two lambdas: of the key and of the value.", self.place(node)
            )
        (names, keys), (other, values) = (self._lambda_parts(each, [STRING, inner]) for each in lambdas)
        # Both lambdas see the original entry.
        entry = f"map_entries({source.sql})"
        pair = (
            f"struct(transform(array(e.key), {names[0]} -> transform(array(e.value), {names[1]} -> {keys})[0])[0], "
            f"transform(array(e.key), {other[0]} -> transform(array(e.value), {other[1]} -> {values})[0])[0])"
        )
        pairs = f"transform({entry}, e -> {pair})"
        new = f"transform({pairs}, e -> e.col1)"
        # As in ksqlDB, duplicate or null keys make the result null.
        made = (
            f"CASE WHEN size(array_distinct({new})) = size({new}) AND NOT exists({new}, k -> k IS NULL) THEN "
        )
        made += f"map_from_entries({pairs}) END"
        return exp.Var(
            this=_whole(f"transform({pairs}, e -> e.col2)", made) if _calculates(lambdas[1], inner) else made
        )

    def _reduced(self, source: Argument, start: Argument, node: exp.Lambda) -> exp.Expr:
        inner = None if source.type is None else source.type.element
        if len(node.expressions) == 2:
            body = self._lambda_sql(node, [start.type, inner])
            reduced = f"aggregate({source.sql}, {start.sql}, {body})"
        else:
            (state, key, value), body = self._lambda_parts(node, [start.type, STRING, inner])
            one = f"transform(array(e.key), {key} -> transform(array(e.value), {value} -> {body})[0])[0]"
            reduced = f"aggregate(map_entries({source.sql}), {start.sql}, ({state}, e) -> {one})"
        return exp.Var(this=f"CASE WHEN {source.sql} IS NULL THEN {start.sql} ELSE {reduced} END")

    def _built(self, node: exp.Anonymous, name: str, given: list[exp.Expr]) -> exp.Expr:
        for each in given:
            if not isinstance(each, exp.PropertyEQ):
                raise SqlError(f"{name} is written {name}(… := …).", self.place(each))
        if name == "MAP":
            return self._map(node, given)
        names = [
            identifier_name(each.this.this if isinstance(each.this, exp.Column) else each.this)
            for each in given
        ]
        if len(set(names)) < len(names):
            twice = next(each for each in names if names.count(each) > 1)
            raise SqlError(f"Duplicate field names found in STRUCT: {twice}.", self.place(node))
        parts = []
        for field_name, each in zip(names, given, strict=True):
            parts += ["'" + field_name.replace("'", "\\'") + "'", _sql(self._changed(each.expression))]
        return exp.Var(this=f"named_struct({', '.join(parts)})")

    def _map(self, node: exp.Anonymous, given: list[exp.Expr]) -> exp.Expr:
        keys = [
            exp.Column(this=each.this.copy()) if isinstance(each.this, exp.Identifier) else each.this
            for each in given
        ]
        values = [each.expression for each in given]
        where = self.place(node)
        if not given:
            raise SqlError(
                "Map constructor cannot be empty. Please supply at least one key value pair.", where
            )
        for trees, part in ((keys, "keys"), (values, "values")):
            if all(isinstance(each, exp.Null) for each in trees):
                raise SqlError(f"Cannot construct a map with all NULL {part}; CAST one of them.", where)
        try:
            written = [coerced_list(trees, self.type_of, self.sql) for trees in (keys, values)]
        except NotCoercible as error:
            raise SqlError(f"{error}.", where) from None
        # A null key becomes the text null; Spark would end the query.
        safe = [key if key.startswith("'") else f"coalesce({key}, 'null')" for key in written[0]]
        pairs = [f"{key}, {value}" for key, value in zip(safe, written[1], strict=True)]
        return exp.Var(this=f"map({', '.join(pairs)})")

    def aggregate_arguments(self, name: str, given: list[exp.Expr]) -> list[exp.Expr]:
        """Expand `*`. COUNT(*) counts rows; other aggregates use ROWTIME for `*` or no argument, as in ksqlDB."""
        if name not in AGGREGATES or (given and not isinstance(given[0], exp.Star)):
            return given
        if name == "COUNT":
            return [exp.Literal.number(1)]
        alias = exp.to_identifier(next(iter(self.sources)), quoted=True)
        return [exp.Column(this=exp.to_identifier("ROWTIME", quoted=True), table=alias)]

    def _user_function(self, node: exp.Anonymous, function: UserFunction, given: list[Argument]) -> exp.Expr:
        types = [each.type for each in given]
        number = chosen(function, types)
        if number is None:
            raise SqlError(refusal(function, types), self.place(node))
        if self.parameters:
            raise SqlError(
                f"{function.name} is a function of Python, which no lambda can call.", self.place(node)
            )
        overload = function.overloads[number]
        name = spark_name(function.name, number, function.kind)
        written = [
            each.sql if each.type == kind.type else f"CAST({each.sql} AS {kind.type.ddl})"
            for each, kind in zip(given, wanted(overload, len(given)), strict=True)
        ]
        if function.kind == "AGGREGATE":
            values = written[: len(written) - len(overload.settings)]
            row = ", ".join(f"{each} AS c{i}" for i, each in enumerate(values))
            rows = listed(f"struct({row})").replace("{order}", self.order)
            return exp.Var(this=f"{name}({', '.join([rows, *written[len(values) :]])})")
        # Spark requires at least one argument.
        call = f"{name}({', '.join(written) or '0'})"
        return self._explode(node, [call]) if function.kind == "TABLE" else exp.Var(this=call)

    def _explode(self, node: exp.Anonymous, arguments: list[str]) -> exp.Expr:
        """Several table functions are zipped row by row, padded with null."""
        if len(arguments) != 1:
            raise SqlError("EXPLODE takes 1 argument.", self.place(node))
        if EXPLODED in arguments[0]:
            raise SqlError("A table function cannot be the argument of another one.", self.place(node))
        if arguments[0] not in self.exploded:
            self.exploded.append(arguments[0])
        return exp.Var(this=quoted(f"{EXPLODED}_{self.exploded.index(arguments[0])}"))

    def exploding(self) -> str:
        """Return the clause that turns the results of table functions into rows, or an empty string."""
        if not self.exploded:
            return ""
        names = ", ".join(quoted(f"{EXPLODED}_{number}") for number in range(len(self.exploded)))
        if len(self.exploded) == 1:
            return f"\nLATERAL VIEW explode({self.exploded[0]}) `__explode` AS {names}"
        lists = ", ".join(f"coalesce({each}, array())" for each in self.exploded)
        return f"\nLATERAL VIEW inline(arrays_zip({lists})) `__explode` AS {names}"

    def _lambda(self, node: exp.Lambda) -> exp.Expr:
        return exp.Var(this=self._lambda_sql(node, [None] * len(node.expressions)))

    def _lambda_sql(self, node: exp.Lambda, types: Sequence[SqlType | None]) -> str:
        names, body = self._lambda_parts(node, types)
        return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} -> {body}"

    def _lambda_parts(self, node: exp.Lambda, types: Sequence[SqlType | None]) -> tuple[list[str], str]:
        """Return the names of the parameters and the body."""
        names = [identifier_name(each) for each in node.expressions]
        inner = replace(
            self,
            replaced=self.replaced | {name: quoted(name) for name in names},
            parameters=self.parameters | dict(zip(names, types, strict=False)),
        )
        # sqlglot turns lambda parameters into bare identifiers. Treat them like other names.
        body = node.this.copy().transform(
            lambda each: (
                exp.Column(this=each.copy())
                if isinstance(each, exp.Identifier) and not isinstance(each.parent, exp.Column | exp.Dot)
                else each
            )
        )
        return [quoted(name) for name in names], _sql(inner._changed(body))

    # Positions

    def place(self, node: exp.Expr) -> Position:
        """Return the start of an expression: the position of its first name or literal."""
        places = []
        for each in node.find_all(exp.Identifier, exp.Literal):
            line, column, start, end = (each.meta.get(name) for name in ("line", "col", "start", "end"))
            if line is not None and column is not None:
                length = 0 if start is None or end is None else end - start
                places.append((line, max(column - length, 1)))
        return Position(*min(places)) if places else self.position


_CALCULATIONS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


def _calculates(node: exp.Lambda, kind: SqlType | None) -> bool:
    """Return True if a lambda does arithmetic. ksqlDB then fails on nulls and returns null for the whole call."""
    body = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    return isinstance(body, _CALCULATIONS) and kind is not None and kind.name != "STRING"


def _whole(values: str, made: str) -> str:
    """Return the lambda's result, or null if any value is null."""
    return f"CASE WHEN NOT exists({values}, x -> x IS NULL) THEN {made} END"


def _sql(node: exp.Expr) -> str:
    return str(node.sql(dialect="spark"))


def _name(argument: Argument) -> str | None:
    return None if argument.type is None else argument.type.name


def has_aggregate(tree: exp.Expr | None, functions: UserFunctions | None = None) -> bool:
    if tree is None:
        return False
    names = (str(node.this).upper() for node in tree.find_all(exp.Anonymous))
    return any(
        name in AGGREGATES or (functions is not None and functions.is_aggregate(name)) for name in names
    )
