"""Records as the suite speaks of them, and their form in JSON. Shared by the tests and the Python agents."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """A record to produce (`partition` and `timestamp` may be None) or one that was consumed (all set)."""

    value: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None
    offset: int | None = None
    delivery_count: int | None = None  # of a record that came through a share group

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
    """What became of one produced record: where it is, or the error code that it got."""

    partition: int | None
    offset: int | None
    error: int | None = None
    message: str = ""


class ClientError(Exception):
    """An error that a client reported, with Kafka's error code where the client gives one."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(f"[{code}] {message}")
        self.code = code
        self.message = message


def _encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def _decode(data: str | None) -> bytes | None:
    return None if data is None else base64.b64decode(data)
