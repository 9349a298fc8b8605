"""Messages as lines of text: JSON with nothing lost, and templates."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.cli.errors import JobError
from ottla.cli.times import format_timestamp

Headers = Sequence[tuple[str, bytes | None]]


# Not frozen: one is made for every message, and a frozen dataclass is several times slower to make.


@dataclass(slots=True)
class OutgoingMessage:
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(slots=True)
class ConsumedMessage:
    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: str | None  # CreateTime or LogAppendTime
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int | None = None
    delivery_count: int | None = None  # of a share group: the how many-eth time it is handed out


# -- JSON lines --------------------------------------------------------------------------------------------
# Text is a string, null is null, bytes that are not UTF-8 are {"base64": "…"}. What `consume --json` writes,
# `produce --json-lines` reads, and the messages are the same bytes.


def bytes_to_json(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def bytes_from_json(value: object) -> bytes | None:
    """Other JSON than text is taken as it is written, so that {"value": {"id": 1}} works."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, dict) and set(value) == {"base64"} and isinstance(value["base64"], str):
        return base64.b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def message_to_json(message: ConsumedMessage) -> bytes:
    document = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "timestamp_type": message.timestamp_type,
        "key": bytes_to_json(message.key),
        "value": bytes_to_json(message.value),
        "headers": [[name, bytes_to_json(value)] for name, value in message.headers],
    }
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def message_from_json(line: bytes, line_number: int) -> OutgoingMessage:
    try:
        document = json.loads(line)
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        if "value" not in document and "key" not in document:
            raise ValueError('it has neither "key" nor "value"')
        return OutgoingMessage(
            bytes_from_json(document.get("value")),
            bytes_from_json(document.get("key")),
            _headers_from_json(document.get("headers")),
            _integer(document, "partition"),
            _integer(document, "timestamp"),
        )
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise JobError(f"Line {line_number} is not a message in JSON: {reason}.") from None


def _headers_from_json(headers: object) -> Headers:
    if headers is None:
        return ()
    if isinstance(headers, dict):
        return [(str(name), bytes_from_json(value)) for name, value in headers.items()]
    if isinstance(headers, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in headers):
        return [(str(name), bytes_from_json(value)) for name, value in headers]
    raise ValueError('"headers" is neither an object nor a list of [name, value]')


def _integer(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f'"{name}" is not a whole number')
    return value


# -- templates ---------------------------------------------------------------------------------------------

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", "e": b"\x1b"}

_FIELDS: dict[str, Callable[[ConsumedMessage], bytes]] = {
    "v": lambda m: b"" if m.value is None else m.value,
    "s": lambda m: b"" if m.value is None else m.value,
    "k": lambda m: b"" if m.key is None else m.key,
    "S": lambda m: str(-1 if m.value is None else len(m.value)).encode(),
    "K": lambda m: str(-1 if m.key is None else len(m.key)).encode(),
    "t": lambda m: m.topic.encode(),
    "p": lambda m: str(m.partition).encode(),
    "o": lambda m: str(m.offset).encode(),
    "T": lambda m: str(-1 if m.timestamp is None else m.timestamp).encode(),
    "d": lambda m: b"" if m.timestamp is None else format_timestamp(m.timestamp).encode(),
    "h": lambda m: headers_to_text(m.headers),
    "%": lambda _m: b"%",
}


def headers_to_text(headers: Headers) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in headers)


def compile_template(template: str) -> Callable[[ConsumedMessage], bytes]:
    """kcat's tokens (%k %s %o %p %t %T %h %S %K), %v for the value and %d for a readable timestamp."""
    parts: list[bytes | Callable[[ConsumedMessage], bytes]] = []
    characters = iter(template)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "\\")
            parts.append(_ESCAPES.get(escaped, b"\\" + escaped.encode()))
        elif character == "%":
            token = next(characters, "")
            if token not in _FIELDS:
                raise JobError(
                    f"'%{token}' means nothing in a format: use %k %v %o %p %t %T %d %h %K %S, "
                    "or %% for a percent sign."
                )
            parts.append(_FIELDS[token])
        else:
            parts.append(character.encode())

    def render(message: ConsumedMessage) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(message) for part in parts)

    return render
