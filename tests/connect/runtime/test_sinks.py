"""Sinks read the records of their topics from the committed offsets of their group."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from confluent_kafka import Producer

from ottla.client.admin.groups import committed_offsets
from ottla.client.cluster import Cluster
from ottla.connect import (
    ConfigDef,
    ConfigType,
    ConnectError,
    RetriableError,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SinkTaskContext,
)
from ottla.connect.api import Config, TopicPartition
from ottla.connect.runtime.engine import State
from ottla.testing import Broker
from tests.connect.runtime.conftest import Worker, wait_for

_HERE = "tests.connect.runtime.test_sinks"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


class CollectingTask(SinkTask):
    """Collects records, fails as its config says, and reports the values listed in `bad`."""

    def start(self, config: Config, context: SinkTaskContext) -> None:
        self.into = CollectingSink.stores[config["store"]]
        self.context = context
        self.bad = set(config.get("bad", "").split(","))
        self.refusals = int(config.get("refusals", "0"))

        self.from_offset = config.get("from.offset")

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        with self.into.lock:
            self.into.opened.append(sorted(partitions))
        if self.from_offset is not None:
            self.context.rewind(dict.fromkeys(partitions, int(self.from_offset)))

    def put(self, records: Sequence[SinkRecord]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise RetriableError("Not now.")
        with self.into.lock:
            self.into.puts.append(len(records))
        for record in records:
            if str(record.value) in self.bad:
                self.context.report(record, ConnectError(f"{record.value} is bad."))
            else:
                with self.into.lock:
                    self.into.records.append(record)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        with self.into.lock:
            self.into.flushed |= offsets


class Store:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.records: list[SinkRecord] = []
        self.opened: list[list[TopicPartition]] = []
        self.puts: list[int] = []
        self.flushed: dict[TopicPartition, int] = {}

    @property
    def values(self) -> list[Any]:
        return [each.value for each in self.records]


class CollectingSink(SinkConnector):
    task_class = CollectingTask
    config_def = ConfigDef().define("store", ConfigType.STRING)
    stores: ClassVar[dict[str, Store]] = {}

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)] * max_tasks


@pytest.fixture
def store() -> Iterator[Store]:
    name = uuid.uuid4().hex
    found = CollectingSink.stores[name] = Store()
    found.name = name  # type: ignore[attr-defined]
    yield found
    del CollectingSink.stores[name]


def _sink(store: Store, topics: str, **more: str) -> dict[str, str]:
    return {
        "name": f"sink-{store.name}",  # type: ignore[attr-defined]
        "connector.class": f"{_HERE}:CollectingSink",
        "topics": topics,
        "store": store.name,  # type: ignore[attr-defined]
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def _produce(broker: Broker, topic: str, values: Sequence[str | tuple[str, str]]) -> None:
    for each in values:
        key, value = each if isinstance(each, tuple) else (None, each)
        broker.produce(topic, value.encode(), key=None if key is None else key.encode())


def _committed(worker: Worker, group: str) -> dict[tuple[str, int], int]:
    cluster = Cluster(worker.config.client_settings)
    try:
        return {tuple(each): offset for each, offset in committed_offsets(cluster, group).items()}  # type: ignore[misc]
    finally:
        cluster.close()


def test_records_go_to_a_file_and_their_offsets_to_the_group(
    worker: Worker, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    _produce(ottla_broker, ottla_topic, ["a", "b"])
    config = {
        "name": f"to-file-{ottla_topic}",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "topics": ottla_topic,
        "file": str(path),
    }
    running = worker.start(config)
    wait_for(lambda: path.exists() and path.read_text() == "a\nb\n")
    group = f"connect-{config['name']}"
    wait_for(lambda: _committed(worker, group) == {(ottla_topic, 0): 2})
    running.stop()
    _produce(ottla_broker, ottla_topic, ["c"])
    again = worker.start(config)
    wait_for(lambda: path.read_text() == "a\nb\nc\n")
    again.stop()
    assert _committed(worker, group) == {(ottla_topic, 0): 3}
    assert worker.topics == {(ottla_topic, 0)}


def test_partitions_are_divided_among_tasks_as_by_kafkas_range_assignor(
    worker: Worker, ottla_broker: Broker, store: Store
) -> None:
    first, second = f"first-{uuid.uuid4().hex[:6]}", f"second-{uuid.uuid4().hex[:6]}"
    ottla_broker.create_topic(first, 3)
    ottla_broker.create_topic(second, 1)
    running = worker.start(_sink(store, f"{first},{second}", tasks_max="2"))
    worker.await_state(running, State.RUNNING, State.RUNNING, State.RUNNING)
    assert sorted(store.opened) == sorted([[(first, 0), (first, 1), (second, 0)], [(first, 2)]])


def test_topics_that_match_a_pattern_are_read_also_when_they_come_later(
    new_worker: Callable[..., Worker], ottla_broker: Broker, store: Store
) -> None:
    worker = new_worker(consumer_metadata_max_age_ms="100")
    prefix = f"logs-{uuid.uuid4().hex[:6]}"
    ottla_broker.create_topic(f"{prefix}-a")
    _produce(ottla_broker, f"{prefix}-a", ["one"])
    config = _sink(store, "", topics_regex=f"{prefix}-.*")
    del config["topics"]
    worker.start(config)
    wait_for(lambda: store.values == ["one"])
    ottla_broker.create_topic(f"{prefix}-b")
    _produce(ottla_broker, f"{prefix}-b", ["two"])
    wait_for(lambda: sorted(store.values) == ["one", "two"])


def test_a_topic_that_is_named_is_read_soon_after_it_has_come(
    worker: Worker, ottla_broker: Broker, ottla_topic: str, store: Store
) -> None:
    """This takes less than the metadata refresh of five minutes, although another topic of the sink exists already."""
    late = f"late-{uuid.uuid4().hex[:6]}"
    _produce(ottla_broker, ottla_topic, ["one"])
    worker.start(_sink(store, f"{ottla_topic},{late}"))
    wait_for(lambda: store.values == ["one"])
    ottla_broker.create_topic(late)
    _produce(ottla_broker, late, ["two"])
    wait_for(lambda: sorted(store.values) == ["one", "two"])


def test_a_sink_sees_the_record_as_it_was(
    worker: Worker, ottla_broker: Broker, ottla_topic: str, store: Store
) -> None:
    _produce(ottla_broker, ottla_topic, [("k", '{"n": 1}')])
    worker.start(
        _sink(store, ottla_topic, value_converter=_JSON, value_converter_schemas_enable="false"),
    )
    (record,) = wait_for(lambda: list(store.records), "nothing came")
    assert (record.key, record.value, record.offset, record.original_topic, record.original_partition) == (
        "k",
        {"n": 1},
        0,
        ottla_topic,
        0,
    )
    assert record.timestamp is not None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["before", "committed", "after"]),
        (
            {"consumer.override.isolation.level": "read_uncommitted"},
            ["before", "aborted", "committed", "after"],
        ),
    ],
)
def test_a_sink_gets_what_was_committed_unless_it_asks_for_more(
    worker: Worker,
    ottla_broker: Broker,
    ottla_topic: str,
    store: Store,
    settings: dict[str, str],
    expected: list[str],
) -> None:
    transactional = Producer(
        {"bootstrap.servers": ottla_broker.bootstrap_servers, "transactional.id": ottla_topic}
    )
    transactional.init_transactions()
    _produce(ottla_broker, ottla_topic, ["before"])
    transactional.begin_transaction()
    transactional.produce(ottla_topic, b"aborted")
    transactional.flush()
    transactional.abort_transaction()
    transactional.begin_transaction()
    transactional.produce(ottla_topic, b"committed")
    transactional.commit_transaction()
    _produce(ottla_broker, ottla_topic, ["after"])
    worker.start({**_sink(store, ottla_topic), **settings})
    wait_for(lambda: store.values[-1:] == ["after"], "records are missing")
    assert store.values == expected


def test_a_sink_that_cannot_now_is_asked_again(
    worker: Worker, ottla_broker: Broker, ottla_topic: str, store: Store
) -> None:
    _produce(ottla_broker, ottla_topic, ["a"])
    running = worker.start(_sink(store, ottla_topic, refusals="2", errors_retry_delay_max_ms="10"))
    wait_for(lambda: store.values == ["a"])
    worker.await_state(running, State.RUNNING, State.RUNNING)


def test_a_poison_record_fails_the_task_and_is_read_again_after_a_restart(
    worker: Worker, ottla_broker: Broker, ottla_topic: str, store: Store
) -> None:
    _produce(ottla_broker, ottla_topic, ["{", '{"n":1}'])
    config = _sink(store, ottla_topic, value_converter=_JSON, value_converter_schemas_enable="false")
    running = worker.start(config)
    worker.await_state(running, State.RUNNING, State.FAILED)
    sentence = (running.status.tasks[0].trace or "").partition("\n")[0]
    assert sentence.startswith("Tolerance exceeded in error handler: ")
    assert f"VALUE_CONVERTER of {ottla_topic}-0 at offset 0" in sentence
    running.restart()
    wait_for(lambda: State.RESTARTING in [each.state for each in worker.history[config["name"]]])
    worker.await_state(running, State.RUNNING, State.FAILED)
    assert store.values == []


def test_with_tolerance_bad_records_go_to_the_dead_letter_topic_with_kafkas_headers(
    worker: Worker, ottla_broker: Broker, ottla_topic: str, store: Store
) -> None:
    dead = f"dead-{ottla_topic}"
    _produce(ottla_broker, ottla_topic, [("k", "{"), ("k", '"fine"'), ("k", '"wrong"')])
    config = _sink(
        store,
        ottla_topic,
        value_converter=_JSON,
        value_converter_schemas_enable="false",
        bad="wrong",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=dead,
        errors_deadletterqueue_topic_replication_factor="1",
        errors_deadletterqueue_context_headers_enable="true",
    )
    running = worker.start(config)
    wait_for(lambda: _committed(worker, f"connect-{config['name']}") == {(ottla_topic, 0): 3})
    assert store.values == ["fine"]
    worker.await_state(running, State.RUNNING, State.RUNNING)
    poison, reported = worker.records(dead)
    assert (poison.key, poison.value) == (b"k", b"{")
    headers = {each["key"]: each["value"].decode() for each in poison.headers or ()}
    stack = headers.pop("__connect.errors.exception.stacktrace")
    message = headers.pop("__connect.errors.exception.message")
    assert stack.startswith(f"org.apache.kafka.connect.errors.DataException: {message}\n")
    assert "line 1 column 2" in stack  # like Kafka's, the message itself omits the cause
    assert headers == {
        "__connect.errors.topic": ottla_topic,
        "__connect.errors.partition": "0",
        "__connect.errors.offset": "0",
        "__connect.errors.connector.name": config["name"],
        "__connect.errors.task.id": "0",
        "__connect.errors.stage": "VALUE_CONVERTER",
        "__connect.errors.class.name": "org.apache.kafka.connect.json.JsonConverter",
        "__connect.errors.exception.class.name": "org.apache.kafka.connect.errors.DataException",
    }
    headers = {each["key"]: each["value"].decode() for each in reported.headers or ()}
    assert headers["__connect.errors.stage"] == "TASK_PUT"
    assert headers["__connect.errors.exception.message"] == "wrong is bad."

    from ottla.cli.client import Client
    from ottla.cli.jobs.dead_letters import list_dead_letters

    client = Client(ottla_broker.bootstrap_servers)
    letters = list_dead_letters(client, dead, None)
    client.close()
    assert [(each.from_topic, each.from_offset, each.reason) for each in letters] == [
        (ottla_topic, "0", message),
        (ottla_topic, "2", "wrong is bad."),
    ]


def test_a_sink_needs_topics(worker: Worker, store: Store) -> None:
    config = _sink(store, "")
    running = worker.start(config)
    wait_for(lambda: running.status.state is State.FAILED)
    assert (running.status.trace or "").startswith("Must configure one of topics or topics.regex")


def test_a_sink_that_keeps_its_own_offsets_begins_there(
    worker: Worker, ottla_broker: Broker, ottla_topic: str, store: Store
) -> None:
    _produce(ottla_broker, ottla_topic, ["a", "b", "c"])
    config = _sink(store, ottla_topic, from_offset="1")
    worker.start(config)
    wait_for(lambda: store.values == ["b", "c"])
    wait_for(lambda: _committed(worker, f"connect-{config['name']}") == {(ottla_topic, 0): 3})


def test_a_file_gets_records_with_and_without_headers_and_dead_letters_are_those_that_failed(
    worker: Worker, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    path, dead = tmp_path / "out", f"dead-{ottla_topic}"
    values = ['"a"', '"b"', "{", '"c"', '{"n":1}']
    _produce(ottla_broker, ottla_topic, values)
    ottla_broker.produce(ottla_topic, b'"d"', headers=[("h", b"v")])
    config = {
        "name": f"to-file-{ottla_topic}",
        "connector.class": "FileStreamSink",
        "topics": ottla_topic,
        "file": str(path),
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
        "consumer.override.max.poll.records": "2",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    running = worker.start(config)
    wait_for(lambda: path.exists() and path.read_text() == "a\nb\nc\n{n=1}\nd\n")
    wait_for(lambda: _committed(worker, f"connect-{config['name']}") == {(ottla_topic, 0): 6})
    running.stop()
    assert worker.values(dead) == ["{"]


def test_a_sink_gets_records_of_several_partitions_at_once_and_no_more_than_max_poll_records(
    worker: Worker, ottla_broker: Broker, store: Store
) -> None:
    topic = f"wide-{uuid.uuid4().hex[:6]}"
    ottla_broker.create_topic(topic, 3)
    for partition in range(3):
        for number in range(5 if partition == 2 else 2):
            ottla_broker.produce(topic, b"%d-%d" % (partition, number), partition=partition)
    worker.start(_sink(store, topic, consumer_override_max_poll_records="4"))
    wait_for(lambda: len(store.records) == 9)
    assert sorted(store.puts) in ([1, 4, 4], [2, 3, 4])  # depends on the order of partitions
    for partition in range(3):
        its = [each.value for each in store.records if each.original_partition == partition]
        assert its == [f"{partition}-{number}" for number in range(5 if partition == 2 else 2)]


@pytest.mark.parametrize(
    "pairs",
    [
        [(b"k", b"v"), (None, b""), (b"", None), (b"\xff", b"w")],
        [(None, b""), (None, b"")],
        [(b"k", None), (b"k", None)],
        [(b"a", b"1"), (b"b", b"22")],
    ],
)
def test_keys_and_values_may_be_missing_or_empty(
    worker: Worker,
    ottla_broker: Broker,
    ottla_topic: str,
    store: Store,
    pairs: list[tuple[bytes | None, bytes | None]],
) -> None:
    for key, value in pairs:
        ottla_broker.produce(ottla_topic, value, key=key)
    raw = "org.apache.kafka.connect.converters.ByteArrayConverter"
    worker.start(_sink(store, ottla_topic, key_converter=raw, value_converter=raw))
    wait_for(lambda: len(store.records) == len(pairs))
    assert [(each.key, each.value) for each in store.records] == pairs
    assert [each.offset for each in store.records] == list(range(len(pairs)))


def test_a_sink_is_called_without_records_too(worker: Worker, store: Store, ottla_topic: str) -> None:
    """As in Kafka, for work due by time."""
    worker.start(_sink(store, ottla_topic))
    wait_for(lambda: store.puts.count(0) >= 2)
