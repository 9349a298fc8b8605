"""The sink task shared by both lakes: collects changes per table and commits them with their offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ottla.connect.api import Config, SinkTask, SinkTaskContext, TopicPartition
from ottla.connect.connectors.tables.changes import Change, ChangeRules, Changes, last_of_each_key
from ottla.connect.data.record import SinkRecord
from ottla.connect.errors import ConnectError, DataError, RetriableError

_ATTEMPTS = 5


class Conflict(RetriableError):
    """Another writer committed to the table at the same time."""


class TableWriter(Protocol):
    def committed(self, at: TopicPartition) -> int:
        """Return the next offset missing from the table."""

    def refresh(self) -> None: ...

    def write(
        self, changes: Sequence[Change], key_columns: Sequence[str], offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Write all changes and the next offsets in one commit. Raises Conflict."""


class _Pending:
    def __init__(self, writer: TableWriter, rules: ChangeRules) -> None:
        self.writer = writer
        self.changes = Changes(rules)
        self.waiting: list[Change] = []
        self._written: dict[TopicPartition, int] = {}

    def add(self, record: SinkRecord) -> None:
        at = TopicPartition(record.original_topic, record.original_partition)
        if at not in self._written:
            self._written[at] = self.writer.committed(at)
        if record.offset < self._written[at]:
            # The record is already in the table: the process ended before the group committed the offset.
            return
        change = self.changes.of(record)
        if change is not None:
            self.waiting.append(change)

    def write(self) -> None:
        for attempt in range(_ATTEMPTS):
            # A task replaced by this one may have written the same records. If it writes after this check, the commit
            # conflicts.
            self._written = {at: max(self.writer.committed(at), old) for at, old in self._written.items()}
            waiting = [each for each in self.waiting if each.offset >= self._written[each.at]]
            if not waiting:
                break
            offsets: dict[TopicPartition, int] = {}
            for each in waiting:
                offsets[each.at] = max(offsets.get(each.at, 0), each.offset + 1)
            changes = waiting if waiting[0].key is None else last_of_each_key(waiting)
            try:
                self.writer.write(changes, self.changes.key_columns, offsets)
            except Conflict:
                if attempt + 1 == _ATTEMPTS:
                    raise
                self.writer.refresh()
                continue
            self._written.update(offsets)
            break
        self.waiting = []


class TableSinkTask(SinkTask):
    """Subclasses choose the tables of a record and open them."""

    def start(self, config: Config, context: SinkTaskContext) -> None:
        self.config = config
        self.context = context
        self._pending: dict[str, _Pending] = {}

    def rules(self, table: str) -> ChangeRules:
        raise NotImplementedError

    def tables(self, record: SinkRecord) -> Sequence[str]:
        raise NotImplementedError

    def open_table(self, name: str) -> TableWriter:
        raise NotImplementedError

    def put(self, records: Sequence[SinkRecord]) -> None:
        for record in records:
            try:
                for name in self.tables(record):
                    self._table(name).add(record)
            except DataError as error:
                self.context.report(record, error)

    def _table(self, name: str) -> _Pending:
        found = self._pending.get(name)
        if found is None:
            found = self._pending[name] = _Pending(self.open_table(name), self.rules(name))
        return found

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        for each in self._pending.values():
            each.write()


def raised(error: Exception, what: str) -> ConnectError:
    text = " ".join(str(error).split()).rstrip(".")
    return ConnectError(f"{what}: {text}.")


def strip_prefix(config: Mapping[str, Any], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
