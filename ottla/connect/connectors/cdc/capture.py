"""The interface between a CDC task and a database, and the items read from the database's log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from ottla.connect.api import Config
from ottla.connect.config.config_def import ConfigDef
from ottla.connect.connectors.cdc.envelope import CapturedTable, Events, Row
from ottla.connect.connectors.cdc.heartbeat import Heartbeat
from ottla.connect.connectors.cdc.incremental import ChunkSource, Signal
from ottla.connect.connectors.cdc.snapshot_rows import SnapshotRow, SnapshotRows
from ottla.connect.connectors.cdc.snapshots import Key, SnapshotProgress
from ottla.connect.data.record import SourceRecord
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError


class Began(NamedTuple):
    """The start of a transaction."""


class Changed(NamedTuple):
    """One change in the transaction. It may produce no records."""

    records: Sequence[SourceRecord]
    #: Number of the change within the transaction, from 1.
    number: int
    signal: Signal | None = None


class Ended(NamedTuple):
    """The end of a transaction. `Capture.position` now lies after it."""

    #: Replaces the offset of the last record.
    offset: Mapping[str, Any]
    #: Comparable with `Later.position`.
    position: Any
    #: Records behind the changes.
    records: Sequence[SourceRecord] = ()


Item = Began | Changed | Ended


class Snapshot(Protocol):
    """The tables at one log position."""

    rows: SnapshotRows

    @property
    def at(self) -> Any:
        """Return the log position, comparable with `Later.position`."""

    def close(self) -> None: ...


class Capture(Protocol):
    """Access to one database. Invariant: `close` is safe at any time, and later calls reconnect as needed."""

    config: ClassVar[ConfigDef]
    #: Exceptions that calls raise when the database is unreachable or rejects a statement.
    errors: ClassVar[tuple[type[Exception], ...]]
    #: Position after the last item returned: a named tuple with a field `changes`.
    position: Any
    #: True if the last finished `read` has seen the end of the log.
    reached_end: bool

    def __init__(
        self, settings: Mapping[str, Any], config: Config, heartbeat: Heartbeat, events: Events
    ) -> None: ...

    @property
    def chunks(self) -> ChunkSource | None:
        """Return None if the connector has no incremental snapshots."""

    def prepare(self, offset: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Check the database and seek to the offset. Return the offset, or None if the stream cannot resume there."""

    def go_to_end(self) -> None:
        """Skip the existing changes and start with the next one."""

    def take_snapshot(self, progress: SnapshotProgress, *, begins: bool) -> Snapshot:
        """Snapshot the remaining rows.

        `begins` means that nothing is published yet, and the stream starts at this snapshot.
        """

    def of_row(self, row: SnapshotRow) -> tuple[Struct, dict[str, Any]]:
        """Return the `source` struct and the offset of a row in the last snapshot."""

    def read(self) -> Iterator[Item]:
        """Yield the changes available after `position`."""

    def committed_at(self) -> Any:
        """Return the commit position of the current transaction, comparable with `Later.position`."""

    def key(self, table: CapturedTable, row: Row) -> Key:
        """Return the key of a row in the snapshot's format."""

    def heartbeat_offset(self) -> dict[str, Any]: ...

    def state(self) -> Any:
        """Return a checkpoint for `restore`, which undoes later reads that were not published."""

    def restore(self, state: Any) -> None: ...

    def offered(self, offset: Mapping[str, Any]) -> None:
        """Remember the offset of the last record returned to the runtime."""

    def committed(self) -> None:
        """Mark all offered records as committed."""

    def finish(self) -> None:
        """Report the committed position to the database before the task stops."""

    def explained(self, error: Exception, doing: str) -> ConnectError: ...

    def close(self) -> None: ...
