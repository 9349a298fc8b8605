"""Converts records to Redis commands, one each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.connectors.values.plain import natural, to_json
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError

Command = list[str | bytes | int | float]


class Commands:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        # The cache sink supports only SET and DEL under the record's own key.
        self._command: str = settings.get("redis.command", "SET")
        self._space: str = settings.get("redis.key", "")
        self._separator: str = settings.get("redis.separator", ":")
        self._charset: str = settings["redis.charset"]

    def of(self, record: SinkRecord) -> Command:
        """Raises DataError."""
        command = self._command
        if command in ("SET", "HSET", "JSONSET", "DEL"):
            return self._keyed(command, record)
        collection = self._space.replace("${topic}", record.topic)
        if command == "XADD":
            fields = self._fields(record)
            return ["XADD", collection, "*", *fields]
        if command == "PUBLISH":
            return ["PUBLISH", collection, self._bytes("value", record.value)]
        if command == "TSADD":
            return ["TS.ADD", collection, int(_number("key", record.key)), _number("value", record.value)]
        member = self._bytes("key", record.key)
        if command == "SADD":
            return ["SREM" if record.value is None else "SADD", collection, member]
        if command == "ZADD":
            if record.value is None:
                return ["ZREM", collection, member]
            return ["ZADD", collection, _number("value", record.value), member]
        return [command, collection, member]

    def _keyed(self, command: str, record: SinkRecord) -> Command:
        key = self._key(record)
        if command == "DEL" or record.value is None:
            return ["DEL", key]
        if command == "HSET":
            return ["HSET", key, *self._fields(record)]
        if command == "JSONSET":
            value = record.value
            return ["JSON.SET", key, "$", value if isinstance(value, str | bytes) else to_json(value)]
        return ["SET", key, self._bytes("value", record.value)]

    def _key(self, record: SinkRecord) -> bytes:
        if record.key is None:
            raise DataError("The record has no key, under which it would be stored.")
        if not self._space:
            return self._bytes("key", record.key)
        space = self._space.replace("${topic}", record.topic)
        return f"{space}{self._separator}".encode(self._charset) + self._text(record.key)

    def _bytes(self, what: str, value: Any) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if isinstance(value, str):
            return value.encode(self._charset)
        raise DataError(
            f"The {what} has to be text or bytes for {self._command}, not {type(value).__name__}. "
            "Use StringConverter or ByteArrayConverter."
        )

    def _fields(self, record: SinkRecord) -> list[str | bytes | int | float]:
        value = record.value
        if not isinstance(value, Struct | Mapping):
            raise DataError(
                f"The value has to be a struct or a map for {self._command}, not {type(value).__name__}. "
                "Use JsonConverter, or HoistField."
            )
        found: list[str | bytes | int | float] = []
        for name, each in natural(value).items():
            if each is not None:
                found += [str(name), self._text(each)]
        if not found:
            raise DataError(f"The value has no fields for {self._command}.")
        return found

    def _text(self, value: Any) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if isinstance(value, bool):
            return b"true" if value else b"false"
        if isinstance(value, list | Mapping | Struct):
            return to_json(value).encode(self._charset)
        return str(value).encode(self._charset)


def _number(what: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise DataError(f"The {what} has to be a number, not {type(value).__name__}.")
