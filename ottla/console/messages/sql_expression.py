"""SQL conditions on a message, such as `value->amount > 100 AND key LIKE 'eu-%'`.

The language is the part of ksqlDB's WHERE clause that concerns one record, with the functions in `sql_functions`. It is
evaluated here without Spark: no query, join or aggregate. NULL is neither true nor false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ottla.console.messages.expression import BadExpression
from ottla.console.messages.sql_functions import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    TYPES,
    cast,
    equal,
    kind_of,
    like,
)

Values = Mapping[str, Any]
Evaluate = Callable[[Values], Any]

_MOST_TOKENS = 400
_MOST_DEPTH = 40
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>->|<=|>=|<>|!=|==|\|\||[-+*/%<>=().,\[\]])
    )""",
    re.VERBOSE,
)
#: Bare names besides the fields of the value.
COLUMNS = {
    **{name: name for name in ("key", "value", "headers", "offset", "partition", "timestamp", "topic")},
    "rowkey": "key",
    "rowoffset": "offset",
    "rowpartition": "partition",
    "rowtime": "timestamp",
}
_RESERVED = frozenset({"AND", "OR", "NOT", "LIKE", "IN", "BETWEEN", "IS", "ESCAPE", "AS"})


class Token(NamedTuple):
    kind: str  # text, quoted, number, word, sign, end
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.text in signs


_END = Token("end", "")


def compile_sql(text: str) -> Callable[[Values], bool]:
    """Raises BadExpression."""
    parser = _Parser(list(tokens_of(text)))
    try:
        evaluate = parser.whole()
    except RecursionError:
        raise BadExpression("The condition nests too deep.") from None
    return lambda values: evaluate(values) is True


def tokens_of(text: str) -> Iterator[Token]:
    position, text = 0, text.strip().removesuffix(";").rstrip()
    count = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            raise BadExpression(
                f"That is no SQL condition: it cannot be read at '{text[position:][:20].strip()}'."
            )
        count += 1
        if count > _MOST_TOKENS:
            raise BadExpression("The condition is too long.")
        yield Token(found.lastgroup, found.group(found.lastgroup))
        position = found.end()


