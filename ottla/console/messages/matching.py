"""Whether a message is one that is searched for: by a text, a regular expression, or a Python expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.console.messages.decoding import ShownMessage
from ottla.console.messages.expression import BadExpression, compile_expression
from ottla.console.messages.reading import Message

MODES = ("text", "regex", "expression")
PLACES = ("key", "value", "headers")


class BadQuery(ValueError):
    """What is wrong, in one sentence."""


@dataclass(frozen=True)
class Query:
    text: str = ""
    mode: str = "text"
    places: tuple[str, ...] = PLACES
    ignore_case: bool = True

    @property
    def raw(self) -> bytes | None:
        """The bytes that a batch must contain, if the search is for a text that JSON writes as it is."""
        if self.mode != "text" or not self.text or '"' in self.text or "\\" in self.text:
            return None
        data = self.text.encode()
        return None if self.ignore_case and not self.text.isascii() else data


def matcher(query: Query) -> Callable[[ShownMessage], bool]:
    """Raises BadQuery."""
    if query.text and query.mode == "expression":
        return _expression(query.text)
    in_texts = text_matcher(query)
    return lambda message: in_texts(texts(message, query.places))


def text_matcher(query: Query) -> Callable[[Iterable[str]], bool]:
    """For texts and regular expressions. Raises BadQuery."""
    if query.mode not in MODES:
        raise BadQuery(f"Search by one of {', '.join(MODES)}.")
    if not query.text:
        return lambda _: True
    if query.mode == "regex":
        try:
            pattern = re.compile(query.text, re.IGNORECASE if query.ignore_case else 0)
        except re.error as error:
            raise BadQuery(f"That is no regular expression: {error}.") from None
        return lambda found: any(pattern.search(text) for text in found)
    if query.ignore_case:
        wanted = query.text.lower()
        return lambda found: any(wanted in text.lower() for text in found)
    return lambda found: any(query.text in text for text in found)


def texts(message: ShownMessage, places: Sequence[str]) -> list[str]:
    """Everything as it is shown; JSON with spaces and without."""
    found = []
    for part in ([message.key] if "key" in places else []) + ([message.value] if "value" in places else []):
        found.append(part.line)
        if part.is_structured:
            found.append(part.line.replace('": ', '":').replace(", ", ","))
    if "headers" in places:
        found += [f"{name}: {each.line}" for name, each in message.headers]
    return found


def written_texts(message: Message, places: Sequence[str]) -> list[str] | None:
    """Everything as it was written, without decoding it further; None if some of it is no text."""
    found = []
    try:
        for place, data in (("key", message.key), ("value", message.value)):
            if data and place in places:
                if data[0] < 32 and data[0] not in b"\t\r\n":
                    return None
                found.append(data.decode())
        if "headers" in places:
            found += [f"{name}: {(value or b'').decode()}" for name, value in message.headers]
    except UnicodeDecodeError:
        return None
    return found


def _expression(text: str) -> Callable[[ShownMessage], bool]:
    try:
        is_true = compile_expression(text)
    except BadExpression as error:
        raise BadQuery(str(error)) from None

    def matches(message: ShownMessage) -> bool:
        values: dict[str, Any] = {
            "key": message.key.value,
            "value": message.value.value,
            "headers": {name: each.value for name, each in message.headers},
            "offset": message.offset,
            "partition": message.partition,
            "timestamp": message.timestamp,
            "topic": message.topic,
        }
        return is_true(values)

    return matches
