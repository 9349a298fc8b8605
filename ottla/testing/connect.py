"""A test kit for connector authors: runs sources and sinks without Spark or a broker, and crashes them.

    from ottla.testing.connect import SinkHarness, SourceHarness, check_source

    with SourceHarness(MySourceConnector, {"path": "numbers.txt", "topic": "numbers"}) as source:
        assert [record.value for record in source.run()] == [1, 2, 3]

    with SinkHarness(MySinkConnector, {"url": url}) as sink:
        sink.send("orders", {"id": 1})
        sink.crash_before_commit()      # stored but not committed: the record is delivered again
        sink.commit()

Both work like the runtime: the connector's definition validates the config, offsets pass through JSON, and a restarted
task gets the last committed offsets.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from ottla.connect.api import (
    Connector,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
    TopicPartition,
)
from ottla.connect.config.config_def import ConfigError
from ottla.connect.data.record import Header, SinkRecord, SourceRecord
from ottla.connect.data.schema import Schema


class NotExactlyOnce(AssertionError):
    """Records were lost, repeated or changed by a crash; or an offset cannot be stored."""


def validated(connector: Connector, config: Mapping[str, str]) -> dict[str, str]:
    """Return the config as accepted by the runtime. Raises ConfigError with all problems."""
    for name, value in config.items():
        if not isinstance(value, str):
            raise ConfigError(
                f"The value of {name} has to be text, as in a file of properties; it is {value!r}."
            )
    found: dict[str, list[str]] = connector.config_def.errors(config)
    if not found:
        found = {name: list(texts) for name, texts in connector.validate(config).items() if texts}
    if found:
        raise ConfigError(" ".join(text for texts in found.values() for text in texts))
    return dict(config)


class _Offsets:
    """Committed offsets, with JSON keys and values as in the offsets topic."""

    def __init__(self) -> None:
        self.stored: dict[str, str] = {}

    def put(self, record: SourceRecord) -> None:
        self.stored[_flat_json("source partition", record.source_partition)] = _flat_json(
            "source offset", record.source_offset
        )

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        found = self.stored.get(_flat_json("source partition", partition))
        return None if found is None else json.loads(found)


def _flat_json(what: str, value: Mapping[str, Any]) -> str:
    for name, each in value.items():
        if not isinstance(name, str) or not (each is None or isinstance(each, str | int | float | bool)):
            raise NotExactlyOnce(
                f"A {what} holds text, numbers, booleans and None only; {name!r} is a {type(each).__name__}."
            )
    return json.dumps(dict(value), sort_keys=True)


class SourceHarness:
    """Runs the tasks of a source. `committed` contains the records visible to consumers."""

    def __init__(
        self, connector: type[SourceConnector], config: Mapping[str, str], *, max_tasks: int = 1
    ) -> None:
        self.connector = connector()
        self.config = validated(self.connector, config)
        self.max_tasks = max_tasks
        self.committed: list[SourceRecord] = []
        self._offsets = _Offsets()
        self._polled: list[SourceRecord] = []
        self._tasks: list[SourceTask] = []
        self._abandoned: list[SourceTask] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the committed pairs of source partition and offset."""
        return [(json.loads(key), json.loads(value)) for key, value in self._offsets.stored.items()]

    def start(self) -> None:
        self.connector.start(self.config)
        configs = self.connector.task_configs(self.max_tasks)
        assert len(configs) <= self.max_tasks, f"{len(configs)} tasks, but tasks.max is {self.max_tasks}"
        try:
            for config in configs:
                self._tasks.append(self.connector.task_class())
                self._tasks[-1].start(config, self._offsets)
        except BaseException:
            # As in the runtime, a task is stopped even after a failed start.
            self.stop()
            raise

    def stop(self) -> None:
        for task in [*self._tasks, *self._abandoned]:
            task.stop()
        self._tasks, self._abandoned, self._polled = [], [], []
        self.connector.stop()

    def poll(self) -> list[SourceRecord]:
        """Poll every task once."""
        found = [record for task in self._tasks for record in task.poll()]
        for record in found:
            _flat_json("source partition", record.source_partition)
            _flat_json("source offset", record.source_offset)
        self._polled += found
        return found

    def commit(self) -> None:
        """Commit records and offsets in one transaction, then notify the tasks."""
        for record in self._polled:
            self._offsets.put(record)
        self.committed += self._polled
        self._polled = []
        for task in self._tasks:
            task.commit()

    def crash(self) -> None:
        """Simulate a dying process: uncommitted records are lost, and stop() is not called."""
        self._abandoned += self._tasks
        self._begin_again()

    def crash_after_commit(self) -> None:
        """Simulate a process that dies after the transaction, before commit() is called."""
        for record in self._polled:
            self._offsets.put(record)
        self.committed += self._polled
        self.crash()

    def restart(self) -> None:
        """Simulate a takeover by another worker: the tasks stop and restart at the committed offsets."""
        for task in self._tasks:
            task.stop()
        self._begin_again()

    def _begin_again(self) -> None:
        self._tasks, self._polled = [], []
        self.connector = type(self.connector)()
        self.start()

    def run(
        self, count: int | None = None, *, seconds: float = 20, idle_polls: int = 2
    ) -> list[SourceRecord]:
        """Poll and commit until `count` records are committed; without a count, until polls return nothing."""
        deadline = time.monotonic() + seconds
        idle = 0
        while len(self.committed) < count if count is not None else idle < idle_polls:
            if time.monotonic() > deadline:
                wanted = "nothing more to come" if count is None else f"{count} records"
                raise AssertionError(
                    f"After {seconds} s {len(self.committed)} records are there, not {wanted}."
                )
            idle = 0 if self.poll() else idle + 1
            self.commit()
        return self.committed


