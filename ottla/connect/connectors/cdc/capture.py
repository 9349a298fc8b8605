"""What a task needs of a database to capture its changes, and what it gets from its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from ottla.connect.api import Config
from ottla.connect.config.config_def import ConfigDef
from ottla.connect.connectors.cdc.envelope import CapturedTable, Events, Row
from ottla.connect.connectors.cdc.heartbeat import Heartbeat
from ottla.connect.connectors.cdc.snapshot_rows import SnapshotRow, SnapshotRows
from ottla.connect.connectors.cdc.snapshots import Key, SnapshotProgress
from ottla.connect.data.record import SourceRecord
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError


class Began(NamedTuple):
    """A transaction begins."""


class Changed(NamedTuple):
    """A change of the transaction, which need not give any records."""

    records: Sequence[SourceRecord]
    #: Which change of the transaction it is, from 1.
    number: int


class Ended(NamedTuple):
    """The transaction is complete, and `Capture.position` is behind it."""

    #: What the offset of its last record says instead.
    offset: Mapping[str, Any]
    #: In the order of `Later.position`.
    position: Any


Item = Began | Changed | Ended


class Snapshot(Protocol):
    """The tables as they are at one position of the log."""

    rows: SnapshotRows

    @property
    def at(self) -> Any:
        """That position, in the order of `Later.position`."""

    def close(self) -> None: ...


class Capture(Protocol):
    """One database. Invariant: it can be closed at any time, and opens again what it needs."""

    config: ClassVar[ConfigDef]
    #: What calls raise when the database cannot be reached or refuses something.
    errors: ClassVar[tuple[type[Exception], ...]]
    #: Behind everything that was handed on: a named tuple with a field `changes`.
    position: Any

    def __init__(
        self, settings: Mapping[str, Any], config: Config, heartbeat: Heartbeat, events: Events
    ) -> None: ...

    def prepare(self, offset: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Check everything, and go to the offset. Returns it, or None if it cannot be gone on from."""

    def go_to_end(self) -> None:
        """Begin with what comes now."""

    def take_snapshot(self, progress: SnapshotProgress, *, begins: bool) -> Snapshot:
        """Of what is left. With `begins` nothing was published, and the stream begins where this one is taken."""

    def of_row(self, row: SnapshotRow) -> tuple[Struct, dict[str, Any]]:
        """The `source` of a row of the last snapshot, and its offset."""

    def read(self) -> Iterator[Item]:
        """The changes behind `position` that there are now."""

    def committed_at(self) -> Any:
        """Where the transaction that is being read was committed, in the order of `Later.position`."""

    def key(self, table: CapturedTable, row: Row) -> Key:
        """As snapshots have it."""

    def heartbeat_offset(self) -> dict[str, Any]: ...

    def state(self) -> Any:
        """For `restore`, if what is read from here on is not handed on."""

    def restore(self, state: Any) -> None: ...

    def offered(self, offset: Mapping[str, Any]) -> None:
        """The offset of the last record that was handed on."""

    def committed(self) -> None:
        """All that was offered is committed."""

    def finish(self) -> None:
        """Tell the database what is committed, before the task stops."""

    def explained(self, error: Exception, doing: str) -> ConnectError: ...

    def close(self) -> None: ...
