"""Types of expressions as far as they are known without Spark. None means unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ottla.sql.parsing.dialect import identifier_name
from ottla.sql.planning.coercion import NotCoercible, common_type
from ottla.sql.planning.functions import result_type
from ottla.sql.planning.functions.rules import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTEGERS,
    NUMBERS,
    STRING,
)
from ottla.sql.sql_types import PRIMITIVES, SYNONYMS, Field, SqlType
from ottla.sql.user_functions import UserFunctions

#: sqlglot's type names → ksqlDB's
_NAMES = {"TEXT": "STRING", "VARBINARY": "BYTES", "BINARY": "BYTES", "TIMESTAMPTZ": "TIMESTAMP", **SYNONYMS}
_CONDITIONS = (
    exp.Predicate,
    exp.Connector,
    exp.Not,
    exp.Boolean,
    exp.In,
    exp.Between,
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Escape,
)


def type_of(
    tree: exp.Expr, name_type: Callable[[exp.Expr], SqlType | None], functions: UserFunctions | None = None
) -> SqlType | None:
    """Return the type of an expression. `name_type` resolves columns and lambda parameters; `functions` are UDFs."""

    def of(node: exp.Expr) -> SqlType | None:
        return type_of(node, name_type, functions)

    if isinstance(tree, exp.Column | exp.Identifier):
        return name_type(tree)
    if isinstance(tree, exp.Literal):
        return _literal_type(tree)
    if isinstance(tree, exp.Paren | exp.Neg):
        return of(tree.this)
    if isinstance(tree, exp.Cast):
        return cast_type(tree.args["to"])
    if isinstance(tree, _CONDITIONS):
        return BOOLEAN
    if isinstance(tree, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
        return _arithmetic(of(tree.this), of(tree.expression))
    if isinstance(tree, exp.Dot):
        return field_type(of(tree.this), [identifier_name(tree.expression)])
    if isinstance(tree, exp.Bracket):
        collection = of(tree.this)
        return None if collection is None else collection.element
    if isinstance(tree, exp.Array):
        element = _list_type(tree.expressions, of)
        return None if element is None else SqlType("ARRAY", element=element)
    if isinstance(tree, exp.Case):
        branches = [of(each.args["true"]) for each in tree.args["ifs"]]
        default = tree.args.get("default")
        return _common([*branches, *([] if default is None else [of(default)])])
    if isinstance(tree, exp.Anonymous):
        name = str(tree.this).upper()
        if functions is not None and functions.get(name) is not None:
            return functions.result_type(name, [of(each) for each in tree.expressions])
        return _call_type(tree, of)
    return None


def _list_type(trees: Sequence[exp.Expr], of: Callable[[exp.Expr], SqlType | None]) -> SqlType | None:
    try:
        return common_type(trees, of)
    except NotCoercible:
        return None


def _call_type(tree: exp.Anonymous, of: Callable[[exp.Expr], SqlType | None]) -> SqlType | None:
    name, given = str(tree.this).upper(), tree.expressions
    if name in ("MAP", "STRUCT"):
        if not given or not all(isinstance(each, exp.PropertyEQ) for each in given):
            return None
        values = [of(each.expression) for each in given]
        if name == "MAP":
            value = _list_type([each.expression for each in given], of)
            return None if value is None else SqlType("MAP", element=value)
        fields = []
        for each, kind in zip(given, values, strict=True):
            if kind is None:
                return None
            written = identifier_name(each.this.this if isinstance(each.this, exp.Column) else each.this)
            fields.append(Field(written, written, kind))
        return SqlType("STRUCT", fields=tuple(fields))
    if name == "FILTER" and given:
        return of(given[0])
    if name == "EXPLODE" and given:
        exploded = of(given[0])
        return None if exploded is None else exploded.element
    if name == "REDUCE" and len(given) > 1:
        return of(given[1])
    return result_type(name, [of(each) for each in given])


def _literal_type(literal: exp.Literal) -> SqlType:
    if literal.is_string:
        return STRING
    written = literal.name
    if "e" in written.lower():
        return DOUBLE
    if "." in written:
        whole, fraction = written.split(".")
        return SqlType("DECIMAL", len(whole.lstrip("0")) + len(fraction), len(fraction))
    return INTEGER if abs(int(written)) < 1 << 31 else BIGINT


def _arithmetic(left: SqlType | None, right: SqlType | None) -> SqlType | None:
    kinds = [each.name for each in (left, right) if each is not None]
    if "STRING" in kinds or "BYTES" in kinds:
        return STRING
    if len(kinds) < 2:
        return None
    if "DOUBLE" in kinds:
        return DOUBLE
    if "DECIMAL" in kinds:
        return SqlType("DECIMAL")
    if all(kind in INTEGERS for kind in kinds):
        return BIGINT if "BIGINT" in kinds else INTEGER
    return None


def _common(types: Sequence[SqlType | None]) -> SqlType | None:
    """Return the type that can hold all of them. Unknown types and nulls are ignored."""
    known = [each for each in types if each is not None]
    if not known or all(each == known[0] for each in known):
        return known[0] if known else None
    if all(each.name in NUMBERS for each in known):
        widest = max(NUMBERS.index(each.name) for each in known)
        return SqlType(NUMBERS[widest])
    return None


def field_type(kind: SqlType | None, names: Sequence[str]) -> SqlType | None:
    for name in names:
        if kind is None:
            return None
        kind = next((field.type for field in kind.fields if field.name == name), None)
    return kind


def cast_type(written: exp.Expr) -> SqlType | None:
    name = str(written.this.value if isinstance(written.this, exp.DType) else written.this).upper()
    name = _NAMES.get(name, name)
    inner = written.expressions
    if name == "DECIMAL":
        precision, scale = (*(int(each.name) for each in inner), 38, 0)[:2] if inner else (38, 0)
        return SqlType("DECIMAL", precision, 0 if len(inner) == 1 else scale)
    if name in ("ARRAY", "MAP") and inner:
        element = cast_type(inner[-1])
        return None if element is None else SqlType(name, element=element)
    if name == "STRUCT":
        fields = []
        for each in inner:
            kind = cast_type(each.args["kind"]) if isinstance(each, exp.ColumnDef) else None
            if kind is None:
                return None
            field = identifier_name(each.this)
            fields.append(Field(field, field, kind))
        return SqlType("STRUCT", fields=tuple(fields))
    return SqlType(name) if name in PRIMITIVES else None
