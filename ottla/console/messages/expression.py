"""Python expressions on a message, such as `value.amount > 100 and key != "test"`.

Python parses them, and this module evaluates them: only the features listed below exist. Calls are limited to the
tables of functions and methods, and attributes to JSON fields. There are no loops and no way to build large values.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Values = Mapping[str, Any]
Evaluate = Callable[[Values], Any]

NAMES = ("key", "value", "headers", "offset", "partition", "timestamp", "topic")
_MOST_NODES = 200
_MOST_TEXT = 100_000


class BadExpression(ValueError):
    """An invalid expression. The message is one sentence."""


@lru_cache(maxsize=64)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _matches(text: Any, pattern: Any) -> bool:
    return _pattern(str(pattern)).search(str(text)) is not None


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "int": int,
    "float": float,
    "str": str,
    "abs": abs,
    "min": min,
    "max": max,
    "lower": lambda text: str(text).lower(),
    "contains": lambda text, part: str(part) in str(text),
    "matches": _matches,
}
_METHODS = frozenset({"lower", "upper", "strip", "startswith", "endswith", "get"})
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


def _numbers_only(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
            raise TypeError("numbers only")
        return operation(left, right)

    return apply


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str) and len(left) + len(right) > _MOST_TEXT:
        raise ValueError("too long")
    if isinstance(left, list):
        raise TypeError("numbers and texts only")
    return left + right


_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _add,
    ast.Sub: _numbers_only(operator.sub),
    ast.Mult: _numbers_only(operator.mul),
    ast.Div: _numbers_only(operator.truediv),
    ast.FloorDiv: _numbers_only(operator.floordiv),
    ast.Mod: _numbers_only(operator.mod),
}


def compile_expression(text: str) -> Callable[[Values], bool]:
    """Compile an expression. Raises BadExpression. Evaluation errors, such as comparing text with a number, count as
    false.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadExpression(f"That is no Python expression: {reason}.") from None
    if sum(1 for _ in ast.walk(tree)) > _MOST_NODES:
        raise BadExpression("The expression is too long.")
    evaluate = _compile(tree.body)

    def is_true(values: Values) -> bool:
        try:
            return bool(evaluate(values))
        except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError, OverflowError, re.error):
            return False

    return is_true


def _compile(node: ast.expr) -> Evaluate:
    kind = _KINDS.get(type(node))
    if kind is None:
        raise BadExpression(
            f"{type(node).__name__} is not allowed here: compare fields of key, value and headers."
        )
    return kind(node)


def _constant(node: ast.Constant) -> Evaluate:
    value = node.value
    if not isinstance(value, (str, int, float, bool, type(None))) or (
        isinstance(value, int) and abs(value) > 2**63
    ):
        raise BadExpression("Only texts, numbers, True, False and None can be written.")
    return lambda _: value


def _name(node: ast.Name) -> Evaluate:
    name = node.id
    if name not in NAMES:
        raise BadExpression(f"There is no {name}: there are {', '.join(NAMES)}.")
    return lambda values: values[name]


def _field(of: Any, name: Any) -> Any:
    """Return a field, or None if it is missing."""
    if isinstance(of, dict):
        return of.get(name)
    if isinstance(of, (list, str)) and isinstance(name, int):
        return of[name]
    return None


def _attribute(node: ast.Attribute) -> Evaluate:
    of, name = _compile(node.value), node.attr
    if name.startswith("__"):
        raise BadExpression(f"{name} is not a field.")
    return lambda values: _field(of(values), name)


def _subscript(node: ast.Subscript) -> Evaluate:
    of, index = _compile(node.value), _compile(node.slice)
    return lambda values: _field(of(values), index(values))


def _compare(node: ast.Compare) -> Evaluate:
    parts = [_compile(each) for each in (node.left, *node.comparators)]
    comparisons = [_COMPARISONS[type(each)] for each in node.ops]

    def evaluate(values: Values) -> bool:
        left = parts[0](values)
        for compare, part in zip(comparisons, parts[1:], strict=True):
            right = part(values)
            if not compare(left, right):
                return False
            left = right
        return True

    return evaluate


def _boolean(node: ast.BoolOp) -> Evaluate:
    parts = [_compile(each) for each in node.values]
    if isinstance(node.op, ast.And):
        return lambda values: all(part(values) for part in parts)
    return lambda values: any(part(values) for part in parts)


def _unary(node: ast.UnaryOp) -> Evaluate:
    of = _compile(node.operand)
    if isinstance(node.op, ast.Not):
        return lambda values: not of(values)
    if isinstance(node.op, ast.USub):
        return lambda values: -of(values)
    raise BadExpression("Only `not` and minus take one operand.")


def _binary(node: ast.BinOp) -> Evaluate:
    operation = _OPERATIONS.get(type(node.op))
    if operation is None:
        raise BadExpression("There are only + - * / // and %.")
    left, right = _compile(node.left), _compile(node.right)
    return lambda values: operation(left(values), right(values))


def _call(node: ast.Call) -> Evaluate:
    if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
        raise BadExpression("Functions take plain arguments only.")
    arguments = [_compile(each) for each in node.args]
    if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        function = _FUNCTIONS[node.func.id]
        return lambda values: function(*(each(values) for each in arguments))
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        of, name = _compile(node.func.value), node.func.attr
        if name == "get":
            return lambda values: _field(of(values), arguments[0](values)) if arguments else None

        def method(values: Values) -> Any:
            text = of(values)
            if not isinstance(text, str):
                raise TypeError("texts only")
            return getattr(text, name)(*(each(values) for each in arguments))

        return method
    known = ", ".join([*_FUNCTIONS, *(f".{each}" for each in sorted(_METHODS))])
    raise BadExpression(f"There are only these functions: {known}.")


def _sequence(node: ast.List | ast.Tuple | ast.Set) -> Evaluate:
    parts = [_compile(each) for each in node.elts]
    return lambda values: [part(values) for part in parts]


_KINDS: dict[type[ast.expr], Callable[[Any], Evaluate]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Call: _call,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
}
