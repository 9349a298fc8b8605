"""Batches of records in columns, the fast path through transforms and converters.

Every operation is defined for single records. Columnar versions do the same faster and without side effects. If a
columnar version raises or declines, the runtime processes the same records one by one and handles errors there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from ottla.connect.data.record import SinkRecord, SourceRecord
from ottla.connect.data.schema import Schema

#: Smaller batches are not worth the overhead.
_FEWEST = 4


class MixedRecordsError(Exception):
    """The records no longer share topic, partition or schemas, for example because some got another schema."""


@dataclass(slots=True, kw_only=True)
class Columns:
    """Records without headers that share topic, partition and schemas. Invariant: lists are never modified."""

    topic: str
    #: The Kafka partition. None leaves the choice to the key.
    partition: int | None = None
    value_schema: Schema | None
    values: list[Any]
    key_schema: Schema | None
    keys: list[Any]
    timestamps: list[int | None]

    def __len__(self) -> int:
        return len(self.values)

    def replaced(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def parts(self, most: int) -> Iterator[Self]:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        lists = {name: column for name, column in given.items() if isinstance(column, list)}
        for begin in range(0, len(self), most):
            yield self.replaced(**{name: column[begin : begin + most] for name, column in lists.items()})


@dataclass(slots=True, kw_only=True)
class SinkColumns(Columns):
    """Also holds the values that transforms preserve: offsets, `original_topic` and `original_partition`."""

    offsets: list[int]
    timestamp_types: list[int]
    original_topic: str
    original_partition: int

    def records(self) -> list[SinkRecord]:
        return [
            SinkRecord(
                self.topic, value, self.value_schema, key, self.key_schema, self.partition, timestamp, [],
                offset, kind, self.original_topic, self.original_partition,
            )
            for value, key, timestamp, offset, kind in zip(
                self.values, self.keys, self.timestamps, self.offsets, self.timestamp_types, strict=True
            )
        ]  # fmt: skip


def runs(records: Sequence[SourceRecord]) -> Iterator[tuple[Sequence[SourceRecord], Columns | None]]:
    """Yield runs of records with common attributes, each with its columns, or None if columns do not pay off."""
    begin = 0
    first: SourceRecord | None = None
    for index, each in enumerate(records):
        if first is None or not (
            each.value_schema is first.value_schema
            and each.key_schema is first.key_schema
            and each.topic == first.topic
            and each.partition == first.partition
            and not each.headers
            and not first.headers
        ):
            if first is not None:
                yield _run(records[begin:index])
            begin, first = index, each
    if first is not None:
        yield _run(records[begin:])


def _run(records: Sequence[SourceRecord]) -> tuple[Sequence[SourceRecord], Columns | None]:
    if len(records) < _FEWEST:
        return records, None
    first = records[0]
    columns = Columns(
        topic=first.topic,
        partition=first.partition,
        value_schema=first.value_schema,
        values=[each.value for each in records],
        key_schema=first.key_schema,
        keys=[each.key for each in records],
        timestamps=[each.timestamp for each in records],
    )
    return records, columns


def only_schema(schemas: Sequence[Schema | None]) -> Schema | None:
    """Return the schema common to all. Raises MixedRecordsError."""
    first = schemas[0]
    for each in schemas:
        if each is not first and each != first:
            raise MixedRecordsError
    return first


def keep_in_step(kind: type, one: str, many: str, default: Any) -> None:
    """Reset an inherited columnar method in a subclass that overrides only the single-record method.

    Call it from `__init_subclass__`: the inherited `many` would ignore the new `one`.
    """
    for each in kind.__mro__:
        if many in vars(each):
            return
        if one in vars(each):
            setattr(kind, many, default)
            return
