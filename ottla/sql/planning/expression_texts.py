"""Expressions in the notation of ksqlDB's messages: `SUM(VALUE)`, `(A + 1)`, `ARRAY[1, 2]`."""

from __future__ import annotations

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.sql.parsing.dialect import identifier_name
from ottla.sql.sql_types import SqlType, quoted_if_needed

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
}


def type_text(kind: SqlType) -> str:
    if kind.element is not None:
        return f"{kind.name}<{'STRING, ' if kind.name == 'MAP' else ''}{type_text(kind.element)}>"
    if kind.name == "STRUCT":
        return f"STRUCT<{', '.join(f'{quoted(each.name)} {type_text(each.type)}' for each in kind.fields)}>"
    return str(kind)


def shown(tree: exp.Expr) -> str:
    if isinstance(tree, exp.Column):
        return ".".join(quoted_if_needed(identifier_name(part)) for part in tree.parts)
    if isinstance(tree, exp.Identifier):
        return quoted_if_needed(identifier_name(tree))
    if isinstance(tree, exp.Literal):
        return f"'{tree.name}'" if tree.is_string else tree.name
    if isinstance(tree, exp.Boolean):
        return "true" if tree.this else "false"
    if isinstance(tree, exp.Null):
        return "null"
    if isinstance(tree, exp.Paren):
        return shown(tree.this)
    if isinstance(tree, exp.Neg):
        return f"-{shown(tree.this)}"
    if isinstance(tree, exp.Dot):
        return f"{shown(tree.this)}->{shown(tree.expression)}"
    if isinstance(tree, exp.Array):
        return f"ARRAY[{', '.join(map(shown, tree.expressions))}]"
    if isinstance(tree, exp.Bracket):
        return f"{shown(tree.this)}[{', '.join(map(shown, tree.expressions))}]"
    if isinstance(tree, exp.PropertyEQ):
        return f"{shown(tree.this)}:={shown(tree.expression)}"
    if isinstance(tree, exp.Star):
        return "*"
    if isinstance(tree, exp.Cast):
        return f"CAST({shown(tree.this)} AS {tree.args['to'].sql().upper()})"
    if isinstance(tree, exp.Anonymous):
        return f"{str(tree.this).upper()}({', '.join(map(shown, tree.expressions))})"
    operator = _OPERATORS.get(type(tree))
    if operator is not None:
        return f"({shown(tree.this)} {operator} {shown(tree.expression)})"
    return str(tree.sql())
