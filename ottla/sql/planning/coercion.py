"""ksqlDB's common type of several expressions, for ARRAY[…], the keys and values of MAP(…), and IN (…).

A string literal may be coerced to a number or a boolean, such as `'2e1'` to 20. A string column may not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from ottla.sql.parsing.dialect import identifier_name
from ottla.sql.planning.comparisons import with_equality
from ottla.sql.planning.expression_texts import shown, type_text
from ottla.sql.planning.functions.casts import cast
from ottla.sql.planning.functions.rules import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NUMBERS,
    STRING,
    Argument,
)
from ottla.sql.sql_types import Field, SqlType

TypeOf = Callable[[exp.Expr], SqlType | None]
SqlOf = Callable[[exp.Expr], str]


class NotCoercible(Exception):
    """The expressions have no common type. The message follows ksqlDB."""


def common_type(trees: Sequence[exp.Expr], type_of: TypeOf) -> SqlType | None:
    """Return the common type, or None if it is unknown without Spark or all expressions are null."""
    found: SqlType | None = None
    texts: list[exp.Expr] = []
    for tree in trees:
        if isinstance(tree, exp.Null):
            continue
        if _is_text(tree):
            texts.append(tree)
            continue
        kind = type_of(tree)
        if kind is None or (kind.name == "DECIMAL" and not kind.precision):
            return None
        found = kind if found is None else _wider(found, kind, tree)
    if found is None:
        return STRING if texts else None
    for tree in texts:
        if found.name in NUMBERS:
            found = _wider(found, _number_type(_number(tree, found)), tree)
        elif found.name == "BOOLEAN":
            _truth(tree)
        elif found.name not in ("STRING", "DATE", "TIME", "TIMESTAMP"):
            raise _mismatch(found, STRING, tree)
    return found


def coerced_list(trees: Sequence[exp.Expr], type_of: TypeOf, sql_of: SqlOf) -> list[str]:
    target = common_type(trees, type_of)
    return [sql_of(each) if target is None else coerced(each, target, type_of, sql_of) for each in trees]


def coerced(tree: exp.Expr, target: SqlType, type_of: TypeOf, sql_of: SqlOf) -> str:
    if isinstance(tree, exp.Null):
        return f"CAST(NULL AS {target.ddl})"
    if _is_text(tree) and target.name in NUMBERS:
        return f"CAST('{_number(tree, target):f}' AS {target.ddl})"
    if _is_text(tree) and target.name == "BOOLEAN":
        return str(_truth(tree)).lower()
    if target.name == "STRING" and isinstance(tree, exp.Literal | exp.Boolean | exp.Neg):
        return (
            "'"
            + (tree.name if _is_text(tree) else shown(tree)).replace("\\", "\\\\").replace("'", "\\'")
            + "'"
        )
    if isinstance(tree, exp.Array) and target.name == "ARRAY" and target.element is not None:
        inner = [coerced(each, target.element, type_of, sql_of) for each in tree.expressions]
        return f"array({', '.join(inner)})"
    kind = type_of(tree)
    if kind is None or kind == target:
        return sql_of(tree)
    return cast(Argument(sql_of(tree), kind), target)


def member_of(value: exp.Expr, among: Sequence[exp.Expr], type_of: TypeOf, sql_of: SqlOf) -> str | None:
    """Render `value IN (among)` for Spark, or return None if a type is unknown. Null never matches."""
    target = type_of(value)
    if target is None or any(type_of(each) is None for each in among if not _may_be_null(each)):
        return None
    if all(isinstance(each, exp.Null) for each in among):
        raise NotCoercible(f"{shown(value)} IN (NULL) is never true; use IS NULL")
    left = sql_of(value)
    choices = []
    for each in among:
        if isinstance(each, exp.Null):
            continue
        member = _member(each, target, type_of, sql_of)
        if member is not None:
            choices.append(with_equality(Argument(member, target)))
    written = f"{with_equality(Argument(left, target))} IN ({', '.join(choices)})"
    return f"coalesce({written}, false)" if choices else "false"


def _member(tree: exp.Expr, target: SqlType, type_of: TypeOf, sql_of: SqlOf) -> str | None:
    """Render a member of the list, or return None if it can never equal the value."""
    if _is_text(tree):
        if target.name in NUMBERS:
            return f"CAST('{_number(tree, target):f}' AS {_number_type(_number(tree, target)).ddl})"
        if target.name == "BOOLEAN":
            return str(_truth(tree)).lower()
        if target.name in ("STRING", "DATE", "TIME", "TIMESTAMP"):
            return sql_of(tree)
    if target.name == "STRING" and _is_constant(tree):
        return coerced(tree, STRING, type_of, sql_of)
    if isinstance(tree, exp.Array) and target.name == "ARRAY" and target.element is not None:
        return _array(tree, target, type_of, sql_of)
    if isinstance(tree, exp.Anonymous) and str(tree.this).upper() == target.name and tree.expressions:
        if target.name == "STRUCT":
            return _struct(tree, target, type_of, sql_of)
        if target.name == "MAP" and target.element is not None:
            return _map(tree, target, type_of, sql_of)
    kind = type_of(tree)
    if kind is None or kind == target:
        return sql_of(tree)
    if not _comparable(target, kind):
        raise _mismatch(target, kind, tree)
    return (
        sql_of(tree)
        if target.name in NUMBERS
        else cast(Argument(sql_of(tree), kind), _wider(target, kind, tree))
    )


def _array(tree: exp.Array, target: SqlType, type_of: TypeOf, sql_of: SqlOf) -> str:
    assert target.element is not None
    for each in tree.expressions:
        _fits(each, target.element, target, tree, type_of)
    inner = [coerced(each, target.element, type_of, sql_of) for each in tree.expressions]
    return f"array({', '.join(inner)})"


def _map(tree: exp.Anonymous, target: SqlType, type_of: TypeOf, sql_of: SqlOf) -> str:
    assert target.element is not None
    parts = []
    for each in tree.expressions:
        _fits(each.expression, target.element, target, tree, type_of)
        parts += [sql_of(each.this), coerced(each.expression, target.element, type_of, sql_of)]
    return f"map({', '.join(parts)})"


def _struct(tree: exp.Anonymous, target: SqlType, type_of: TypeOf, sql_of: SqlOf) -> str | None:
    given = {}
    for each in tree.expressions:
        name = identifier_name(each.this.this if isinstance(each.this, exp.Column) else each.this)
        given[name] = each.expression
    if not given.keys() <= {field.name for field in target.fields}:
        return None
    parts = []
    for field in target.fields:
        value = given.get(field.name, exp.Null())
        _fits(value, field.type, target, tree, type_of)
        name = field.name.replace("'", "\\'")
        parts.append(f"'{name}', {coerced(value, field.type, type_of, sql_of)}")
    return f"named_struct({', '.join(parts)})"


def _fits(tree: exp.Expr, wanted: SqlType, target: SqlType, whole: exp.Expr, type_of: TypeOf) -> None:
    if _is_text(tree) and wanted.name in NUMBERS:
        _number(tree, wanted)
        return
    if _is_text(tree) and wanted.name == "BOOLEAN":
        _truth(tree)
        return
    kind = type_of(tree)
    if kind is not None and not _comparable(wanted, kind):
        raise _mismatch(target, type_of(whole) or kind, whole)


def _comparable(one: SqlType, other: SqlType) -> bool:
    if one.name in NUMBERS:
        return other.name in NUMBERS
    if one.element is not None and other.element is not None:
        return one.name == other.name and _comparable(one.element, other.element)
    if one.name == other.name == "STRUCT":
        there = {field.name: field.type for field in one.fields}
        return all(_comparable(there[each.name], each.type) for each in other.fields if each.name in there)
    return one == other


def _wider(one: SqlType, other: SqlType, tree: exp.Expr) -> SqlType:
    if one == other:
        return one
    if one.name in NUMBERS and other.name in NUMBERS:
        return _wider_number(one, other)
    if one.element is not None and other.element is not None and one.name == other.name:
        return SqlType(one.name, element=_wider(one.element, other.element, tree))
    if one.name == other.name == "STRUCT":
        kinds = {field.name: field.type for field in one.fields}
        for field in other.fields:
            there = kinds.get(field.name)
            kinds[field.name] = field.type if there is None else _wider(there, field.type, tree)
        return SqlType("STRUCT", fields=tuple(Field(name, name, kind) for name, kind in kinds.items()))
    if one.name == "STRING" and _is_constant(tree):
        return STRING
    raise _mismatch(one, other, tree)


def _wider_number(one: SqlType, other: SqlType) -> SqlType:
    if "DOUBLE" in (one.name, other.name):
        return DOUBLE
    if "DECIMAL" in (one.name, other.name):
        first, second = _decimal(one), _decimal(other)
        scale = max(first.scale, second.scale)
        whole = max(first.precision - first.scale, second.precision - second.scale)
        return SqlType("DECIMAL", min(whole + scale, 38), scale)
    return BIGINT if "BIGINT" in (one.name, other.name) else INTEGER


def _decimal(kind: SqlType) -> SqlType:
    return {"INTEGER": SqlType("DECIMAL", 10, 0), "BIGINT": SqlType("DECIMAL", 19, 0)}.get(kind.name, kind)


def _is_text(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Literal) and tree.is_string


def _is_constant(tree: exp.Expr) -> bool:
    if isinstance(tree, exp.Neg):
        return _is_constant(tree.this)
    return isinstance(tree, exp.Boolean | exp.Literal)


def _may_be_null(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Null)


def _number(tree: exp.Expr, target: SqlType) -> Decimal:
    try:
        return Decimal(tree.name.strip())
    except InvalidOperation:
        raise NotCoercible(f'invalid input syntax for type {target}: "{tree.name}"') from None


def _number_type(number: Decimal) -> SqlType:
    if number == number.to_integral_value() and number.as_tuple().exponent == 0:
        return INTEGER if -(1 << 31) <= number < 1 << 31 else BIGINT
    plain = f"{abs(number):f}"
    whole, _, fraction = plain.partition(".")
    return SqlType("DECIMAL", max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction))


def _truth(tree: exp.Expr) -> bool:
    """Parse a prefix of true, yes, false or no."""
    written = tree.name.lower()
    if written:
        for word, value in (("true", True), ("yes", True), ("false", False), ("no", False)):
            if word.startswith(written):
                return value
    raise NotCoercible(f'invalid input syntax for type {BOOLEAN}: "{tree.name}"')


def _mismatch(target: SqlType, kind: SqlType, tree: exp.Expr) -> NotCoercible:
    return NotCoercible(
        f"operator does not exist: {type_text(target)} = {type_text(kind)} ({shown(tree)}). "
        "Hint: You might need to add explicit type casts"
    )
