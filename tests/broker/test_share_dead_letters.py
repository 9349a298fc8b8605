"""KIP-1191: records that a share group gives up reach its dead-letter topic, with real clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from ottla.client.connection import Connection
from ottla.client.settings import Settings
from ottla.coordinator.share.share_partition import DeliveryState
from ottla.protocol.codec import Request, Response
from ottla.protocol.messages.share_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateData,
    ReadStatePartitionData,
    ReadStatePartitionResult,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateData,
    WriteStatePartitionData,
)
from ottla.protocol.records import Record
from ottla.testing import Broker
from ottla.testing.security import acl

R = TypeVar("R", bound=Response)

pytestmark = pytest.mark.timeout(300)

GROUP = "g"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
REJECTED = b"Offset rejected by client."
TOO_OFTEN = b"Offset delivery count exceeded the threshold."
CONFIG = {"group.share.delivery.count.limit": "2"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(config=CONFIG, data=tmp_path) as broker:
        broker.create_topic("jobs", partitions=1)
        configure(broker, {"share.auto.offset.reset": "earliest"})
        yield broker


def configure(
    broker: Broker,
    values: Mapping[str, str],
    kind: ConfigResource.Type = ConfigResource.Type.GROUP,
    name: str = GROUP,
    user: str | None = None,
) -> None:
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in values.items()
    ]
    admin = AdminClient(broker.client_config(user))
    for future in admin.incremental_alter_configs(
        [ConfigResource(kind, name, incremental_configs=entries)]
    ).values():
        future.result()


def dead_letters_go_to(broker: Broker, topic: str, *, copy: bool = False) -> None:
    configure(
        broker,
        {
            "errors.deadletterqueue.topic.name": topic,
            "errors.deadletterqueue.copy.record.enable": str(copy).lower(),
        },
    )


def produce(broker: Broker, values: list[str], topic: str = "jobs", partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd"})
    for value in values:
        producer.produce(topic, value, key=f"key of {value}", headers={"own": b"header"}, partition=partition)
    assert producer.flush(30) == 0


def work(
    broker: Broker,
    fate: Callable[[Message], AcknowledgeType],
    until: Callable[[list[Message]], bool],
    topic: str = "jobs",
    user: str | None = None,
) -> list[Message]:
    """Acknowledge records until the condition holds for all that came."""
    consumer = ShareConsumer(
        {**broker.client_config(user), "group.id": GROUP, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe([topic])
    seen: list[Message] = []
    deadline = time.monotonic() + 60
    try:
        while not until(seen):
            assert time.monotonic() < deadline, [(m.value(), m.delivery_count()) for m in seen]
            messages = consumer.poll(0.2)
            for message in messages:
                assert message.error() is None
                seen.append(message)
                consumer.acknowledge(message, fate(message))
            if messages:
                consumer.commit_sync(30)
    finally:
        consumer.close()
    return seen


def reject_all(broker: Broker, count: int, topic: str = "jobs") -> None:
    work(broker, lambda _: AcknowledgeType.REJECT, lambda seen: len(seen) == count, topic)


def letters(broker: Broker, topic: str, count: int, partition: int = 0) -> list[Record]:
    """Wait for the letters; return them by the offset of their records."""
    deadline = time.monotonic() + 30
    found: list[Record] = []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} letters came"
        time.sleep(0.05)
        try:
            found = broker.records(topic, partition)
        except KeyError:
            continue
    assert len(found) == count
    return sorted(found, key=lambda record: int(dict(record.headers)["__dlq.errors.offset"] or b""))


def ask(broker: Broker, request: Request, answer: type[R]) -> R:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with Connection(Settings(), host, int(port)) as connection:
        return connection.request(request, answer, max_version=0)


def state(broker: Broker, topic: str = "jobs") -> ReadStatePartitionResult:
    read = ReadStatePartitionData(partition=0, leader_epoch=-1)
    request = ReadShareGroupStateRequest(
        group_id=GROUP, topics=[ReadStateData(topic_id=broker.topic_id(topic), partitions=[read])]
    )
    result = ask(broker, request, ReadShareGroupStateResponse).results[0].partitions[0]
    assert not result.error_code, result.error_message
    return result


def wait_until_done(broker: Broker, end: int) -> None:
    """Wait until the state says that all records below `end` are finished."""
    deadline = time.monotonic() + 30
    while True:
        found = state(broker)
        done = set(range(found.start_offset))
        for batch in found.state_batches:
            if batch.delivery_state in (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED):
                done |= set(range(batch.first_offset, batch.last_offset + 1))
        if done == set(range(end)):
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_rejected_records_and_those_delivered_too_often_become_letters(broker: Broker) -> None:
    broker.create_topic("dlq.jobs", config=ENABLED)
    dead_letters_go_to(broker, "dlq.jobs")
    produce(broker, ["accepted", "rejected", "released"])
    fates = {
        b"accepted": AcknowledgeType.ACCEPT,
        b"rejected": AcknowledgeType.REJECT,
        b"released": AcknowledgeType.RELEASE,
    }
    work(broker, lambda message: fates[message.value() or b""], lambda seen: len(seen) == 4)
    rejected, released = letters(broker, "dlq.jobs", 2)
    assert (rejected.key, rejected.value, released.key, released.value) == (None, None, None, None)
    assert list(rejected.headers) == [
        ("__dlq.errors.topic", b"jobs"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"1"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", REJECTED),
    ]
    described = dict(released.headers)
    assert described["__dlq.errors.delivery.count"] == b"2"
    assert described["__dlq.errors.message"] == TOO_OFTEN
    wait_until_done(broker, 3)


def test_key_and_value_are_copied_on_request(broker: Broker) -> None:
    broker.create_topic("dlq.copies", config={**ENABLED, "compression.type": "gzip"})
    dead_letters_go_to(broker, "dlq.copies", copy=True)
    produce(broker, ["one", "two"])
    reject_all(broker, 2)
    one, two = letters(broker, "dlq.copies", 2)
    assert [(each.key, each.value) for each in (one, two)] == [
        (b"key of one", b"one"),
        (b"key of two", b"two"),
    ]
    assert "own" not in dict(one.headers), "as in Kafka, only the headers of the letter"


def test_a_copy_that_the_topic_does_not_take_is_left_out(broker: Broker) -> None:
    broker.create_topic("dlq.small", config={**ENABLED, "max.message.bytes": "1000"})
    dead_letters_go_to(broker, "dlq.small", copy=True)
    produce(broker, ["small", "large" * 500, *(f"another {n}" for n in range(20))])
    reject_all(broker, 22)
    found = letters(broker, "dlq.small", 22)
    assert [record.value for record in found[:3]] == [b"small", None, b"another 0"]


def test_a_missing_topic_is_created_if_the_cluster_allows_it(broker: Broker) -> None:
    allowed = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
    [node_id] = AdminClient(broker.client_config()).list_topics(timeout=30).brokers
    configure(broker, allowed, ConfigResource.Type.BROKER, str(node_id))
    dead_letters_go_to(broker, "dlq.created")
    produce(broker, ["one"])
    reject_all(broker, 1)
    letters(broker, "dlq.created", 1)
    admin = AdminClient(broker.client_config())
    [described] = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "dlq.created")]).values()
    configs = described.result()
    assert configs["errors.deadletterqueue.group.enable"].value == "true"
    assert configs["message.timestamp.type"].value == "CreateTime"


def test_the_partition_follows_that_of_the_record(broker: Broker) -> None:
    broker.create_topic("wide", partitions=5)
    broker.create_topic("dlq.wide", partitions=2, config=ENABLED)
    dead_letters_go_to(broker, "dlq.wide")
    for partition in range(5):
        produce(broker, [str(partition)], "wide", partition)
    reject_all(broker, 5, "wide")
    for partition, expected in ((0, {b"0", b"2", b"4"}), (1, {b"1", b"3"})):
        found = letters(broker, "dlq.wide", len(expected), partition)
        assert {dict(each.headers)["__dlq.errors.partition"] for each in found} == expected


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("dlq.missing", "DLQ topic does not exist and auto create is disabled on cluster"),
        ("dlq.closed", "DLQ is not enabled on configured DLQ topic"),
        (
            "orders",
            "does not comply with the DLQ topic prefix in share group: g, topic: orders, prefix: dlq.",
        ),
        ("__consumer_offsets", "cannot start with __"),
    ],
)
def test_a_topic_that_is_not_meant_for_letters_gets_none_and_the_group_goes_on(
    broker: Broker, caplog: pytest.LogCaptureFixture, topic: str, reason: str
) -> None:
    for name, config in (("dlq.closed", {}), ("orders", ENABLED)):
        broker.create_topic(name, config=config)
    dead_letters_go_to(broker, topic)
    produce(broker, ["one"])
    reject_all(broker, 1)
    wait_until_done(broker, 1)
    assert reason in caplog.text
    assert broker.records("dlq.closed") == broker.records("orders") == []


def test_a_new_leader_writes_the_letters_that_are_missing(broker: Broker) -> None:
    broker.create_topic("dlq.jobs", config=ENABLED)
    dead_letters_go_to(broker, "dlq.jobs")
    produce(broker, ["first", "second", "third"])
    work(
        broker,
        lambda message: AcknowledgeType.ACCEPT if message.value() == b"first" else AcknowledgeType.RELEASE,
        lambda seen: len(seen) == 3,
    )
    # A leader that died in between has left the second record without a letter.
    batch = StateBatch(
        first_offset=1, last_offset=1, delivery_state=DeliveryState.ARCHIVING, delivery_count=2
    )
    found = state(broker)
    write = WriteStatePartitionData(
        partition=0,
        state_epoch=found.state_epoch,
        leader_epoch=0,
        start_offset=found.start_offset,
        state_batches=[batch],
    )
    request = WriteShareGroupStateRequest(
        group_id=GROUP, topics=[WriteStateData(topic_id=broker.topic_id("jobs"), partitions=[write])]
    )
    answer = ask(broker, request, WriteShareGroupStateResponse)
    assert not answer.results[0].partitions[0].error_code
    broker.restart()
    seen = work(broker, lambda _: AcknowledgeType.ACCEPT, lambda seen: len(seen) == 1)
    assert [message.value() for message in seen] == [b"third"], "nobody gets a record that was given up"
    [letter] = letters(broker, "dlq.jobs", 1)
    assert dict(letter.headers)["__dlq.errors.message"] == TOO_OFTEN
    wait_until_done(broker, 3)


def test_members_need_no_right_to_write_letters_and_only_admins_choose_the_topic(tmp_path: Path) -> None:
    member = [
        acl("worker", "READ", topic="jobs"),
        acl("worker", "DESCRIBE", topic="jobs"),
        acl("worker", "READ", group=GROUP),
    ]
    users = {"worker": "worker-secret"}
    with Broker(config=CONFIG, data=tmp_path, security="SASL_PLAINTEXT", users=users, acls=member) as broker:
        broker.create_topic("jobs")
        broker.create_topic("dlq.jobs", config=ENABLED)
        configure(broker, {"share.auto.offset.reset": "earliest"})
        with pytest.raises(KafkaException) as refused:
            configure(broker, {"errors.deadletterqueue.topic.name": "dlq.jobs"}, user="worker")
        assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        dead_letters_go_to(broker, "dlq.jobs")
        broker.produce("jobs", b"one")
        work(broker, lambda _: AcknowledgeType.REJECT, lambda seen: len(seen) == 1, user="worker")
        letters(broker, "dlq.jobs", 1)
