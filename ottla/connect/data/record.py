"""Source and sink records, as seen by connectors and transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeVar

from ottla.connect.data.java_values import java_text
from ottla.connect.data.schema import Schema

Record = TypeVar("Record", bound="ConnectRecord")


class Header(NamedTuple):
    key: str
    value: Any
    schema: Schema | None = None


@dataclass(slots=True)
class ConnectRecord:
    """The record interface for transforms, which return a changed copy (`replaced`), or None to drop the record.

    Copies share the list of headers. To change headers, create a new list.
    """

    topic: str
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    #: The Kafka partition. None leaves the choice to the key.
    partition: int | None = None
    #: Milliseconds since 1970.
    timestamp: int | None = None
    headers: list[Header] = field(default_factory=list)

    def replaced(self: Record, **changes: Any) -> Record:
        """Same as `dataclasses.replace`, but several times faster."""
        kind = type(self)
        copy = kind(*_all_of(kind)(self))
        for name, value in changes.items():
            setattr(copy, name, value)
        return copy

    def __str__(self) -> str:
        """Format like Kafka's ConnectRecord, for messages."""
        headers = ", ".join(
            f"ConnectHeader(key={each.key}, value={java_text(each.value)}, schema={_null(each.schema)})"
            for each in self.headers
        )
        return (
            f"ConnectRecord{{topic='{self.topic}', kafkaPartition={_null(self.partition)}, "
            f"key={java_text(self.key)}, keySchema={_null(self.key_schema)}, "
            f"value={java_text(self.value)}, valueSchema={_null(self.value_schema)}, "
            f"timestamp={_null(self.timestamp)}, headers=ConnectHeaders(headers={headers and f'[{headers}]'})}}"
        )


def _null(value: Any) -> str:
    return "null" if value is None else str(value)


_GETTERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}


def _all_of(kind: type[ConnectRecord]) -> Callable[[Any], tuple[Any, ...]]:
    found = _GETTERS.get(kind)
    if found is None:
        found = _GETTERS[kind] = attrgetter(*(each.name for each in fields(kind)))
    return found


@dataclass(slots=True)
class SourceRecord(ConnectRecord):
    """`source_partition` and `source_offset` contain only strings, numbers, booleans and None."""

    source_partition: Mapping[str, Any] = field(default_factory=dict)
    source_offset: Mapping[str, Any] = field(default_factory=dict)
    java_name: ClassVar[str] = "org.apache.kafka.connect.source.SourceRecord"

    def __str__(self) -> str:
        return (
            f"SourceRecord{{sourcePartition={java_text(self.source_partition)}, "
            f"sourceOffset={java_text(self.source_offset)}}} {ConnectRecord.__str__(self)}"
        )


@dataclass(slots=True)
class SinkRecord(ConnectRecord):
    """Keeps topic, partition and offset from before the transforms, so that sinks can be idempotent."""

    offset: int = -1
    timestamp_type: int = 0
    original_topic: str = ""
    original_partition: int = -1
    java_name: ClassVar[str] = "org.apache.kafka.connect.sink.SinkRecord"

    def __str__(self) -> str:
        return (
            f"SinkRecord{{kafkaOffset={self.offset}, timestampType={_TIMESTAMP_TYPES[self.timestamp_type]}, "
            f"originalTopic={self.original_topic or self.topic}, "
            f"originalKafkaPartition={self.original_partition}, originalKafkaOffset={self.offset}}} "
            f"{ConnectRecord.__str__(self)}"
        )


_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
