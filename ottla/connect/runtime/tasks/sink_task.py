"""A sink task in an executor: reads, converts, transforms and puts records, and regularly flushes and commits.

The task commits offsets to the group `connect-NAME` after the sink has made the records durable. After a failure it
reads again from there. Delivery is at least once, and exactly once if the sink recognizes duplicates.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from ottla.client.cluster import Cluster
from ottla.client.cluster import TopicPartition as Partition
from ottla.client.errors import ClientError
from ottla.connect.api import SinkTask, TopicPartition
from ottla.connect.data.record import SinkRecord
from ottla.connect.errors import RetriableError
from ottla.connect.plugins import load_class
from ottla.connect.runtime.failures.dead_letter_queue import DeadLetterQueue
from ottla.connect.runtime.failures.error_handling import ErrorHandling
from ottla.connect.runtime.failures.stages import Failure, Stage
from ottla.connect.runtime.records.audit import Delivered, audit_tier
from ottla.connect.runtime.records.conversion import SinkConversion
from ottla.connect.runtime.records.topic_records import RawRecord, RawRecords
from ottla.connect.runtime.tasks.clients import (
    client_properties,
    consumer_settings,
    producer_options,
    sink_group,
)
from ottla.connect.runtime.tasks.consumer import SinkConsumer
from ottla.connect.runtime.tasks.control import TaskControl
from ottla.connect.runtime.tasks.task_spec import TaskSpec
from ottla.connect.runtime.tasks.waiting import Doing, Waiting

_log = logging.getLogger(__name__)

#: Records per `put`, like Kafka's max.poll.records.
_MOST_RECORDS = 500


def run_sink_task(spec: TaskSpec, control: TaskControl, waiting: Waiting) -> None:
    with _SinkTask(spec, control, waiting) as task:
        task.run()


class _SinkTask:
    """Implements SinkTaskContext for its task."""

    def __init__(self, spec: TaskSpec, control: TaskControl, waiting: Waiting) -> None:
        self._spec = spec
        self._control = control
        self._waiting = waiting
        config = spec.config
        settings = client_properties(spec.worker, config, "consumer")
        self._cluster = Cluster(consumer_settings(spec.worker, config))
        self._settings = settings
        self._most_records = int(settings.get("max.poll.records", _MOST_RECORDS))
        self._errors = ErrorHandling(config, spec.label, control.stopping)
        self._dead_letters = DeadLetterQueue(
            config, spec.connector, spec.task, producer_options(spec.worker, config)
        )
        self._conversion = SinkConversion(config, spec.worker, self._errors, self._failed)
        self._every = spec.worker.offset_flush_interval
        self._task: SinkTask = load_class(config["connector.class"]).task_class()
        #: Records of the last `put`, in case the sink reports one.
        self._put: list[RawRecords] = []
        self._seen_topics: set[str] = set()
        #: Requests from the sink.
        self._rewound: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._due = 0.0
        tier = audit_tier(spec)
        self._delivered = None if tier is None else Delivered(self._cluster, tier, spec)

    def __enter__(self) -> _SinkTask:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._task.stop()
        except Exception:
            _log.exception("Task %s could not be stopped cleanly", self._spec.label)
        self._conversion.close()
        self._cluster.close()

    # SinkTaskContext

    @property
    def assignment(self) -> Sequence[TopicPartition]:
        return self._spec.partitions

    def report(self, record: SinkRecord, error: Exception) -> None:
        raw = self._raw(record)
        kind = type(self._task)
        failure = Failure(Stage.TASK_PUT, f"{kind.__module__}.{kind.__qualname__}", error)
        where = f"{record.original_topic}-{record.original_partition} at offset {record.offset}"
        self._errors.report(failure, record, where)
        if raw is not None:
            self._failed(failure, raw)
        self._errors.tolerate(failure, where)

    def _raw(self, record: SinkRecord) -> RawRecord | None:
        its = (record.original_topic, record.original_partition)
        found = (each.at(record.offset) for each in self._put if (each.topic, each.partition) == its)
        return next(filter(None, found), None)

    def _failed(self, failure: Failure, record: RawRecord) -> None:
        self._dead_letters.add(failure, record)
        if not self._errors.tolerates:
            self._dead_letters.flush()

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._rewound |= {Partition(*each): offset for each, offset in offsets.items()}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused |= {Partition(*each) for each in partitions}

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused -= {Partition(*each) for each in partitions}

    def request_commit(self) -> None:
        self._due = 0.0

    # The task

    def run(self) -> None:
        self._dead_letters.prepare(self._cluster)
        self._task.start(self._spec.task_config, self)
        partitions = self._spec.partitions
        if not partitions:  # more tasks than partitions, or no topic yet
            self._running()
            self._control.stopping.wait()
            return
        consumer = SinkConsumer(self._cluster, sink_group(self._spec), partitions, self._settings)
        self._task.open(partitions)
        self._running()
        self._read_until_stopped(consumer)

    def _running(self) -> None:
        self._waiting.succeeded(Doing.BEGINNING)
        self._waiting.report_running()

    def _read_until_stopped(self, consumer: SinkConsumer) -> None:
        stored = dict(consumer.positions)
        committed: dict[Partition, int] = {}
        waiting: deque[RawRecords] = deque()
        self._due = time.monotonic() + self._every
        while not self._control.stopping.is_set():
            if self._rewound:
                rewound, self._rewound = self._rewound, {}
                waiting = deque(each for each in waiting if (each.topic, each.partition) not in rewound)
                consumer.positions |= rewound
                stored |= rewound
            if not waiting:
                waiting.extend(self._poll(consumer))
            some = self._next(waiting)
            if not self._deliver(some):
                break
            for each in some:
                if self._delivered is not None:
                    self._delivered.note(each)
                stored[Partition(each.topic, each.partition)] = each.offsets[-1] + 1
            if not waiting:
                stored = dict(consumer.positions)
            if time.monotonic() >= self._due:
                committed = self._commit(consumer, stored, committed)
                self._due = time.monotonic() + self._every
        if not self._control.lost:
            self._commit(consumer, stored, committed)

    def _next(self, waiting: deque[RawRecords]) -> list[RawRecords]:
        """Take the batches for the next `put` off the queue."""
        some: list[RawRecords] = []
        room = self._most_records
        while waiting and len(waiting[0]) <= room:
            some.append(waiting.popleft())
            room -= len(some[-1])
        return some

    def _poll(self, consumer: SinkConsumer) -> list[RawRecords]:
        """Return batches that each fit into one `put`."""
        try:
            found = consumer.poll(self._paused)
        except ClientError as error:
            if not error.is_retriable:
                raise
            self._waiting.failed(Doing.READING, error)
            self._control.stopping.wait(self._cluster.settings.retry_backoff)
            return []
        self._waiting.succeeded(Doing.READING)
        return [part for each in found for part in each.parts(self._most_records)]

    def _deliver(self, some: list[RawRecords]) -> bool:
        """Return False if the task must stop before the sink has accepted the records."""
        for each in some:
            if each.topic not in self._seen_topics:
                self._seen_topics.add(each.topic)
                self._control.report(topic=each.topic)
        put = self._converted(some)
        self._put = some
        attempt = 0
        while True:
            try:
                put()
                self._waiting.succeeded(Doing.PUTTING)
                return True
            except RetriableError as error:
                self._waiting.failed(Doing.PUTTING, error)
            self._errors.wait(attempt)
            attempt += 1
            if self._control.stopping.is_set():
                return False

    def _converted(self, some: list[RawRecords]) -> Callable[[], None]:
        """Return a call that puts the converted records. There may be none, as in Kafka."""
        columns = [(each, self._conversion.convert_columns(each)) for each in some]
        whole = [found for _, found in columns if found is not None]
        if some and len(whole) == len(some) and self._task.takes_columns:
            return partial(self._task.put_columns, whole)
        records: list[SinkRecord] = []
        for each, found in columns:
            records += self._conversion.convert_each(each) if found is None else found.records()
        return partial(self._task.put, records)

    def _commit(
        self, consumer: SinkConsumer, stored: dict[Partition, int], committed: dict[Partition, int]
    ) -> dict[Partition, int]:
        """Flush, then commit new offsets. Return the committed offsets."""
        new = {each: offset for each, offset in stored.items() if committed.get(each) != offset}
        if not new:
            return committed
        try:
            durable = self._task.flush({TopicPartition(*each): offset for each, offset in stored.items()})
        except RetriableError as error:
            self._waiting.failed(Doing.FLUSHING, error)
            return committed
        self._waiting.succeeded(Doing.FLUSHING)
        if durable is not None:
            stored = {each: durable[TopicPartition(*each)] for each in stored if tuple(each) in durable}
            new = {each: offset for each, offset in stored.items() if committed.get(each) != offset}
        self._dead_letters.flush()
        if self._delivered is not None:
            self._delivered.write(stored)
        consumer.commit(new)
        return {**committed, **stored}
