"""How `kafka-console-consumer` prints messages."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping
from uuid import UUID

from ottla.cli.errors import JobError
from ottla.cli.jobs.messages import ConsumedMessage

Formatter = Callable[["ConsumedMessage"], bytes]
Deserializer = Callable[[bytes], bytes]


def _number(layout: str) -> Deserializer:
    return lambda data: str(struct.unpack(f">{layout}", data)[0]).encode()


_DESERIALIZERS: dict[str, Deserializer] = {
    "String": bytes,
    "ByteArray": bytes,
    "Bytes": bytes,
    "ByteBuffer": bytes,
    "Short": _number("h"),
    "Integer": _number("i"),
    "Long": _number("q"),
    "Float": _number("f"),
    "Double": _number("d"),
    "Boolean": lambda data: b"true" if data != b"\0" else b"false",
    "UUID": lambda data: str(UUID(data.decode())).encode(),
}


def deserializer(name: str | None) -> Deserializer:
    if not name:
        return bytes
    short = name.rpartition(".")[2].removesuffix("Deserializer")
    if short not in _DESERIALIZERS:
        raise JobError(f"There is no deserializer '{name}': use one of {', '.join(_DESERIALIZERS)}.")
    return _DESERIALIZERS[short]


def formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    short = name.rpartition(".")[2].rpartition("$")[2]
    if short == "DefaultMessageFormatter":
        return default_formatter(properties)
    if short == "NoOpMessageFormatter":
        return lambda message: b""
    if short == "LoggingMessageFormatter":
        return _logging_formatter(default_formatter(properties))
    if short in (
        "OffsetsMessageFormatter",
        "GroupMetadataMessageFormatter",
        "TransactionLogMessageFormatter",
        "ShareGroupStateMessageFormatter",
    ):
        from ottla.client.internal_records import line_of

        return line_of(short.removesuffix("MessageFormatter"))
    if short in ("AvroMessageFormatter", "JsonSchemaMessageFormatter", "ProtobufMessageFormatter"):
        from ottla.cli.kafka.console.schemas import schema_formatter

        return schema_formatter(properties)
    raise JobError(f"There is no formatter '{name}'.")


def default_formatter(
    properties: Mapping[str, str],
    read_key: Deserializer | None = None,
    read_value: Deserializer | None = None,
) -> Formatter:
    def flag(name: str, default: bool = False) -> bool:
        return properties.get(name, str(default)).strip().lower() == "true"

    separator = properties.get("key.separator", "\t").encode()
    end = properties.get("line.separator", "\n").encode()
    between_headers = properties.get("headers.separator", ",").encode()
    null = properties.get("null.literal", "null").encode()
    of_key = read_key or deserializer(properties.get("key.deserializer"))
    of_value = read_value or deserializer(properties.get("value.deserializer"))
    read_header = deserializer(properties.get("headers.deserializer"))

    def text(data: bytes | None, read: Deserializer) -> bytes:
        try:
            return null if data is None else read(data)
        except (struct.error, ValueError):
            raise JobError("A message does not fit the deserializer that was named.") from None

    def headers(message: ConsumedMessage) -> bytes:
        pairs = [name.encode() + b":" + text(value, read_header) for name, value in message.headers]
        return between_headers.join(pairs) or b"NO_HEADERS"

    def timestamp(message: ConsumedMessage) -> bytes:
        if message.timestamp is None:
            return b"NO_TIMESTAMP"
        return f"{message.timestamp_type}:{message.timestamp}".encode()

    parts: list[Formatter] = []
    if flag("print.timestamp"):
        parts.append(timestamp)
    if flag("print.partition"):
        parts.append(lambda message: b"Partition:%d" % message.partition)
    if flag("print.offset"):
        parts.append(lambda message: b"Offset:%d" % message.offset)
    if flag("print.delivery"):
        parts.append(lambda message: b"Delivery:" + _present(message.delivery_count))
    if flag("print.epoch"):
        parts.append(lambda message: b"Epoch:" + _present(message.leader_epoch))
    if flag("print.headers"):
        parts.append(headers)
    if flag("print.key"):
        parts.append(lambda message: text(message.key, of_key))
    if flag("print.value", default=True):
        parts.append(lambda message: text(message.value, of_value))
    return lambda message: separator.join([part(message) for part in parts]) + end


def _present(number: int | None) -> bytes:
    return b"NOT_PRESENT" if number is None else b"%d" % number


def _logging_formatter(inner: Formatter) -> Formatter:
    def render(message: ConsumedMessage) -> bytes:
        stamp = "" if message.timestamp is None else f"{message.timestamp_type}:{message.timestamp}, "
        key = "null" if message.key is None else message.key.decode(errors="replace")
        value = "null" if message.value is None else message.value.decode(errors="replace")
        print(f"{stamp}key:{key}, value:{value}", file=sys.stderr)
        return inner(message)

    return render