class _Parser:
    """Parses from lowest to highest precedence. Each method leaves the position after its input."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        if tokens and tokens[0].is_word("WHERE"):
            self._at = 1

    def whole(self) -> Evaluate:
        if self._next.is_word("SELECT"):
            raise BadExpression(
                "Only a condition goes here, such as value->amount > 100; the page SQL takes a SELECT."
            )
        found = self._or()
        if self._next is not _END:
            raise BadExpression(f"That is no SQL condition: '{self._next.text}' was not expected.")
        return found

    # -- tokens --

    @property
    def _next(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self) -> Token:
        found = self._next
        self._at += 1
        return found

    def _takes_word(self, *words: str) -> bool:
        if self._next.is_word(*words):
            self._at += 1
            return True
        return False

    def _need(self, sign: str) -> None:
        if not self._take().is_sign(sign):
            raise BadExpression(f"That is no SQL condition: a '{sign}' is missing.")

    # -- conditions --

    def _or(self) -> Evaluate:
        self._enter()
        found = self._and()
        while self._takes_word("OR"):
            found = _either(found, self._and())
        self._depth -= 1
        return found

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise BadExpression("The condition has too many parentheses.")

    def _and(self) -> Evaluate:
        found = self._not()
        while self._takes_word("AND"):
            found = _both(found, self._not())
        return found

    def _not(self) -> Evaluate:
        negations = 0
        while self._takes_word("NOT"):
            negations += 1
        found = self._predicate()
        return _negated(found) if negations % 2 else found

    def _predicate(self) -> Evaluate:
        left = self._sum()
        if self._next.kind == "sign" and self._next.text in COMPARISONS:
            compare, right = COMPARISONS[self._take().text], self._sum()
            return lambda values: compare(left(values), right(values))
        if self._takes_word("IS"):
            return self._is(left)
        is_negated = self._takes_word("NOT")
        if self._takes_word("LIKE"):
            found = self._like(left)
        elif self._takes_word("IN"):
            found = self._in(left)
        elif self._takes_word("BETWEEN"):
            found = self._between(left)
        elif is_negated:
            raise BadExpression("That is no SQL condition: behind NOT there is LIKE, IN or BETWEEN.")
        else:
            return left
        return _negated(found) if is_negated else found

    def _is(self, left: Evaluate) -> Evaluate:
        is_negated = self._takes_word("NOT")
        if self._takes_word("DISTINCT"):
            if not self._takes_word("FROM"):
                raise BadExpression("That is no SQL condition: write IS DISTINCT FROM.")
            right = self._sum()
            return lambda values: _same(left(values), right(values)) is is_negated
        word = self._take()
        if not word.is_word("NULL", "TRUE", "FALSE"):
            raise BadExpression(
                "That is no SQL condition: behind IS there is NULL, TRUE, FALSE or DISTINCT FROM."
            )
        wanted = {"NULL": None, "TRUE": True, "FALSE": False}[word.text.upper()]
        return lambda values: (left(values) is wanted) is not is_negated

    def _like(self, left: Evaluate) -> Evaluate:
        pattern, escape = self._sum(), None
        if self._takes_word("ESCAPE"):
            given = self._take()
            escape = text_of(given.text) if given.kind == "text" else ""
            if len(escape) != 1:
                raise BadExpression("ESCAPE takes one character, such as '!'.")
        return lambda values: like(left(values), pattern(values), escape)

    def _in(self, left: Evaluate) -> Evaluate:
        self._need("(")
        choices = self._list(")")
        if not choices:
            raise BadExpression("IN needs at least one value.")

        def evaluate(values: Values) -> bool | None:
            found = left(values)
            answers = [equal(found, each(values)) for each in choices]
            return True if True in answers else None if None in answers else False

        return evaluate

    def _between(self, left: Evaluate) -> Evaluate:
        low = self._sum()
        if not self._takes_word("AND"):
            raise BadExpression("BETWEEN needs an AND.")
        high = self._sum()
        return _both(
            lambda values: COMPARISONS[">="](left(values), low(values)),
            lambda values: COMPARISONS["<="](left(values), high(values)),
        )

    # -- values --

    def _sum(self) -> Evaluate:
        return self._chain(self._product, ("+", "-", "||"))

    def _product(self) -> Evaluate:
        return self._chain(self._unary, ("*", "/", "%"))

    def _chain(self, part: Callable[[], Evaluate], signs: tuple[str, ...]) -> Evaluate:
        found = part()
        while self._next.is_sign(*signs):
            found = _applied(ARITHMETIC[self._take().text], found, part())
        return found

    def _unary(self) -> Evaluate:
        sign = 1
        while self._next.is_sign("-", "+"):
            sign *= -1 if self._take().text == "-" else 1
        found = self._field()
        if sign == 1:
            return found
        return lambda values: -value if kind_of(value := found(values)) is float else None

    def _field(self) -> Evaluate:
        """Parse a value followed by `->name`, `.name` or `[index]`."""
        found = self._atom()
        while self._next.is_sign("->", ".", "["):
            if self._take().text == "[":
                self._enter()
                index = self._sum()
                self._need("]")
                self._depth -= 1
                found = _element(found, index)
            else:
                found = _member(found, self._take())
        return found

    def _atom(self) -> Evaluate:
        token = self._take()
        if token.kind == "number":
            number = _number(token.text)
            return lambda _: number
        if token.kind == "text":
            text = text_of(token.text)
            return lambda _: text
        if token.is_sign("("):
            found = self._or()
            self._need(")")
            return found
        if token.kind == "quoted":
            return _member(lambda values: values["value"], token)
        if token.kind == "word" and token.text.upper() not in _RESERVED:
            return self._word(token)
        what = f"'{token.text}' was not expected" if token is not _END else "it is not complete"
        raise BadExpression(f"That is no SQL condition: {what}.")

    def _word(self, token: Token) -> Evaluate:
        if token.is_word("TRUE", "FALSE", "NULL"):
            constant = {"TRUE": True, "FALSE": False, "NULL": None}[token.text.upper()]
            return lambda _: constant
        if self._next.is_sign("("):
            self._take()
            return self._cast() if token.is_word("CAST") else self._call(token.text)
        column = COLUMNS.get(token.text.lower())
        if column is not None:
            return lambda values: values[column]
        return _member(lambda values: values["value"], token)

    def _call(self, name: str) -> Evaluate:
        function = FUNCTIONS.get(name.upper())
        if function is None:
            raise BadExpression(
                f"There is no function {name.upper()}: there are {', '.join(FUNCTIONS)} and CAST."
            )
        arguments = self._list(")")
        if not function.least <= len(arguments) <= function.most:
            raise BadExpression(f"{name.upper()} does not take {len(arguments)} arguments.")
        call, on_null = function.call, function.on_null

        def evaluate(values: Values) -> Any:
            given = [each(values) for each in arguments]
            return None if None in given and not on_null else call(*given)

        return evaluate

    def _cast(self) -> Evaluate:
        of = self._or()
        if not self._takes_word("AS"):
            raise BadExpression("CAST needs an AS and a type.")
        name = self._take().text.upper()
        if name not in TYPES:
            raise BadExpression(f"CAST knows the types {', '.join(TYPES)}.")
        self._need(")")
        return lambda values: cast(of(values), name)

    def _list(self, end: str) -> list[Evaluate]:
        found: list[Evaluate] = []
        if not self._next.is_sign(end):
            found.append(self._or())
            while self._next.is_sign(","):
                self._take()
                found.append(self._or())
        self._need(end)
        return found


def _number(text: str) -> int | float:
    if len(text) > 100:
        raise BadExpression("A number has at most a hundred digits.")
    return int(text) if text.isdecimal() else float(text)


def text_of(quoted: str) -> str:
    return quoted[1:-1].replace("''", "'")


def _same(left: Any, right: Any) -> bool:
    return right is None if left is None else equal(left, right) is True


def _negated(of: Evaluate) -> Evaluate:
    return lambda values: None if (found := of(values)) is None else found is not True


def _both(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(values: Values) -> bool | None:
        one = left(values)
        if one is not True and one is not None:
            return False
        two = right(values)
        return (
            two is True if one is True and two is not None else None if two is True or two is None else False
        )

    return evaluate


def _either(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(values: Values) -> bool | None:
        one = left(values)
        if one is True:
            return True
        two = right(values)
        return True if two is True else None if one is None or two is None else False

    return evaluate


def _applied(operation: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda values: operation(left(values), right(values))


def _member(of: Evaluate, token: Token) -> Evaluate:
    """Find a field; unquoted names ignore case, as in ksqlDB, quoted ones do not."""
    if token.kind == "quoted":
        mark = token.text[0]
        exact = token.text[1:-1].replace(mark * 2, mark)
        return lambda values: value.get(exact) if isinstance(value := of(values), dict) else None
    if token.kind != "word":
        raise BadExpression("That is no SQL condition: behind -> there is the name of a field.")
    name, lower = token.text, token.text.lower()

    def evaluate(values: Values) -> Any:
        value = of(values)
        if not isinstance(value, dict):
            return None
        if name in value:
            return value[name]
        return next((each for key, each in value.items() if key.lower() == lower), None)

    return evaluate


def _element(of: Evaluate, index: Evaluate) -> Evaluate:
    """Return an element: arrays count from 1, or from the end with -1; objects use names."""

    def evaluate(values: Values) -> Any:
        value, at = of(values), index(values)
        if isinstance(value, dict):
            return value.get(at) if isinstance(at, str) else None
        if not isinstance(value, list) or not isinstance(at, int) or at == 0:
            return None
        position = at - 1 if at > 0 else at
        return value[position] if -len(value) <= position < len(value) else None

    return evaluate
