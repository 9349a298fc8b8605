"""The CDC task: a snapshot if needed, then the stream. Every record carries the offset to resume from.

Invariant: the capture's position (or `_progress` during a snapshot) lies after every record returned by `poll`, so the
task can reconnect at any time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ottla.connect.api import Config, SourceTask, SourceTaskContext
from ottla.connect.connectors.cdc.capture import Began, Capture, Changed, Ended, Item, Snapshot
from ottla.connect.connectors.cdc.envelope import CapturedTable, Events, Row
from ottla.connect.connectors.cdc.heartbeat import Heartbeat
from ottla.connect.connectors.cdc.incremental import IncrementalProgress, IncrementalSnapshot
from ottla.connect.connectors.cdc.snapshots import Shown, SnapshotProgress, later_from
from ottla.connect.connectors.cdc.transactions import TransactionMetadata
from ottla.connect.data.record import Header, SourceRecord
from ottla.connect.data.schema import STRING
from ottla.connect.errors import ConnectError


class CdcTask(SourceTask):
    """Works for any database. `capture_class` holds the database-specific part."""

    capture_class: ClassVar[type[Capture]]
    #: As in Debezium's headers.
    connector_name: ClassVar[str]
    _snapshot: Snapshot | None = None

    def start(self, config: Config, context: SourceTaskContext) -> None:
        settings = self.capture_class.config.parse(config)
        self._mode = settings["snapshot.mode"].lower()
        self._most = settings["max.batch.size"]
        self._pause = settings["poll.interval.ms"] / 1000
        partition = {"server": settings["topic.prefix"]}
        skipped = [] if settings["skipped.operations"] == ["none"] else settings["skipped.operations"]
        transactions = None
        if settings["provide.transaction.metadata"]:
            topic = f"{settings['topic.prefix']}.{settings['topic.transaction']}"
            transactions = TransactionMetadata(topic, partition)
        self._transactions = transactions
        self._events = Events(
            partition,
            tombstones=settings["tombstones.on.delete"],
            skipped=skipped,
            keep=self._keep,
            truncated=self._truncated,
            transactions=transactions,
        )
        self._context_headers = [
            Header(f"__debezium.context.{name}", value, STRING)
            for name, value in (
                ("connectorLogicalName", settings["topic.prefix"]),
                ("taskId", "0"),
                ("connectorName", self.connector_name),
            )
            if settings["extended.headers.enabled"]
        ]
        self._heartbeat = Heartbeat(settings, partition)
        self._items: Iterator[Item] | None = None
        self._held: list[SourceRecord] = []
        self._idle_until = 0.0
        self._shown = Shown([])
        #: Serialized for offsets, until the stream has passed the snapshot.
        self._later: str | None = None
        self._progress: SnapshotProgress | None = None
        self._is_finished = False
        self._incremental: IncrementalSnapshot | None = None
        self._capture = self.capture_class(settings, config, self._heartbeat, self._events)
        try:
            self._prepare(context.offset(partition))
        except self._capture.errors as error:
            self._abandon()
            raise self._capture.explained(error, "prepare the capture") from error
        except ConnectError:
            self._abandon()
            raise

    def _prepare(self, offset: Mapping[str, Any] | None) -> None:
        if offset is not None and self._mode == "always" and "snapshot" not in offset:
            offset = None
        offset = self._capture.prepare(offset)
        if self._capture.chunks is not None:
            progress = IncrementalProgress.from_offset(offset or {})
            self._incremental = IncrementalSnapshot(self._capture.chunks, progress)
        if offset is None:
            if self._mode in ("never", "no_data"):
                self._capture.go_to_end()
            else:
                self._progress = SnapshotProgress()
                self._take_snapshot(self._progress)
        elif "snapshot" in offset and not offset.get("snapshot_completed"):
            self._progress = SnapshotProgress.from_offset(offset)
            self._take_snapshot(self._progress)
        else:
            self._set_later(offset.get("snapshot_later"))
            self._is_finished = self._mode == "initial_only"

    def _set_later(self, later: str | None) -> None:
        self._shown, self._later = Shown(later_from(later)), later

    # The snapshot

    def _take_snapshot(self, progress: SnapshotProgress) -> Snapshot:
        begins = progress.table is None and not progress.later
        self._snapshot = snapshot = self._capture.take_snapshot(progress, begins=begins)
        if not begins:
            progress.resume_at(snapshot.at, snapshot.rows.table_names)
        return snapshot

    def _poll_snapshot(self, progress: SnapshotProgress) -> Sequence[SourceRecord]:
        snapshot = self._snapshot if self._snapshot is not None else self._take_snapshot(progress)
        records = []
        for row in snapshot.rows.read(self._most):
            progress.table, progress.key = f"{row.table.schema_name}.{row.table.name}", row.key
            source, offset = self._capture.of_row(row)
            offset |= {"snapshot": "INITIAL", "snapshot_completed": row.marker == "last"}
            if row.marker != "last":
                offset |= progress.to_offset()
            elif progress.later:
                offset["snapshot_later"] = progress.later_json()
            records.append(self._events.read(row.table, row.values, source, offset))
        if not records or records[-1].source_offset["snapshot_completed"]:
            snapshot.close()
            self._set_later(progress.later_json() if progress.later else None)
            self._snapshot = self._progress = None
            self._is_finished = self._mode == "initial_only"
        return records

    # The stream

    def _poll_stream(self) -> Sequence[SourceRecord]:
        records, self._held = self._held, []
        began = 0
        if self._items is None:
            if time.monotonic() < self._idle_until:
                return self._beat()
            self._items = self._capture.read()
        for item in self._items:
            if isinstance(item, Changed):
                if item.signal is not None and self._incremental is not None:
                    self._incremental.handle(item.signal)
                records += self._with_progress(item.records)
                if len(records) >= self._most:
                    if began > 0:
                        # Move the whole transaction into the next batch if it fits.
                        records, self._held = records[:began], records[began:]
                    else:
                        self._capture.position = self._capture.position._replace(changes=item.number)
                    return records
            elif isinstance(item, Began):
                began = len(records)
            else:
                records += self._with_progress(item.records)
                self._end_transaction(item, records[began:])
                began = len(records)
                if len(records) >= self._most:
                    return records
        self._items = None
        records += self._incremental_rows()
        if not records:
            if self._incremental is None or not self._incremental.is_open:
                self._idle_until = time.monotonic() + self._pause
            return self._beat()
        return records

    def _incremental_rows(self) -> Sequence[SourceRecord]:
        """Publish the waiting chunk of an incremental snapshot if the stream has passed it, and read the next one."""
        found: Sequence[SourceRecord] = ()
        snapshot = self._incremental
        if snapshot is None:
            return found
        if snapshot.is_open and self._capture.reached_end:
            found = self._with_later([self._events.read(*row) for row in snapshot.close_chunk()])
        if snapshot.wants_chunk:
            snapshot.read_chunk()
        return found

    def _with_progress(self, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        if self._incremental is not None and self._incremental.progress.tables:
            more = self._incremental.progress.to_offset()
            for record in records:
                record.source_offset = {**record.source_offset, **more}
        return self._with_later(records)

    def _with_later(self, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        if self._later is not None:
            for record in records:
                record.source_offset = {**record.source_offset, "snapshot_later": self._later}
        return records

    def _end_transaction(self, end: Ended, records: Sequence[SourceRecord]) -> None:
        if self._shown.until is not None and end.position >= self._shown.until:
            self._set_later(None)
        if records:
            records[-1].source_offset = {**records[-1].source_offset, **end.offset, "changes": 0}

    def _keep(self, table: CapturedTable, row: Row) -> bool:
        """Return False if the snapshot already shows this change."""
        if self._incremental is not None:
            self._incremental.touched(table, row)
        if self._shown.until is None:
            return True
        key = self._capture.key(table, row)
        name = f"{table.schema_name}.{table.name}"
        return not self._shown.has(name, key or None, self._capture.committed_at())

    def _truncated(self, table: CapturedTable) -> None:
        if self._incremental is not None:
            self._incremental.truncated(table)

    def _beat(self) -> Sequence[SourceRecord]:
        if not self._heartbeat.is_due:
            return []
        return self._with_progress([self._heartbeat.record(self._capture.heartbeat_offset())])

    # The SourceTask interface

    def poll(self) -> Sequence[SourceRecord]:
        if self._is_finished:
            return []
        before = self._capture.state(), self._shown, self._later
        incremental = None if self._incremental is None else self._incremental.progress
        failures: tuple[type[Exception], ...] = (*self._capture.errors, ConnectError)
        try:
            if self._progress is not None:
                return self._with_context(self._poll_snapshot(self._progress))
            records = self._poll_stream()
        except failures as error:
            self._abandon()
            if self._progress is None:
                # Read the unreturned changes again.
                state, self._shown, self._later = before
                self._capture.restore(state)
                if self._incremental is not None and incremental is not None:
                    self._incremental.progress = incremental
            if isinstance(error, ConnectError):
                raise
            raise self._capture.explained(error, "capture changes") from error
        if records:
            self._capture.offered(records[-1].source_offset)
        return self._with_context(records)

    def _with_context(self, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        if self._context_headers:
            without = None if self._transactions is None else self._transactions.topic
            for record in records:
                if record.topic != without:
                    record.headers = [*record.headers, *self._context_headers]
        return records

    def commit(self) -> None:
        self._capture.committed()

    def _abandon(self) -> None:
        """Close all connections. The next poll reopens them."""
        self._items, self._held = None, []
        if self._incremental is not None:
            self._incremental.forget()
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            with contextlib.suppress(*self._capture.errors):
                snapshot.close()
        self._capture.close()

    def stop(self) -> None:
        if not hasattr(self, "_capture"):  # the settings were invalid
            return
        if self._progress is None:
            with contextlib.suppress(*self._capture.errors, ConnectError):
                self._capture.finish()
        self._abandon()
