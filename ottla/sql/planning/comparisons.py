"""ksqlDB's comparison rules: which types compare, and that a comparison with null is false instead of null."""

from __future__ import annotations

from sqlglot import exp

from ottla.sql.planning.expression_texts import shown, type_text
from ottla.sql.planning.functions.collections import identity
from ottla.sql.planning.functions.rules import NUMBERS, Argument
from ottla.sql.sql_types import SqlType

#: sqlglot's node → ksqlDB's operator name
OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "EQUAL",
    exp.NEQ: "NOT_EQUAL",
    exp.LT: "LESS_THAN",
    exp.LTE: "LESS_THAN_OR_EQUAL",
    exp.GT: "GREATER_THAN",
    exp.GTE: "GREATER_THAN_OR_EQUAL",
    exp.NullSafeEQ: "IS_NOT_DISTINCT_FROM",
    exp.NullSafeNEQ: "IS_DISTINCT_FROM",
}
_SPARK = {
    "EQUAL": "=",
    "NOT_EQUAL": "<>",
    "LESS_THAN": "<",
    "LESS_THAN_OR_EQUAL": "<=",
    "GREATER_THAN": ">",
    "GREATER_THAN_OR_EQUAL": ">=",
}
_EQUALITIES = ("EQUAL", "NOT_EQUAL", "IS_NOT_DISTINCT_FROM", "IS_DISTINCT_FROM")


def refusal(node: exp.Expr, left: SqlType | None, right: SqlType | None) -> str | None:
    """Return ksqlDB's reason for refusing the comparison, or None if it is allowed or a type is unknown."""
    operator = OPERATORS[type(node)]
    if operator in _SPARK and (isinstance(node.this, exp.Null) or isinstance(node.expression, exp.Null)):
        written = shown(node).strip("()").replace("null", "NULL")
        return f"Comparison with NULL not supported: {written}; use IS NULL."
    if left is None or right is None or _can_be_compared(operator, left, right):
        return None
    one, other = (
        f"{shown(side)} ({type_text(kind)})" for side, kind in ((node.this, left), (node.expression, right))
    )
    return f"Cannot compare {one} to {other} with {operator}."


def _can_be_compared(operator: str, left: SqlType, right: SqlType) -> bool:
    names = {left.name, right.name}
    if left.name in NUMBERS:
        return right.name in NUMBERS
    if names <= {"STRING", "DATE"} or names <= {"STRING", "TIME"} or names <= {"STRING", "DATE", "TIMESTAMP"}:
        return True
    if left.name != right.name:
        return False
    return left.name == "BYTES" or operator in _EQUALITIES


def compared(node: exp.Expr, left: Argument, right: Argument) -> str:
    operator = OPERATORS[type(node)]
    one, other = (with_equality(each) for each in (left, right))
    # Parenthesise operands that are comparisons, because Spark reads from the left.
    one, other = (
        f"({each})" if isinstance(side, exp.Predicate | exp.Connector) else each
        for each, side in ((one, node.this), (other, node.expression))
    )
    if operator in _SPARK:
        return f"coalesce({one} {_SPARK[operator]} {other}, false)"
    return f"{'NOT ' if operator == 'IS_DISTINCT_FROM' else ''}({one} <=> {other})"


def with_equality(side: Argument) -> str:
    return identity(side.sql, side.type)