def check_source(
    connector: type[SourceConnector],
    fresh_config: Callable[[], Mapping[str, str]],
    *,
    same: Callable[[SourceRecord], object] | None = None,
    crashes: int = 10,
) -> list[SourceRecord]:
    """Check that a finite source delivers each record exactly once despite crashes.

    The source runs once without a crash, then with crashes at each of the first polls: before the commit, between
    commit and notification, and by an orderly move. `fresh_config` prepares the same input for every run, since a
    source may consume it. `same` selects the compared part of a record; by default topic, key and value.
    """
    identity = same or (lambda record: (record.topic, record.key, record.value))
    with SourceHarness(connector, fresh_config()) as source:
        whole = list(source.run())
    if not whole:
        raise NotExactlyOnce("The source gives nothing, so there is nothing to check.")
    expected = [identity(record) for record in whole]
    for how in ("crash", "crash_after_commit", "restart"):
        with SourceHarness(connector, fresh_config()) as source:
            for number in range(crashes):
                source.poll()
                getattr(source, how)()
                # Make some progress between the crashes, so that they hit different places.
                for _ in range(number % 3):
                    source.poll()
                source.commit()
            found = [identity(record) for record in source.run()]
        if found != expected:
            raise NotExactlyOnce(_difference(how, expected, found))
    return whole


def _difference(how: str, expected: list[object], found: list[object]) -> str:
    for number, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one != other:
            return f"With {how}() record {number} is {other}, without it is {one}."
    return f"With {how}() there are {len(found)} records, without there are {len(expected)}."


class _SinkContext:
    def __init__(self, harness: SinkHarness) -> None:
        self._harness = harness
        self.report: Callable[[SinkRecord, Exception], None] = self._keep

    def _keep(self, record: SinkRecord, error: Exception) -> None:
        self._harness.reported.append((record, error))

    @property
    def assignment(self) -> Sequence[TopicPartition]:
        return list(self._harness.topics)

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._harness._put |= offsets


