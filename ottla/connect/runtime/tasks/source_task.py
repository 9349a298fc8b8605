"""A source task in an executor: polls, transforms, converts, writes and commits records.

One transaction contains records and their source offsets. The task first fences all other producers of its
transactional id, and then reads its offsets. The output of any earlier task is therefore either visible with its
offsets or aborted. Delivery is exactly once if the source can be read again from an offset.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.connect.api import SourceColumns, SourceOffset, SourcePartition, SourceTask
from ottla.connect.config.config_def import ConfigDef, ConfigType, at_least, one_of
from ottla.connect.data.record import SourceRecord
from ottla.connect.errors import ConnectError, RetriableError
from ottla.connect.plugins import load_class
from ottla.connect.runtime.failures.error_handling import ErrorHandling
from ottla.connect.runtime.offsets import SourceOffsets, ensure_topic, offset_topics, read_offsets
from ottla.connect.runtime.records.audit import audit_tier, counter_of
from ottla.connect.runtime.records.conversion import SourceConversion
from ottla.connect.runtime.records.record_writer import RecordWriter
from ottla.connect.runtime.records.topic_creation import TopicCreation
from ottla.connect.runtime.records.topic_records import ConvertedRecord, ConvertedRecords
from ottla.connect.runtime.records.transactions import SourceTransactions, TimedOut
from ottla.connect.runtime.tasks.clients import producer_options
from ottla.connect.runtime.tasks.control import TaskControl
from ottla.connect.runtime.tasks.task_spec import TaskSpec
from ottla.connect.runtime.tasks.waiting import Doing, Waiting
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC, ensure_audit_topic

_log = logging.getLogger(__name__)

#: Delay before polling an idle source again. It doubles each time.
_FIRST_WAIT = 0.02
_LONGEST_WAIT = 0.25
#: Limits in time and records for a transaction shared by several polls, while the source has more.
_TRANSACTION_SECONDS = 0.1
_TRANSACTION_RECORDS = 100_000

_boundary = one_of("poll", "interval", "connector")


def run_source_task(spec: TaskSpec, control: TaskControl, waiting: Waiting) -> None:
    while not control.stopping.is_set():
        try:
            with _SourceTask(spec, control, waiting) as task:
                task.run()
        except TimedOut as error:
            _log.warning("Task %s begins again: %s", spec.label, error.message)


class _Context:
    def __init__(self, offsets: SourceOffsets) -> None:
        self._offsets = offsets

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        return self._offsets.get(partition)


class _SourceTask:
    def __init__(self, spec: TaskSpec, control: TaskControl, waiting: Waiting) -> None:
        self._spec = spec
        self._control = control
        self._waiting = waiting
        config = spec.config
        topics = offset_topics(spec.worker.offset_topic, config)
        if not topics:
            raise ConnectError(
                "The worker has no topic for the offsets of sources: set offset.storage.topic."
            )
        self._offset_topic = topics[-1]
        errors = ErrorHandling(config, spec.label, control.stopping)
        self._errors = errors
        self._conversion = SourceConversion(config, spec.worker, errors)
        self._creation = TopicCreation(config, spec.worker.creates_topics)
        options = producer_options(spec.worker, config)
        # The coordinator would abort a transaction that reaches its timeout.
        self._interval = min(_transaction_seconds(config), options.transaction_timeout_ms / 2000)
        self._cluster = Cluster(options.settings)
        name = f"{spec.worker.group_id}-{spec.connector}-{spec.task}"
        self._transactions = SourceTransactions(self._cluster, name, options.transaction_timeout_ms)
        self._writer = RecordWriter(
            self._cluster,
            options,
            self._transactions,
            self._prepare_topic,
            counter=counter_of(audit_tier(spec), spec, topics),
            on_retry=partial(waiting.failed, Doing.WRITING),
        )
        self._offset_topics = topics
        self._task: SourceTask = load_class(config["connector.class"]).task_class()
        #: Offsets of the open transaction.
        self._pending_offsets: list[tuple[SourcePartition, SourceOffset]] = []
        self._pending_records = 0
        self._began_at = 0.0
        self._has_pending = False

    def __enter__(self) -> _SourceTask:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._task.stop()
        except Exception:
            _log.exception("Task %s could not be stopped cleanly", self._spec.label)
        self._transactions.abort()
        self._conversion.close()
        self._cluster.close()

    def run(self) -> None:
        if self._offset_topic != self._spec.worker.offset_topic:
            ensure_topic(self._cluster, self._offset_topic, self._spec.worker)
        self._transactions.fence()
        self._offsets = read_offsets(
            self._cluster, self._offset_topics, self._spec.connector, self._spec.offsets
        )
        self._task.start(self._spec.task_config, _Context(self._offsets))
        self._waiting.succeeded(Doing.BEGINNING)
        self._waiting.report_running()
        try:
            self._poll_until_stopped()
        except ClientError as error:
            raise self._transactions.explained(error) from error

    def _poll_until_stopped(self) -> None:
        in_columns = self._task.gives_columns and self._conversion.takes_columns
        wait = _FIRST_WAIT
        while not self._control.stopping.is_set():
            count = self._poll(in_columns)
            if self._has_pending and (count == 0 or self._is_due()):
                self._commit()
            if count:
                wait = _FIRST_WAIT
            else:
                self._control.stopping.wait(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
        if self._has_pending:
            self._commit()

    def _poll(self, in_columns: bool) -> int:
        columns: SourceColumns | None = None
        records: Sequence[SourceRecord] = ()
        try:
            if in_columns:
                columns = self._task.poll_columns()
            else:
                records = self._task.poll()
        except RetriableError as error:
            self._waiting.failed(Doing.POLLING, error)
            return 0
        self._waiting.succeeded(Doing.POLLING)
        if columns is not None:
            return self._take_columns(columns)
        return self._take(records) if records else 0

    def _take(self, records: Sequence[SourceRecord]) -> int:
        converted = self._conversion.convert_all(records)
        self._begin()
        if converted:
            self._writer.write(converted)
        offsets = self._pending_offsets
        previous: SourcePartition | None = None
        for record in records:
            # Most sources use one partition for all records of a poll. Only the last offset of each counts.
            if record.source_partition is previous:
                offsets[-1] = record.source_partition, record.source_offset
            else:
                offsets.append((record.source_partition, record.source_offset))
                previous = record.source_partition
        self._pending_records += len(records)
        return len(records)

    def _take_columns(self, found: SourceColumns) -> int:
        converted = self._conversion.convert_columns(found.columns, found.records)
        self._begin()
        if converted:
            self._writer.write(converted)
        self._pending_offsets += found.offsets
        self._pending_records += len(found.columns)
        return len(found.columns)

    # Transactions

    def _begin(self) -> None:
        if not self._has_pending:
            self._has_pending = True
            self._began_at = time.monotonic()

    def _is_due(self) -> bool:
        return (
            self._pending_records >= _TRANSACTION_RECORDS
            or time.monotonic() - self._began_at >= self._interval
        )

    def _commit(self) -> None:
        offsets = self._pending_offsets
        # The last offset of each partition, ordered by last occurrence.
        newest: dict[bytes, tuple[SourcePartition, SourceOffset, bytes | None]] = {}
        for partition, offset in offsets:
            key, value = self._offsets.record(partition, offset)
            newest[key] = partition, offset, value
        written = ConvertedRecords()
        for key, (_, _, value) in newest.items():
            written.add(ConvertedRecord(self._offset_topic, None, key, value, [], None))
        self._writer.write({self._offset_topic: written})
        self._writer.commit()
        self._waiting.succeeded(Doing.WRITING)
        for partition, offset, _ in newest.values():
            self._offsets.set(partition, offset)
        self._pending_offsets = []
        self._pending_records = 0
        self._has_pending = False
        try:
            self._task.commit()
        except Exception:  # the source can discard its data after the next commit
            _log.warning("Task %s could not acknowledge its source", self._spec.label, exc_info=True)

    def _prepare_topic(self, topic: str) -> None:
        if topic == self._offset_topic:
            return
        if topic == AUDIT_TOPIC:
            ensure_audit_topic(self._cluster)
            return
        self._creation.ensure(self._cluster, topic)
        self._control.report(topic=topic)


def _transaction_seconds(config: Mapping[str, str]) -> float:
    """Return the time that polls may share a transaction. `transaction.boundary=poll` gives each poll its own."""
    boundary = config.get("transaction.boundary", "").strip().lower()
    if boundary:
        _boundary("transaction.boundary", boundary)
    if boundary == "poll":
        return 0.0
    if boundary == "connector":
        raise ConnectError(
            "transaction.boundary=connector is not supported: no connector defines transactions of its own. "
            "Set it to poll or interval, or omit it."
        )
    if boundary == "interval":
        name = "transaction.boundary.interval.ms"
        settings = ConfigDef().define(name, ConfigType.LONG, 60_000, validator=at_least(0)).parse(config)
        return float(settings[name]) / 1000
    return _TRANSACTION_SECONDS
