"""The suite's records and their JSON form, shared by the tests and the Python agents."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """A record to produce (`partition` and `timestamp` may be None) or a consumed record (all set)."""

    value: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None
    offset: int | None = None
    delivery_count: int | None = None  # set for records from a share group

    def to_json(self) -> dict[str, Any]:
        return {
            "value": _encode(self.value),
            "key": _encode(self.key),
            "headers": [[name, _encode(value)] for name, value in self.headers],
            "partition": self.partition,
            "timestamp": self.timestamp,
            "offset": self.offset,
            "delivery_count": self.delivery_count,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        return cls(
            value=_decode(data["value"]),
            key=_decode(data["key"]),
            headers=tuple((name, _decode(value)) for name, value in data["headers"]),
            partition=data["partition"],
            timestamp=data["timestamp"],
            offset=data.get("offset"),
            delivery_count=data.get("delivery_count"),
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result of one produced record: its position or its error code."""

    partition: int | None
    offset: int | None
    error: int | None = None
    message: str = ""


class ClientError(Exception):
    """An error reported by a client, with Kafka's error code if the client gives one."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(f"[{code}] {message}")
        self.code = code
        self.message = message


def _encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def _decode(data: str | None) -> bytes | None:
    return None if data is None else base64.b64decode(data)