class SinkHarness:
    """Runs a sink's task on topics in memory.

    `reported` contains the records that the sink could not store, with the reasons.
    """

    def __init__(self, connector: type[SinkConnector], config: Mapping[str, str]) -> None:
        self.connector = connector()
        self.config = validated(self.connector, config)
        self.topics: dict[TopicPartition, list[SinkRecord]] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.reported: list[tuple[SinkRecord, Exception]] = []
        self._put: dict[TopicPartition, int] = {}
        self._task: SinkTask | None = None
        self._abandoned: list[SinkTask] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def task(self) -> SinkTask:
        assert self._task is not None, "The sink is not started."
        return self._task

    def start(self) -> None:
        self.connector.start(self.config)
        config = self.connector.task_configs(1)[0]
        self._task = self.connector.task_class()
        try:
            self._task.start(config, _SinkContext(self))
            self._task.open(list(self.topics))
        except BaseException:
            # As in the runtime, a task is stopped even after a failed start.
            self.stop()
            raise
        self._put = dict(self.committed)

    def stop(self) -> None:
        for task in [*([self._task] if self._task is not None else []), *self._abandoned]:
            task.stop()
        self._task, self._abandoned = None, []
        self.connector.stop()

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int = 0,
        value_schema: Schema | None = None,
        key_schema: Schema | None = None,
        timestamp: int = 0,
        headers: Iterable[Header] = (),
    ) -> SinkRecord:
        """Append a record to the topic. The sink gets it by `put` or `commit`."""
        at = TopicPartition(topic, partition)
        is_new = at not in self.topics
        records = self.topics.setdefault(at, [])
        record = SinkRecord(
            topic,
            value,
            value_schema,
            key,
            key_schema,
            partition,
            timestamp,
            list(headers),
            offset=len(records),
            original_topic=topic,
            original_partition=partition,
        )
        records.append(record)
        if is_new and self._task is not None:
            self._task.open([at])
        return record

    def put(self, limit: int | None = None) -> None:
        """Pass new records to the sink, at most `limit` per partition."""
        for at, records in self.topics.items():
            begin = self._put.get(at, 0)
            given = records[begin:] if limit is None else records[begin : begin + limit]
            self.task.put(given)
            self._put[at] = begin + len(given)

    def flush(self) -> Mapping[TopicPartition, int]:
        """Ask the sink for the offsets to commit, as before each commit."""
        offsets = dict(self._put)
        durable = self.task.flush(offsets)
        return offsets if durable is None else durable

    def commit(self, limit: int | None = None) -> None:
        """Put the available records, let the sink make them durable, and commit."""
        self.put(limit)
        self.committed.update(self.flush())

    def crash(self) -> None:
        """Simulate a process that dies before the sink flushes: uncommitted records are delivered again."""
        self._abandoned.append(self.task)
        self._begin_again()

    def crash_before_commit(self, limit: int | None = None) -> None:
        """Simulate a process that dies with everything durable but not committed, and restart."""
        self.put(limit)
        self.flush()
        self.crash()

    def restart(self) -> None:
        """Simulate a takeover by another worker."""
        self.task.stop()
        self._begin_again()

    def _begin_again(self) -> None:
        self.connector = type(self.connector)()
        self.start()


def check_sink(
    connector: type[SinkConnector],
    fresh_config: Callable[[], Mapping[str, str]],
    send: Callable[[SinkHarness], None],
    stored: Callable[[], object],
) -> object:
    """Check that crashes do not change the stored data, and return that data.

    `fresh_config` prepares an empty target, `send` sends the records, `stored` reads the target.
    """
    with SinkHarness(connector, fresh_config()) as sink:
        send(sink)
        sink.commit()
    expected = stored()
    for how in ("crash", "crash_before_commit", "restart"):
        with SinkHarness(connector, fresh_config()) as sink:
            send(sink)
            sink.commit(limit=1)
            for number in range(1, 5):
                sink.put(limit=number)
                getattr(sink, how)()
            sink.commit(limit=2)
            sink.commit()
        found = stored()
        if found != expected:
            raise NotExactlyOnce(f"With {how}() the target holds {found!r}, without it holds {expected!r}.")
    return expected
