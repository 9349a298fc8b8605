"""Scanning partitions for matching messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.console.messages import literals
from ottla.console.messages.decoding import Decoder, ShownMessage
from ottla.console.messages.expression import BadExpression, compile_expression
from ottla.console.messages.reading import Batch
from ottla.console.messages.sql_expression import compile_sql
from ottla.protocol.batch_header import corrupt
from ottla.protocol.internal_topics import is_internal
from ottla.protocol.record_format import Record
from ottla.protocol.records import batch_body

# Match messages by text, regular expression, or a Python or SQL expression.

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


# Find the matching records of a batch with minimal decoding.
#
# A batch without the required bytes is skipped as a whole. Other records are judged by their raw text, or by the parts
# that an expression uses. Only hits and undecided records are decoded.

_LONGEST_VARINT = 10
#: True is a hit, False is none; None requires decoding.
Judge = Callable[[Record], bool | None]


class Scanner:
    """Raises BadQuery. With masks every record is decoded first, because a search must not find hidden fields."""

    def __init__(self, topic: str, query: Query, decoder: Decoder, *, masked: bool) -> None:
        self._topic = topic
        self._query = query
        self._decoder = decoder
        is_opaque = masked or is_internal(topic) or not query.text
        self._literal = None if is_opaque else _literal(query)
        self._judge: Judge | None = None
        if not is_opaque:
            self._judge = self._by_values() if query.is_expression else self._by_texts()
        self.partition = 0

    def may_have(self, batch: Batch) -> bool:
        if self._literal is None or batch.header.magic < 2:
            return True
        body = batch_body(batch.buffer, batch.position, batch.header)
        if not body:
            return False
        return not first_is_text(body) or self._literal.is_in(body)

    def judge(self, record: Record) -> bool | None:
        return None if self._judge is None else self._judge(record)

    def _by_texts(self) -> Judge:
        matches, places = text_matcher(self._query), self._query.places
        # Raw JSON may have other spaces and escapes than the searched text.
        decides = self._query.mode == "regex" or literals.is_whole(self._query.text)

        def judge(record: Record) -> bool | None:
            texts = raw_texts(record, places)
            if texts is None:
                return None
            return True if matches(texts) else False if decides else None

        return judge

    def _by_values(self) -> Judge:
        is_true, topic, decoder = expression_of(self._query), self._topic, self._decoder
        return lambda record: is_true(_LazyValues(record, topic, self.partition, decoder))


def _literal(query: Query) -> literals.Literal | None:
    if query.mode == "text":
        return literals.of_text(query.text, query.ignore_case)
    if query.mode == "regex":
        return literals.of_pattern(pattern_of(query))
    expression_of(query)  # validates the expression
    return literals.of_sql(query.text) if query.mode == "sql" else literals.of_expression(query.text)


class _LazyValues(dict[str, Any]):
    """Values of a record for expressions. Each part is decoded on first use."""

    __slots__ = ("_decoder", "_partition", "_record", "_topic")

    def __init__(self, record: Record, topic: str, partition: int, decoder: Decoder) -> None:
        self._record = record
        self._topic = topic
        self._partition = partition
        self._decoder = decoder

    def __missing__(self, name: str) -> Any:
        record = self._record
        match name:
            case "value":
                found = self._decoder.value_of(record.value)
            case "key":
                found = self._decoder.value_of(record.key)
            case "headers":
                found = {each: self._decoder.value_of(data) for each, data in record.headers}
            case "topic":
                found = self._topic
            case "partition":
                found = self._partition
            case _:
                found = getattr(record, name)  # offset, timestamp
        self[name] = found
        return found


def first_is_text(body: bytes) -> bool:
    """Return True if key and value of the first record start like text, rather than with a schema id or MessagePack.

    A batch comes from one producer, which encodes all its records in the same way. A record without a value does not
    tell about the others.
    """
    _, position = _varint(body, 0)
    position += 1  # attributes
    for _ in range(2):  # timestamp and offset deltas
        _, position = _varint(body, position)
    size = 0
    for _ in range(2):
        size, position = _varint(body, position)
        if size > 0:
            if position >= len(body):
                raise corrupt("a record ends too early")
            if (body[position] < 32 and body[position] not in b"\t\r\n") or body[position] >= 0x80:
                return False
            position += size
    return size > 0


def _varint(data: bytes, start: int) -> tuple[int, int]:
    value = 0
    for number, byte in enumerate(data[start : start + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * number
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), start + number + 1
    raise corrupt("a number has too many bytes, or too few")
