"""The smaller admin APIs on the wire. The expected values are Apache Kafka 4.3's responses."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import DescribeClusterRequest
from ottla.protocol.messages.fetch import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from ottla.protocol.messages.transactions import DescribeProducersRequest, InitProducerIdRequest, TopicRequest
from ottla.protocol.records import Record, build_batch
from ottla.security.acls import ResourceType as AclResourceType
from ottla.security.authorizer import all_operations
from ottla.testing import Broker
from tests.wire_client import WireClient

NO_OPERATIONS = -(2**31)
_names = count()


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"admin-{next(_names)}"
    broker.create_topic(name, 3)
    return name


# DeleteRecords


def delete_records(
    client: WireClient, topic: str, offsets: dict[int, int], version: int = 2
) -> dict[int, tuple[int, int]]:
    partitions = [
        DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in offsets.items()
    ]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)])
    answer: Any = client.call(request, version)
    [result] = answer.topics
    return {each.partition_index: (each.error_code, each.low_watermark) for each in result.partitions}


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_up_to_an_offset(
    client: WireClient, broker: Broker, topic: str, version: int
) -> None:
    for partition in (0, 1, 2):
        for value in (b"a", b"b", b"c"):
            broker.produce(topic, value, partition=partition)
    assert delete_records(client, topic, {0: 2, 1: -1, 2: 4, 9: 0}, version) == {
        0: (ErrorCode.NONE, 2),
        1: (ErrorCode.NONE, 3),
        2: (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        9: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    }
    assert [record.value for record in broker.records(topic, 0)] == [b"c"]
    assert broker.records(topic, 1) == []
    assert len(broker.records(topic, 2)) == 3
    # The log start offset never moves back.
    assert delete_records(client, topic, {0: 1}, version) == {0: (ErrorCode.NONE, 2)}


def test_records_of_compacted_and_internal_topics_stay(
    client: WireClient, broker: Broker, topic: str
) -> None:
    broker.create_topic(f"{topic}-compacted", config={"cleanup.policy": "compact"})
    broker.create_topic(f"{topic}-both", config={"cleanup.policy": "compact,delete"})
    broker.ensure_internal_topic("__consumer_offsets")
    assert delete_records(client, f"{topic}-compacted", {0: 0}) == {0: (ErrorCode.POLICY_VIOLATION, -1)}
    assert delete_records(client, f"{topic}-both", {0: 0}) == {0: (ErrorCode.NONE, 0)}
    assert delete_records(client, "__consumer_offsets", {0: 0}) == {
        0: (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    }
    assert delete_records(client, "nowhere", {0: 0}) == {0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)}


# OffsetForLeaderEpoch


@pytest.mark.parametrize("version", range(2, 5))
def test_where_an_epoch_ended(tmp_path: Path, version: int) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        broker.produce("t", b"a")
        broker.restart()  # a new leader epoch
        broker.produce("t", b"b")
        asked = [
            OffsetForLeaderPartition(partition=0, leader_epoch=0),
            OffsetForLeaderPartition(partition=0, leader_epoch=1, current_leader_epoch=1),
            OffsetForLeaderPartition(partition=0, leader_epoch=9),
            OffsetForLeaderPartition(partition=0, leader_epoch=0, current_leader_epoch=0),
            OffsetForLeaderPartition(partition=0, leader_epoch=0, current_leader_epoch=9),
            OffsetForLeaderPartition(partition=7, leader_epoch=0),
        ]
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=asked)])
        with WireClient(broker.bootstrap_servers) as client:
            answer: Any = client.call(request, version)
    [result] = answer.topics
    assert [(each.error_code, each.leader_epoch, each.end_offset) for each in result.partitions] == [
        (ErrorCode.NONE, 0, 1),
        (ErrorCode.NONE, 1, 2),
        (ErrorCode.NONE, -1, -1),
        (ErrorCode.FENCED_LEADER_EPOCH, -1, -1),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]


# InitProducerId and DescribeProducers


def init_producer_id(
    client: WireClient, version: int = 5, transactional_id: str | None = None, **fields: int
) -> Any:
    return client.call(InitProducerIdRequest(transactional_id=transactional_id, **fields), version)


def test_every_version_gets_an_id_of_its_own(client: WireClient) -> None:
    answers = [init_producer_id(client, version) for version in range(6)]
    assert {(each.error_code, each.producer_epoch) for each in answers} == {(ErrorCode.NONE, 0)}
    assert len({each.producer_id for each in answers}) == 6


def test_ids_survive_a_restart(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        ids = []
        for _ in range(2):
            with WireClient(broker.bootstrap_servers) as client:
                ids.append(init_producer_id(client).producer_id)
            broker.restart()
    assert ids == [0, 1000]


def test_a_producer_that_had_an_id_gets_a_new_one(client: WireClient) -> None:
    answer = init_producer_id(client, producer_id=5, producer_epoch=2)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
    assert answer.producer_id != 5


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "producer_epoch", "code"),
    [
        ("", -1, -1, ErrorCode.INVALID_REQUEST),
        (None, 5, -1, ErrorCode.INVALID_REQUEST),
        (None, -1, 5, ErrorCode.INVALID_REQUEST),
        ("payments", -1, -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_who_gets_no_id(
    client: WireClient, transactional_id: str | None, producer_id: int, producer_epoch: int, code: ErrorCode
) -> None:
    answer = init_producer_id(
        client, transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch
    )
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


def test_a_partition_remembers_its_producers(client: WireClient, broker: Broker, topic: str) -> None:
    producer = init_producer_id(client).producer_id
    records = build_batch(
        [Record(0, broker_time, None, b"x") for broker_time in (1000, 2000)],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=1, records=records)])
    client.call(ProduceRequest(acks=-1, topic_data=[data]), 9)
    request = DescribeProducersRequest(
        topics=[
            TopicRequest(name=topic, partition_indexes=[0, 1, 9]),
            TopicRequest(name="nowhere", partition_indexes=[0]),
        ]
    )
    answer: Any = client.call(request)
    known, unknown = answer.topics
    assert [each.error_code for each in known.partitions] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [len(each.active_producers) for each in known.partitions] == [0, 1, 0]
    [state] = known.partitions[1].active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (producer, 0, 1)
    assert state.current_txn_start_offset == -1
    assert [each.error_code for each in unknown.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_one_broker(client: WireClient, broker: Broker, version: int) -> None:
    answer: Any = client.call(DescribeClusterRequest(), version)
    host, _, port = broker.bootstrap_servers.partition(":")
    assert [(each.broker_id, each.host, each.port, each.rack) for each in answer.brokers] == [
        (0, host, int(port), None)
    ]
    assert answer.controller_id == 0
    assert len(answer.cluster_id) == 22
    assert answer.cluster_authorized_operations == NO_OPERATIONS
    asked: Any = client.call(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert asked.cluster_authorized_operations == all_operations(AclResourceType.CLUSTER)


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_only_brokers_are_endpoints(client: WireClient, endpoint_type: int, code: ErrorCode) -> None:
    answer: Any = client.call(DescribeClusterRequest(endpoint_type=endpoint_type))
    assert answer.error_code == code
    assert answer.error_message


# DescribeLogDirs


@pytest.mark.parametrize("version", range(1, 6))
def test_what_lies_in_the_log_directory(client: WireClient, broker: Broker, topic: str, version: int) -> None:
    broker.produce(topic, b"x" * 1000, partition=1)
    topics = [
        DescribableLogDirTopic(topic=topic, partitions=[0, 1, 9]),
        DescribableLogDirTopic(topic="nowhere", partitions=[0]),
    ]
    answer: Any = client.call(DescribeLogDirsRequest(topics=topics), version)
    [directory] = answer.results
    assert (directory.error_code, directory.log_dir) == (ErrorCode.NONE, str(broker.data))
    assert [each.name for each in directory.topics] == [topic]
    sizes = {each.partition_index: each.partition_size for each in directory.topics[0].partitions}
    assert sizes.keys() == {0, 1}
    assert sizes[0] == 0
    assert 1000 < sizes[1] < 1200
    if version >= 4:
        assert 0 < directory.usable_bytes < directory.total_bytes


def test_no_topics_is_not_the_same_as_all(client: WireClient, topic: str) -> None:
    everything: Any = client.call(DescribeLogDirsRequest(topics=None))
    nothing: Any = client.call(DescribeLogDirsRequest(topics=[]))
    assert topic in [each.name for each in everything.results[0].topics]
    assert nothing.results[0].topics == []


# ElectLeaders and reassignments


@pytest.mark.parametrize("version", range(3))
def test_no_election_is_needed(client: WireClient, topic: str, version: int) -> None:
    asked = [
        TopicPartitions(topic=topic, partitions=[0, 9]),
        TopicPartitions(topic="nowhere", partitions=[0]),
    ]
    answer: Any = client.call(ElectLeadersRequest(topic_partitions=asked), version)
    results = {
        each.topic: [(one.partition_id, one.error_code) for one in each.partition_result]
        for each in answer.replica_election_results
    }
    assert results == {
        topic: [(0, ErrorCode.ELECTION_NOT_NEEDED), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        "nowhere": [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    }
    everything: Any = client.call(ElectLeadersRequest(topic_partitions=None), version)
    assert everything.error_code == ErrorCode.NONE
    results = {each.topic: each.partition_result for each in everything.replica_election_results}
    assert results[topic] == []


def test_without_time_nobody_is_elected_and_nothing_moves(client: WireClient, topic: str) -> None:
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    asked = [TopicPartitions(topic=topic, partitions=[0])]
    answer: Any = client.call(ElectLeadersRequest(topic_partitions=asked, timeout_ms=0))
    [result] = answer.replica_election_results[0].partition_result
    assert (answer.error_code, result.error_code, result.error_message) == (timed_out, timed_out, None)
    everything: Any = client.call(ElectLeadersRequest(topic_partitions=None, timeout_ms=-1))
    assert (everything.error_code, everything.replica_election_results) == (timed_out, [])
    partitions = [ReassignablePartition(partition_index=0, replicas=[0])]
    moves = [ReassignableTopic(name=topic, partitions=partitions)]
    moved: Any = client.call(AlterPartitionReassignmentsRequest(topics=moves, timeout_ms=0))
    assert moved.error_code == timed_out
    assert [each.error_code for each in moved.responses[0].partitions] == [timed_out]


def test_an_unknown_kind_of_election_is_refused(client: WireClient, topic: str) -> None:
    asked = [TopicPartitions(topic=topic, partitions=[0])]
    answer: Any = client.call(ElectLeadersRequest(election_type=2, topic_partitions=asked))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    [result] = answer.replica_election_results[0].partition_result
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown election type 2")


@pytest.mark.parametrize("version", range(2))
def test_there_is_nowhere_to_move_replicas_to(client: WireClient, topic: str, version: int) -> None:
    wanted = [(0, None), (1, [0]), (2, [7]), (9, [0])]
    partitions = [ReassignablePartition(partition_index=index, replicas=to) for index, to in wanted]
    answer: Any = client.call(
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=partitions)]),
        version,
    )
    [result] = answer.responses
    assert [(each.partition_index, each.error_code) for each in result.partitions] == [
        (0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (1, ErrorCode.NONE),
        (2, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    under_way: Any = client.call(ListPartitionReassignmentsRequest())
    assert (under_way.error_code, under_way.topics) == (ErrorCode.NONE, [])
