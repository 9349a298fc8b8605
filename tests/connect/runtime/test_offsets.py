"""Source offsets match Kafka's byte for byte, and are read like Kafka reads them."""

from __future__ import annotations

import pickle
import uuid
from contextlib import closing
from typing import Any

import pytest

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.settings import Settings, parse_servers
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.compacted_topic import CompactedTopic, read_topic
from ottla.connect.runtime.offsets import KnownOffsets, SourceOffsets, offset_topics, to_json
from ottla.connect.runtime.records.record_writer import RecordWriter
from ottla.connect.runtime.records.topic_records import ConvertedRecords
from ottla.connect.runtime.records.transactions import SourceTransactions
from ottla.spark.sink.sink_options import SinkOptions
from ottla.testing import Broker
from tests.connect.worker.workers import distributed_properties


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["files", {"filename": "/tmp/ä"}], '["files",{"filename":"/tmp/ä"}]'),
        ({"a": None, "b": True, "c": False}, '{"a":null,"b":true,"c":false}'),
        ('\x00\x1f\x7f\n"\\ \\u00ff', '"\\u0000\\u001F\x7f\\n\\"\\\\ \\\\u00ff"'),
        ("🙂", '"\\uD83D\\uDE42"'),
        (1.0, "1.0"),
        (1e7, "1.0E7"),
        (123456789.25, "1.2345678925E8"),
        (0.0001, "1.0E-4"),
        (-1.5e300, "-1.5E300"),
        (2**63 - 1, "9223372036854775807"),
        (float("nan"), '"NaN"'),
    ],
)
def test_json_is_printed_as_by_jackson(value: Any, text: str) -> None:
    assert to_json(value).decode() == text


def test_a_key_that_is_there_is_written_again_as_it_is() -> None:
    offsets = SourceOffsets("c")
    offsets.load({b'["c",{"b":1,"a":"x"}]': b'{"n":5}', b'["d",{}]': b'{"n":6}', b"nonsense": b"{}"})
    assert list(offsets) == [({"b": 1, "a": "x"}, {"n": 5})]
    assert offsets.get({"a": "x", "b": 1}) == {"n": 5}
    assert offsets.record({"a": "x", "b": 1}, {"n": 7}) == (b'["c",{"b":1,"a":"x"}]', b'{"n":7}')
    assert offsets.record({"a": "y"}, None) == (b'["c",{"a":"y"}]', None)


def test_a_connector_may_have_an_offsets_topic_of_its_own() -> None:
    assert offset_topics("workers", {"offsets.storage.topic": "mine"}) == ["workers", "mine"]
    assert offset_topics("workers", {}) == ["workers"]


def test_only_what_is_committed_counts_and_open_transactions_of_others_are_not_waited_for(
    ottla_broker: Broker,
) -> None:
    topic = f"offsets-{uuid.uuid4().hex[:6]}"
    ottla_broker.create_topic(topic)
    settings = Settings(parse_servers(ottla_broker.bootstrap_servers))
    options = SinkOptions(settings=settings, topic=None, transaction_timeout_ms=60_000)
    clusters = [Cluster(settings) for _ in range(3)]
    producers = [SourceTransactions(each, f"{topic}-{n}", 60_000) for n, each in enumerate(clusters)]
    writers = [
        RecordWriter(cluster, options, producer, lambda topic: None)
        for cluster, producer in zip(clusters, producers, strict=True)
    ]
    aborted, opened, committed = range(3)

    def write(who: int, key: bytes, value: bytes | None) -> None:
        writers[who].write({topic: ConvertedRecords([0], [key], [value], [[]], [None])})
        writers[who]._producer.flush()

    ottla_broker.produce(topic, b"old", key=b"a")
    ottla_broker.produce(topic, b"old", key=b"b")
    write(opened, b"a", b"open")
    write(aborted, b"a", b"aborted")
    write(committed, b"b", None)
    write(committed, b"c", b"new")
    writers[committed].commit()
    producers[aborted].abort()
    reader = Cluster(settings)
    assert read_topic(reader, topic) == {b"a": b"old", b"c": b"new"}
    known = CompactedTopic(topic)
    known.read(reader)
    of_a = pickle.loads(pickle.dumps(known.only(lambda key: key == b"a")))
    writers[opened].commit()
    assert read_topic(reader, topic) == {b"a": b"open", b"c": b"new"}
    # The transaction that was open on the first read is now committed.
    assert known.read(reader) == {b"a": b"open", b"c": b"new"}
    assert of_a.read(reader) == {b"a": b"open"}
    assert reader.topics([topic])[topic].partitions == [TopicPartition(topic, 0)]
    for each in (*clusters, reader):
        each.close()


def test_what_was_read_of_a_topic_is_forgotten_with_it(ottla_broker: Broker) -> None:
    topic = f"offsets-{uuid.uuid4().hex[:6]}"
    with closing(Cluster(Settings(parse_servers(ottla_broker.bootstrap_servers)))) as cluster:
        known = CompactedTopic(topic)
        assert known.read(cluster) == {}
        ottla_broker.create_topic(topic)
        for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3")):
            ottla_broker.produce(topic, value, key=key)
        assert known.read(cluster) == {b"a": b"3", b"b": b"2"}
        ottla_broker.produce(topic, None, key=b"b")
        assert known.read(cluster) == {b"a": b"3"}
        ottla_broker.delete_topic(topic)
        ottla_broker.create_topic(topic)
        for number in range(6):
            ottla_broker.produce(topic, str(number).encode(), key=b"c")
        assert known.read(cluster) == {b"c": b"5"}


def test_each_task_has_a_copy_of_its_own_of_what_the_worker_has_read(ottla_broker: Broker) -> None:
    """Tasks may be threads of one process. Two that share a reader would miss each other's records."""
    topic = f"offsets-{uuid.uuid4().hex[:6]}"
    ottla_broker.create_topic(topic)
    ottla_broker.produce(topic, b'{"n":1}', key=b'["c",{"p":1}]')
    ottla_broker.produce(topic, b'{"n":2}', key=b'["d",{"p":1}]')
    worker = WorkerConfig.from_properties(
        {**distributed_properties(ottla_broker.bootstrap_servers), "offset.storage.topic": topic}
    )
    known = KnownOffsets(worker)
    first, second = known.of("c")[topic], known.of("c")[topic]
    ottla_broker.produce(topic, b'{"n":3}', key=b'["c",{"p":1}]')
    with closing(Cluster(worker.client_settings)) as cluster:
        for each in (first, second, known.of("c")[topic]):
            assert each.read(cluster) == {b'["c",{"p":1}]': b'{"n":3}'}
    assert first is not second
