"""CreateTopics, DeleteTopics, CreatePartitions and DescribeTopicPartitions on the wire.

The expected values are Apache Kafka 4.3's responses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from ottla.log.log_directory import LogDirectory
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import (
    Cursor,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
from ottla.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from ottla.testing import Broker
from tests.wire_client import WireClient

_names = count()


@pytest.fixture
def name() -> str:
    return f"topic-api-{next(_names)}"


def creatable(name: str, partitions: int = 1, factor: int = 1, **options: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **options)


def create(client: WireClient, *topics: CreatableTopic, version: int = 7, **options: Any) -> dict[str, Any]:
    answer: Any = client.call(CreateTopicsRequest(topics=list(topics), **options), version)
    assert len({topic.name for topic in answer.topics}) == len(answer.topics)
    return {topic.name: topic for topic in answer.topics}


# CreateTopics


def test_clients_see_a_leader_only_when_its_log_is_there(
    client: WireClient, broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defends: a client that sees the leader of a new partition can write to that partition."""
    create_log, may_go_on = LogDirectory.create_log, threading.Event()

    def slowly(*arguments: Any, **options: Any) -> Any:
        assert may_go_on.wait(30)
        return create_log(*arguments, **options)

    monkeypatch.setattr(LogDirectory, "create_log", slowly)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    leaders = []
    while not leaders:
        [topic] = client.call(asked).topics
        leaders = [partition.leader_id for partition in topic.partitions]
    assert leaders == [-1]
    may_go_on.set()
    while [partition.leader_id for partition in client.call(asked).topics[0].partitions] == [-1]:
        pass
    assert broker.produce(name, b"x") == 0


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates(client: WireClient, broker: Broker, name: str, version: int) -> None:
    result = create(client, creatable(name, 3), version=version)[name]
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert result.topic_id == (broker.topic_id(name) if version >= 7 else ZERO_UUID)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        assert len(result.configs) == 37


def test_the_answer_tells_configs_and_where_they_come_from(client: WireClient, name: str) -> None:
    config = CreatableTopicConfig(name="retention.ms", value="5000")
    configs = {each.name: each for each in create(client, creatable(name, configs=[config]))[name].configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5000", 1)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("delete", 5)


def test_each_topic_succeeds_or_fails_on_its_own(client: WireClient, name: str) -> None:
    results = create(
        client,
        creatable(name),
        creatable(f"{name}-none", 0),
        creatable(f"{name}-twice"),
        creatable(f"{name}-twice", 2),
        creatable(f"{name}-many", factor=3),
        creatable(
            f"{name}-by-hand",
            -1,
            -1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[7])],
        ),
    )
    assert {each: result.error_code for each, result in results.items()} == {
        name: ErrorCode.NONE,
        f"{name}-none": ErrorCode.INVALID_PARTITIONS,
        f"{name}-twice": ErrorCode.INVALID_REQUEST,
        f"{name}-many": ErrorCode.INVALID_REPLICATION_FACTOR,
        f"{name}-by-hand": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
    assert results[f"{name}-twice"].error_message == "Duplicate topic name."
    assert all(result.configs is not None for result in results.values())
    assert create(client, creatable(name))[name].error_message == f"Topic '{name}' already exists."


def test_validate_only_creates_nothing(client: WireClient, name: str) -> None:
    for _ in range(2):
        result = create(client, creatable(name, 2), validate_only=True)[name]
        assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 2)
        assert result.topic_id != ZERO_UUID


def test_many_topics_in_one_request(client: WireClient, name: str) -> None:
    results = create(client, *(creatable(f"{name}-{index}") for index in range(100)))
    assert {result.error_code for result in results.values()} == {ErrorCode.NONE}


def test_too_many_partitions_in_one_request_are_refused_as_a_whole(client: WireClient, name: str) -> None:
    results = create(client, creatable(name), creatable(f"{name}-large", 10_000))
    assert {result.error_code for result in results.values()} == {ErrorCode.POLICY_VIOLATION}
    many = create(client, *(creatable(f"{name}-{index}", -1) for index in range(10_001)))
    assert {result.error_code for result in many.values()} == {ErrorCode.POLICY_VIOLATION}
    assert len(many) == 10_001


# DeleteTopics


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes(client: WireClient, broker: Broker, name: str, version: int) -> None:
    broker.create_topic(name)
    request = DeleteTopicsRequest(topic_names=[name, "nowhere"], timeout_ms=10_000)
    if version >= 6:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name), DeleteTopicState(name="nowhere")], timeout_ms=10_000
        )
    answer: Any = client.call(request, version)
    assert {each.name: each.error_code for each in answer.responses} == {
        name: ErrorCode.NONE,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert create(client, creatable(name))[name].error_code == ErrorCode.NONE


def test_topics_are_deleted_by_id(client: WireClient, broker: Broker, name: str) -> None:
    broker.create_topic(name)
    topic_id = broker.topic_id(name)
    states = [DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=b"x" * 16)]
    answer: Any = client.call(DeleteTopicsRequest(topics=states, timeout_ms=10_000), 6)
    assert [(each.name, each.topic_id, each.error_code) for each in answer.responses] == [
        (name, topic_id, ErrorCode.NONE),
        (None, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_a_topic_that_is_named_in_two_ways_stays(client: WireClient, broker: Broker, name: str) -> None:
    broker.create_topic(name)
    topic_id = broker.topic_id(name)
    by_name, by_id = DeleteTopicState(name=name), DeleteTopicState(topic_id=topic_id)
    for states, reason in (
        ([by_name, by_name], "Duplicate topic name."),
        ([by_id, by_id], "Duplicate topic id."),
        ([by_id, by_name], "The provided topic name maps to an ID that was already supplied."),
        (
            [DeleteTopicState(name=name, topic_id=topic_id)],
            "You may not specify both topic name and topic id.",
        ),
        ([DeleteTopicState()], "Neither topic name nor id were specified."),
    ):
        answer: Any = client.call(DeleteTopicsRequest(topics=states, timeout_ms=10_000), 6)
        assert [(each.error_code, each.error_message) for each in answer.responses] == [
            (ErrorCode.INVALID_REQUEST, reason)
        ]
    assert broker.topic_id(name) == topic_id


@pytest.fixture(scope="module")
def careful() -> Iterator[Broker]:
    with Broker(config={"delete.topic.enable": "false"}) as running:
        yield running


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deleting_can_be_forbidden(careful: Broker, name: str, version: int, code: ErrorCode) -> None:
    careful.create_topic(name)
    with WireClient(careful.bootstrap_servers) as client:
        answer: Any = client.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), version)
    assert [each.error_code for each in answer.responses] == [code]
    assert careful.topic_id(name)


