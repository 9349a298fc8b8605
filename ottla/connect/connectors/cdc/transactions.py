"""Debezium's transaction metadata: the block in each change, and the records at both ends of a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.data.record import SourceRecord
from ottla.connect.data.schema import INT64, OPTIONAL_INT64, STRING, Schema, SchemaBuilder, SchemaType
from ottla.connect.data.struct import Struct

BLOCK = (
    SchemaBuilder("event.block", version=1, optional=True)
    .field("id", STRING)
    .field("total_order", INT64)
    .field("data_collection_order", INT64)
    .build()
)
_KEY = (
    SchemaBuilder("io.debezium.connector.common.TransactionMetadataKey", version=1)
    .field("id", STRING)
    .build()
)
_COLLECTION = (
    SchemaBuilder("event.collection", version=1, optional=True)
    .field("data_collection", STRING)
    .field("event_count", INT64)
    .build()
)
_VALUE = (
    SchemaBuilder("io.debezium.connector.common.TransactionMetadataValue", version=1)
    .field("status", STRING)
    .field("id", STRING)
    .field("event_count", OPTIONAL_INT64)
    .field("data_collections", Schema(SchemaType.ARRAY, optional=True, value_schema=_COLLECTION))
    .field("ts_ms", INT64)
    .build()
)
_COUNT = "transaction_data_collection_order_"


class TransactionMetadata:
    """Counts the events of the current transaction by table.

    The counts travel in the offsets under Debezium's names, so that a restarted task continues them.
    """

    def __init__(self, topic: str, partition: Mapping[str, Any]) -> None:
        self.topic = topic
        self._partition = partition
        self._counts: dict[str, int] = {}
        self._id = self._begin_id = ""
        self._time = 0

    def restore(self, offset: Mapping[str, Any]) -> None:
        self._counts = {
            name.removeprefix(_COUNT): int(count) for name, count in offset.items() if name.startswith(_COUNT)
        }

    def state(self) -> dict[str, Any]:
        """Return the counts as offset fields, which `restore` accepts."""
        return {f"{_COUNT}{table}": count for table, count in self._counts.items()}

    def begin(self, id: str, micros: int, *, continued: bool) -> None:
        """Start a transaction, or continue the one whose first changes were published before."""
        self._begin_id, self._time = id, micros // 1000
        if not continued:
            self._counts = {}

    def at(self, id: str) -> None:
        """Set the id of the next events."""
        self._id = id

    def event(self, table: str) -> Struct:
        self._counts[table] = self._counts.get(table, 0) + 1
        return Struct(
            BLOCK,
            {
                "id": self._id,
                "total_order": sum(self._counts.values()),
                "data_collection_order": self._counts[table],
            },
        )

    def to_offset(self) -> dict[str, Any]:
        return {"transaction_id": self._begin_id, **self.state()}

    def opened(self, records: Sequence[SourceRecord], *, is_first: bool) -> Sequence[SourceRecord]:
        """Put the record of the beginning before a transaction's first events, so that no commit separates them."""
        if not is_first or not records:
            return records
        return [self._record("BEGIN", self._begin_id, records[0].source_offset), *records]

    def end(self, id: str, offset: Mapping[str, Any]) -> list[SourceRecord]:
        """Return the record of the end, unless the transaction published nothing."""
        if not self._counts:
            return []
        found = [self._record("END", id, offset)]
        self._counts = {}
        return found

    @property
    def is_empty(self) -> bool:
        return not self._counts

    def _record(self, status: str, id: str, offset: Mapping[str, Any]) -> SourceRecord:
        value = {"status": status, "id": id, "ts_ms": self._time}
        if status == "END":
            value["event_count"] = sum(self._counts.values())
            value["data_collections"] = [
                Struct(_COLLECTION, {"data_collection": table, "event_count": count})
                for table, count in sorted(self._counts.items())
            ]
        return SourceRecord(
            self.topic,
            Struct(_VALUE, value),
            _VALUE,
            Struct(_KEY, {"id": id}),
            _KEY,
            source_partition=self._partition,
            source_offset=offset,
        )
