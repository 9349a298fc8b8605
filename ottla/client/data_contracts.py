"""Rules of a schema for writers and readers: conditions in the supported subset of CEL."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

# The subset of CEL (Common Expression Language) common in data contracts.
#
# Literals, lists, fields (`message.a.b`, `m['k']`, `l[0]`), comparisons, `in`, `&&`, `||`, `!`, `? :`, arithmetic, and
# size(), has(), startsWith(), endsWith(), contains(), matches(). The parser refuses everything else.

Values = Mapping[str, Any]
Evaluate = Callable[[Values], Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+(?:[eE][-+]?\d+)?|\d+)u?"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]]))"
)


class NotSupported(ValueError):
    """Invalid or unsupported CEL."""


class CelError(ValueError):
    """An expression cannot be evaluated with the given values."""


@lru_cache(maxsize=256)
def _pattern(text: str) -> Any:
    """Compile a pattern with a linear-time engine, as CEL requires: Python's may take forever."""
    try:
        import jsonschema_rs

        schema = {"type": "string", "pattern": text}
        return jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions())
    except ImportError:
        raise CelError("matches() needs jsonschema-rs, which is not installed") from None
    except Exception as error:  # raised by the library for an invalid pattern
        raise CelError(f"the pattern {text!r} cannot be used: {error}") from None


_CONSTANTS = {"true": True, "false": False, "null": None}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda one, many: one in many,
}
_SUMS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "*": operator.mul,
    "/": lambda one, other: one / other if isinstance(one, float) else int(one / other),
    "%": lambda one, other: one - other * int(one / other),
}
_METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: part in text,
    "matches": lambda text, pattern: bool(_pattern(pattern).is_valid(str(text))),
}
_MOST_TOKENS = 500