# CreatePartitions


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions(client: WireClient, broker: Broker, name: str, version: int) -> None:
    broker.create_topic(name)
    assignments = [CreatePartitionsAssignment(broker_ids=[0])]
    for more, validate_only, reached in ((2, True, 1), (2, False, 2), (4, False, 4)):
        topic = CreatePartitionsTopic(name=name, count=more, assignments=assignments if more == 2 else None)
        answer: Any = client.call(
            CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=validate_only), version
        )
        assert [(each.error_code, each.error_message) for each in answer.results] == [(0, None)]
        assert len(described(client, [name])[0].partitions) == reached
    broker.produce(name, b"x", partition=3)


def test_partitions_are_never_taken_away(client: WireClient, broker: Broker, name: str) -> None:
    broker.create_topic(name, 3)
    for wanted, code in (
        ([(name, 2)], ErrorCode.INVALID_PARTITIONS),
        ([(name, 3)], ErrorCode.INVALID_PARTITIONS),
        ([("nowhere", 3)], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([(name, 4), (name, 5)], ErrorCode.INVALID_REQUEST),
    ):
        topics = [CreatePartitionsTopic(name=each, count=to, assignments=None) for each, to in wanted]
        answer: Any = client.call(CreatePartitionsRequest(topics=topics, timeout_ms=10_000))
        assert [each.error_code for each in answer.results] == [code]


# With a timeout of zero


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_without_time_does_nothing(
    client: WireClient, broker: Broker, name: str, timeout_ms: int
) -> None:
    timed_out = [(ErrorCode.REQUEST_TIMED_OUT, None)]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    created: Any = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms))
    assert [(each.error_code, each.error_message) for each in created.topics] == timed_out
    broker.create_topic(name)
    more = [CreatePartitionsTopic(name=name, count=2, assignments=None)]
    extended: Any = client.call(CreatePartitionsRequest(topics=more, timeout_ms=timeout_ms))
    assert [(each.error_code, each.error_message) for each in extended.results] == timed_out
    states = [DeleteTopicState(name=name)]
    deleted: Any = client.call(DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms))
    assert [(each.error_code, each.error_message) for each in deleted.responses] == timed_out
    assert len(described(client, [name])[0].partitions) == 1


# DescribeTopicPartitions


def page(client: WireClient, names: list[str], **options: Any) -> Any:
    topics = [TopicRequest(name=name) for name in names]
    return client.call(DescribeTopicPartitionsRequest(topics=topics, **options))


def described(client: WireClient, names: list[str], **options: Any) -> Any:
    return page(client, names, **options).topics


def test_topics_come_in_order_of_names_and_once(client: WireClient, broker: Broker, name: str) -> None:
    broker.create_topic(name, 2)
    answers = described(client, [name, "nowhere", "a b", name])
    assert [(each.name, each.error_code, len(each.partitions)) for each in answers] == [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (name, ErrorCode.NONE, 2),
    ]
    first = answers[2].partitions[0]
    assert (first.leader_id, first.leader_epoch, first.replica_nodes, first.isr_nodes) == (0, 0, [0], [0])
    assert first.eligible_leader_replicas == first.last_known_elr == first.offline_replicas == []


def test_pages_join_up(client: WireClient, broker: Broker, name: str) -> None:
    names = [f"{name}-{letter}" for letter in "abc"]
    for each, partitions in zip(names, (3, 1, 4), strict=True):
        broker.create_topic(each, partitions)
    for limit in (1, 2, 3, 4, 7, 8, 100):
        cursor: Cursor | None = None
        found = []
        for _ in range(10):
            answer = page(client, names, response_partition_limit=limit, cursor=cursor)
            partitions = [(each.name, p.partition_index) for each in answer.topics for p in each.partitions]
            assert len(partitions) <= limit
            found += partitions
            cursor = answer.next_cursor
            if cursor is None:
                break
        assert found == [
            (each, index) for each, n in zip(names, (3, 1, 4), strict=True) for index in range(n)
        ]


def test_an_empty_list_means_every_topic(client: WireClient, broker: Broker, name: str) -> None:
    broker.create_topic(name)
    assert name in [each.name for each in described(client, [])]
    cursor = Cursor(topic_name=name, partition_index=0)
    assert described(client, [], cursor=cursor)[0].name == name


def test_a_cursor_that_points_nowhere_is_refused(client: WireClient, broker: Broker, name: str) -> None:
    broker.create_topic(name)
    for cursor in (
        Cursor(topic_name=name, partition_index=-1),
        Cursor(topic_name="zzz", partition_index=0),
    ):
        answer = page(client, [name], cursor=cursor)
        assert [(each.name, each.error_code) for each in answer.topics] == [(name, ErrorCode.INVALID_REQUEST)]
