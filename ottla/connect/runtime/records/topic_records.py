"""Serialized records in columns, as source tasks write them and sink tasks read them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

RawHeaders = list[tuple[str, bytes | None]]


class ConvertedRecord(NamedTuple):
    """A record ready for Kafka."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: RawHeaders
    timestamp: int | None


@dataclass(slots=True)
class ConvertedRecords:
    """The records for one topic."""

    partitions: list[int | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[RawHeaders] = field(default_factory=list)
    timestamps: list[int | None] = field(default_factory=list)

    def add(self, record: ConvertedRecord) -> None:
        self.partitions.append(record.partition)
        self.keys.append(record.key)
        self.values.append(record.value)
        self.headers.append(record.headers)
        self.timestamps.append(record.timestamp)

    def extend(self, other: ConvertedRecords) -> None:
        self.partitions += other.partitions
        self.keys += other.keys
        self.values += other.values
        self.headers += other.headers
        self.timestamps += other.timestamps


class RawRecord(NamedTuple):
    """A record as stored in a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: RawHeaders
    timestamp: int
    timestamp_type: int

    @property
    def where(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}"


@dataclass(frozen=True, slots=True)
class RawRecords:
    """At least one record of one partition, in offset order."""

    topic: str
    partition: int
    offsets: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    #: None if no record has headers.
    headers: list[RawHeaders] | None
    timestamps: list[int]
    timestamp_types: list[int]

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[RawRecord]:
        return map(self._record, range(len(self.offsets)))

    def at(self, offset: int) -> RawRecord | None:
        index = bisect_left(self.offsets, offset)
        return self._record(index) if self.offsets[index : index + 1] == [offset] else None

    def parts(self, most: int) -> list[RawRecords]:
        if len(self) <= most:
            return [self]
        return [self._slice(slice(begin, begin + most)) for begin in range(0, len(self), most)]

    def _record(self, index: int) -> RawRecord:
        headers: RawHeaders = [] if self.headers is None else self.headers[index]
        return RawRecord(
            self.topic,
            self.partition,
            self.offsets[index],
            self.keys[index],
            self.values[index],
            headers,
            self.timestamps[index],
            self.timestamp_types[index],
        )

    def _slice(self, some: slice) -> RawRecords:
        headers = None if self.headers is None else self.headers[some]
        return RawRecords(
            self.topic,
            self.partition,
            self.offsets[some],
            self.keys[some],
            self.values[some],
            headers if headers is not None and any(headers) else None,
            self.timestamps[some],
            self.timestamp_types[some],
        )