def compile_expression(text: str) -> Evaluate:
    parser = _Parser(_tokens(text))
    try:
        found = parser.choice()
    except RecursionError:
        raise NotSupported("it is nested too deeply") from None
    parser.expect("")
    return found


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise NotSupported(f"'{text[at : at + 20].strip()}' is not understood")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    if len(found) > _MOST_TOKENS:
        raise NotSupported("it is too long")
    return found


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def _next(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        return text if kind != "text" else ""

    def accept(self, *signs: str) -> str:
        if self._at < len(self._tokens) and self._next in signs:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return ""

    def expect(self, sign: str) -> None:
        if sign and self.accept(sign):
            return
        if sign or self._at < len(self._tokens):
            found = self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"
            raise NotSupported(f"'{found}' is not understood" if not sign else f"'{sign}' is missing")

    # From lowest to highest precedence

    def choice(self) -> Evaluate:
        condition = self._either()
        if not self.accept("?"):
            return condition
        yes = self.choice()
        self.expect(":")
        no = self.choice()
        return lambda values: yes(values) if _truth(condition(values)) else no(values)

    def _either(self) -> Evaluate:
        found = self._both()
        while self.accept("||"):
            found = _or(found, self._both())
        return found

    def _both(self) -> Evaluate:
        found = self._comparison()
        while self.accept("&&"):
            found = _and(found, self._comparison())
        return found

    def _comparison(self) -> Evaluate:
        found = self._sum()
        while sign := self.accept(*_COMPARISONS):
            found = _binary(_COMPARISONS[sign], found, self._sum())
        return found

    def _sum(self) -> Evaluate:
        found = self._product()
        while sign := self.accept(*_SUMS):
            found = _binary(_SUMS[sign], found, self._product())
        return found

    def _product(self) -> Evaluate:
        found = self._unary()
        while sign := self.accept(*_PRODUCTS):
            found = _binary(_PRODUCTS[sign], found, self._unary())
        return found

    def _unary(self) -> Evaluate:
        if self.accept("!"):
            inner = self._unary()
            return lambda values: not _truth(inner(values))
        if self.accept("-"):
            inner = self._unary()
            return lambda values: -inner(values)
        return self._member(self._primary())

    def _member(self, found: Evaluate) -> Evaluate:
        while True:
            if self.accept("["):
                index = self.choice()
                self.expect("]")
                found = _binary(_item, found, index)
            elif self.accept("."):
                found = self._field(found)
            else:
                return found

    def _field(self, found: Evaluate) -> Evaluate:
        name = self._name()
        if not self.accept("("):
            return lambda values: _item(found(values), name)
        if name == "size" and self.accept(")"):
            return lambda values: len(found(values))
        if name not in _METHODS:
            raise NotSupported(f"{name}() is not known")
        argument = self.choice()
        self.expect(")")
        return _binary(_METHODS[name], found, argument)

    def _name(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "the end")
        if kind != "name":
            raise NotSupported(f"'{text}' is not understood")
        self._at += 1
        return text

    def _primary(self) -> Evaluate:
        if self._at >= len(self._tokens):
            raise NotSupported("it ends too early")
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            number = float(text) if "." in text else int(text)
            return lambda _: number
        if kind == "text":
            written = _unquoted(text)
            return lambda _: written
        if kind == "name":
            return self._named(text)
        if text == "(":
            inner = self.choice()
            self.expect(")")
            return inner
        if text == "[":
            members: list[Evaluate] = []
            while not self.accept("]"):
                members.append(self.choice())
                if self._next != "]":
                    self.expect(",")
            return lambda values: [each(values) for each in members]
        raise NotSupported(f"'{text}' is not understood")

    def _named(self, name: str) -> Evaluate:
        if name in _CONSTANTS:
            constant = _CONSTANTS[name]
            return lambda _: constant
        if not self.accept("("):
            return lambda values: _item(values, name)
        inner = self.choice()
        self.expect(")")
        if name == "size":
            return lambda values: len(inner(values))
        if name == "has":
            return lambda values: _is_there(inner, values)
        raise NotSupported(f"{name}() is not known")


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    if text[0] == "'":
        inner = inner.replace("\\'", "'").replace('"', '\\"')
    try:
        return str(json.loads(f'"{inner}"'))
    except ValueError:
        raise NotSupported(f"{text} is not understood") from None


def _item(value: Any, name: Any) -> Any:
    try:
        return value[name]
    except (KeyError, IndexError, TypeError):
        raise CelError(f"there is no {name}") from None


def _is_there(inner: Evaluate, values: Values) -> bool:
    try:
        return inner(values) is not None
    except CelError:
        return False


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{value!r} is neither true nor false")
    return value


def _binary(apply: Callable[[Any, Any], Any], one: Evaluate, other: Evaluate) -> Evaluate:
    def evaluate(values: Values) -> Any:
        left, right = one(values), other(values)
        try:
            return apply(left, right)
        except CelError:
            raise
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise CelError(str(error)) from None

    return evaluate


def _or(one: Evaluate, other: Evaluate) -> Evaluate:
    return lambda values: _truth(one(values)) or _truth(other(values))


def _and(one: Evaluate, other: Evaluate) -> Evaluate:
    return lambda values: _truth(one(values)) and _truth(other(values))


# Rules of a schema for writers and readers: conditions in the supported subset of CEL.
#
# Other rule types and expressions cannot be executed here. Writes are then refused, because a rule may
# exist to encrypt a field; a reader continues without it.

Direction = Literal["WRITE", "READ"]
_KINDS = ("domainRules", "encodingRules")


class RuleFailed(ValueError):
    """A record violates a rule, or a rule cannot be executed."""


@dataclass(frozen=True)
class _Rule:
    name: str
    condition: Evaluate | None
    #: Reason for a missing condition.
    reason: str = ""


class Rules:
    """Rules of one schema in one direction."""

    def __init__(self, rule_set: str, direction: Direction) -> None:
        self._direction = direction
        self._rules = [
            found
            for given in _applicable(rule_set, direction)
            if (found := _rule(given)) is not None and (found.condition is not None or direction == "WRITE")
        ]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def check(self, record: Any) -> None:
        """Raises RuleFailed if the record violates a rule."""
        for rule in self._rules:
            if rule.condition is None:
                raise RuleFailed(
                    f"Rule '{rule.name}' of the schema cannot be carried out here: {rule.reason}. "
                    "Its onFailure is not NONE, so nothing is written without it"
                )
            try:
                kept = rule.condition({"message": record})
            except CelError as error:
                raise RuleFailed(f"Rule '{rule.name}' of the schema fails: {error}") from None
            if kept is not True:
                raise RuleFailed(f"Rule '{rule.name}' of the schema is not kept")


def _applicable(rule_set: str, direction: Direction) -> Iterable[Mapping[str, Any]]:
    given = json.loads(rule_set) if rule_set else {}
    for kind in _KINDS:
        for rule in given.get(kind) or ():
            mode = str(rule.get("mode") or "WRITE").upper()
            if rule.get("disabled") or mode not in (direction, "WRITEREAD"):
                continue
            if _action(rule, direction, mode) != "NONE":
                yield rule


def _action(rule: Mapping[str, Any], direction: Direction, mode: str) -> str:
    """Return the failure action. onFailure may name two, for writing and reading. DLQ is an error here, like ERROR."""
    actions = str(rule.get("onFailure") or "ERROR").upper().split(",")
    return actions[-1 if mode == "WRITEREAD" and direction == "READ" else 0].strip()


def _rule(given: Mapping[str, Any]) -> _Rule | None:
    name = str(given.get("name") or "?")
    kind, form = str(given.get("kind") or "").upper(), str(given.get("type") or "").upper()
    if kind != "CONDITION" or form != "CEL":
        return _Rule(name, None, f"it is a {kind or 'rule'} of type {form}")
    try:
        return _Rule(name, compile_expression(str(given.get("expr") or "")))
    except NotSupported as error:
        return _Rule(name, None, f"its expression is not understood: {error}")
