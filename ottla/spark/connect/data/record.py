"""Records on their way through a connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.spark.connect.data.schema import Schema


class Header(NamedTuple):
    key: str
    value: Any
    schema: Schema | None = None


@dataclass(slots=True)
class ConnectRecord:
    """What transforms see: they return a changed copy (`dataclasses.replace`), or None to drop the record."""

    topic: str
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    #: The partition of Kafka's topic; None leaves it to the key.
    partition: int | None = None
    #: Milliseconds since 1970.
    timestamp: int | None = None
    headers: list[Header] = field(default_factory=list)


@dataclass(slots=True)
class SourceRecord(ConnectRecord):
    """`source_partition` and `source_offset` hold strings, numbers, booleans and None only."""

    source_partition: Mapping[str, Any] = field(default_factory=dict)
    source_offset: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SinkRecord(ConnectRecord):
    """Topic, partition and offset before any transform are kept: sinks are idempotent by these."""

    offset: int = -1
    timestamp_type: int = 0
    original_topic: str = ""
    original_partition: int = -1
