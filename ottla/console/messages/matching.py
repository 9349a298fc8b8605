"""Match messages by text, regular expression, or a Python or SQL expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.console.messages.decoding import ShownMessage
from ottla.console.messages.expression import BadExpression, compile_expression
from ottla.console.messages.sql_expression import compile_sql
from ottla.protocol.record_format import Record

MODES = ("text", "regex", "expression", "sql")
_COMPILERS = {"expression": compile_expression, "sql": compile_sql}
PLACES = ("key", "value", "headers")


class BadQuery(ValueError):
    """An invalid query. The message is one sentence."""


@dataclass(frozen=True)
class Query:
    text: str = ""
    mode: str = "text"
    places: tuple[str, ...] = PLACES
    ignore_case: bool = True

    @property
    def is_expression(self) -> bool:
        return self.mode in _COMPILERS and bool(self.text)


def matcher(query: Query) -> Callable[[ShownMessage], bool]:
    """Raises BadQuery."""
    if query.is_expression:
        is_true = expression_of(query)
        return lambda message: is_true(_values(message))
    in_texts = text_matcher(query)
    return lambda message: in_texts(texts(message, query.places))


def text_matcher(query: Query) -> Callable[[Iterable[str]], bool]:
    """Match texts and regular expressions. Raises BadQuery."""
    if query.mode not in MODES:
        raise BadQuery(f"Search by one of {', '.join(MODES)}.")
    if not query.text:
        return lambda _: True
    if query.mode == "regex":
        pattern = pattern_of(query)
        return lambda found: any(pattern.search(text) for text in found)
    if query.ignore_case:
        wanted = query.text.lower()
        return lambda found: any(wanted in text.lower() for text in found)
    return lambda found: any(query.text in text for text in found)


def texts(message: ShownMessage, places: Sequence[str]) -> list[str]:
    """Return all parts as displayed; JSON with and without spaces."""
    found = []
    for part in ([message.key] if "key" in places else []) + ([message.value] if "value" in places else []):
        found.append(part.line)
        if part.is_structured:
            found.append(part.line.replace('": ', '":').replace(", ", ","))
    if "headers" in places:
        found += [f"{name}: {each.line}" for name, each in message.headers]
    return found


def raw_texts(record: Record, places: Sequence[str]) -> list[str] | None:
    """Return all parts as written, without decoding; None if some part is not text."""
    found = []
    try:
        for place, data in (("key", record.key), ("value", record.value)):
            if data and place in places:
                if data[0] < 32 and data[0] not in b"\t\r\n":
                    return None
                found.append(data.decode())
        if "headers" in places:
            found += [f"{name}: {(value or b'').decode()}" for name, value in record.headers]
    except UnicodeDecodeError:
        return None
    return found


def pattern_of(query: Query) -> re.Pattern[str]:
    """Raises BadQuery."""
    try:
        return re.compile(query.text, re.IGNORECASE if query.ignore_case else 0)
    except re.error as error:
        raise BadQuery(f"This is not a valid regular expression: {error}.") from None


def expression_of(query: Query) -> Callable[[Mapping[str, Any]], bool]:
    """Raises BadQuery."""
    try:
        return _COMPILERS[query.mode](query.text)
    except BadExpression as error:
        raise BadQuery(str(error)) from None


def _values(message: ShownMessage) -> dict[str, Any]:
    return {
        "key": message.key.value,
        "value": message.value.value,
        "headers": {name: each.value for name, each in message.headers},
        "offset": message.offset,
        "partition": message.partition,
        "timestamp": message.timestamp,
        "topic": message.topic,
    }
