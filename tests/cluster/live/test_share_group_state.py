"""Share group state on a real cluster: described, set, deleted and fenced, whichever brokers store it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import AcknowledgeType

from ottla.client.connection import Connection
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import share_state
from ottla.protocol.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.replicas import ElectLeadersRequest, ElectLeadersResponse
from ottla.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.testing import Cluster
from tests.cluster.live.share_groups import (
    CONFIG,
    PARTITIONS,
    SHARE,
    STATE_TOPIC,
    ask,
    coordinator,
    describe,
    lags,
    produce,
    read,
    share_coordinator,
    topic_id,
)
from tests.cluster.live.share_workers import begin_at_the_beginning, share_consumer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(3, config=CONFIG) as running:
        yield running


def spread_leaders(cluster: Cluster) -> None:
    coordinator(cluster, "there:is:0", SHARE)  # and the topic with it
    for partition in range(PARTITIONS):
        cluster.wait_for_isr(STATE_TOPIC, cluster.ports, partition, 60)
    cluster.ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=30_000), ElectLeadersResponse)

    def spread() -> bool:
        return len({cluster.leader(STATE_TOPIC, partition) for partition in range(PARTITIONS)}) == 3

    cluster.wait_until(spread, "every broker leads some of the state")


def test_offsets_are_described_set_and_deleted_wherever_they_are_kept(cluster: Cluster) -> None:
    cluster.create_topic("offsets", PARTITIONS)
    begin_at_the_beginning(cluster, "offsets")
    spread_leaders(cluster)
    leaders = {cluster.wait_for_leader("offsets", partition) for partition in range(PARTITIONS)}
    keepers = {share_coordinator(cluster, "offsets", "offsets", p) for p in range(PARTITIONS)}
    assert len(leaders) > 1, "the test needs several brokers"
    assert len(keepers) > 1, "the test needs several brokers"
    sent = produce(cluster, "offsets", range(5 * PARTITIONS))
    consumer = share_consumer(cluster, "offsets", "offsets", explicit=True)
    try:
        read(consumer, sent, AcknowledgeType.ACCEPT)
    finally:
        consumer.close()
    assert lags(cluster, "offsets") == [0] * PARTITIONS
    starts = {partition: 5 - partition % 3 for partition in range(PARTITIONS)}
    alter = AlterShareGroupOffsetsRequest(
        group_id="offsets",
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name="offsets",
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=p, start_offset=start)
                    for p, start in starts.items()
                ],
            )
        ],
    )
    altered = ask(cluster, "offsets", alter, AlterShareGroupOffsetsResponse)
    assert {p.error_code for topic in altered.responses for p in topic.partitions} == {0}
    assert describe(cluster, "offsets") == {p: (start, 5 - start) for p, start in starts.items()}
    wanted = {
        str(offset * PARTITIONS + partition).encode()
        for partition, start in starts.items()
        for offset in range(start, 5)
    }
    consumer = share_consumer(cluster, "offsets", "offsets", explicit=True)
    try:
        again = read(consumer, wanted, AcknowledgeType.ACCEPT)
    finally:
        consumer.close()
    assert {value: message.delivery_count() for value, message in again.items()} == dict.fromkeys(wanted, 1)
    delete = DeleteShareGroupOffsetsRequest(
        group_id="offsets", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="offsets")]
    )
    deleted = ask(cluster, "offsets", delete, DeleteShareGroupOffsetsResponse)
    assert {topic.error_code for topic in deleted.responses} == {0}
    assert describe(cluster, "offsets") == {}
    for partition in range(PARTITIONS):
        assert read_state(cluster, "offsets", "offsets", partition)[0] == ErrorCode.INVALID_REQUEST


def test_a_group_that_is_deleted_begins_anew(cluster: Cluster) -> None:
    cluster.create_topic("deleted", PARTITIONS)
    begin_at_the_beginning(cluster, "deleted")
    sent = produce(cluster, "deleted", range(2 * PARTITIONS))
    for _ in range(2):
        consumer = share_consumer(cluster, "deleted", "deleted", explicit=True)
        try:
            assert read(consumer, sent, AcknowledgeType.ACCEPT).keys() == sent
        finally:
            consumer.close()
        answer = ask(cluster, "deleted", DeleteGroupsRequest(groups_names=["deleted"]), DeleteGroupsResponse)
        assert [result.error_code for result in answer.results] == [0]
        for partition in range(PARTITIONS):
            error, _ = read_state(cluster, "deleted", "deleted", partition)
            assert error == ErrorCode.INVALID_REQUEST


def test_the_state_of_a_deleted_topic_is_forgotten_everywhere(cluster: Cluster) -> None:
    begin_at_the_beginning(cluster, "gone")
    for _ in range(2):
        cluster.create_topic("gone", PARTITIONS)
        sent = produce(cluster, "gone", range(PARTITIONS))
        consumer = share_consumer(cluster, "gone", "gone", explicit=True)
        try:
            assert read(consumer, sent, AcknowledgeType.ACCEPT).keys() == sent
        finally:
            consumer.close()
        old = topic_id(cluster, "gone")
        keepers = {p: share_coordinator(cluster, "gone", old, p) for p in range(PARTITIONS)}
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=30_000)
        assert cluster.ask(delete, DeleteTopicsResponse).responses[0].error_code == 0
        for partition, keeper in keepers.items():
            wait_until_forgotten(cluster, "gone", old, partition, keeper)


def wait_until_forgotten(cluster: Cluster, group: str, topic: bytes, partition: int, keeper: int) -> None:
    def forgotten() -> bool:
        error, _ = read_state(cluster, group, topic, partition, broker=keeper)
        return error == ErrorCode.INVALID_REQUEST

    cluster.wait_until(forgotten, "the state is gone")


# Requests between brokers


def read_state(
    cluster: Cluster,
    group: str,
    topic: str | bytes,
    partition: int,
    *,
    leader_epoch: int = -1,
    broker: int = -1,
) -> tuple[ErrorCode, share_state.ReadStatePartitionResult]:
    asked = share_state.ReadStatePartitionData(partition=partition, leader_epoch=leader_epoch)
    known = topic_id(cluster, topic) if isinstance(topic, str) else topic
    request = share_state.ReadShareGroupStateRequest(
        group_id=group,
        topics=[share_state.ReadStateData(topic_id=known, partitions=[asked])],
    )
    if broker < 0:
        broker = share_coordinator(cluster, group, topic, partition)
    answer = cluster.ask(request, share_state.ReadShareGroupStateResponse, broker=broker)
    result = answer.results[0].partitions[0]
    return ErrorCode(result.error_code), result


def write_state(
    cluster: Cluster, group: str, topic: str, partition: int, *, leader_epoch: int, state_epoch: int
) -> ErrorCode:
    request = share_state.WriteShareGroupStateRequest(
        group_id=group,
        topics=[
            share_state.WriteStateData(
                topic_id=topic_id(cluster, topic),
                partitions=[
                    share_state.WriteStatePartitionData(
                        partition=partition,
                        leader_epoch=leader_epoch,
                        state_epoch=state_epoch,
                        start_offset=0,
                    )
                ],
            )
        ],
    )
    broker = share_coordinator(cluster, group, topic, partition)
    answer = cluster.ask(request, share_state.WriteShareGroupStateResponse, broker=broker)
    return ErrorCode(answer.results[0].partitions[0].error_code)


def test_leaders_of_the_past_and_those_who_know_an_older_state_are_fenced(cluster: Cluster) -> None:
    cluster.create_topic("fenced", PARTITIONS)
    begin_at_the_beginning(cluster, "fenced")
    sent = produce(cluster, "fenced", range(PARTITIONS))
    consumer = share_consumer(cluster, "fenced", "fenced", explicit=True)
    try:
        read(consumer, sent, AcknowledgeType.ACCEPT)
        keeper = share_coordinator(cluster, "fenced", "fenced", 0)
        view = cluster.partition("fenced", 0)
        assert view is not None
        error, state = read_state(cluster, "fenced", "fenced", 0, leader_epoch=view.leader_epoch)
        assert (error, state.start_offset + len(state.state_batches)) == (ErrorCode.NONE, 1)
        for broker in cluster.ports:
            if broker != keeper:
                error, _ = read_state(cluster, "fenced", "fenced", 0, broker=broker)
                assert error == ErrorCode.NOT_COORDINATOR
        epoch = state.state_epoch
        error = write_state(cluster, "fenced", "fenced", 0, leader_epoch=99, state_epoch=epoch - 1)
        assert error == ErrorCode.FENCED_STATE_EPOCH
        # As if another broker led it: the leader is fenced on its next write, and no accepted record is lost.
        assert read_state(cluster, "fenced", "fenced", 0, leader_epoch=99)[0] == ErrorCode.NONE
        error = write_state(cluster, "fenced", "fenced", 0, leader_epoch=98, state_epoch=epoch)
        assert error == ErrorCode.FENCED_LEADER_EPOCH
        more = produce(cluster, "fenced", range(PARTITIONS, 2 * PARTITIONS))
        read(consumer, more - {str(PARTITIONS).encode()}, AcknowledgeType.ACCEPT)
    finally:
        consumer.close()


def test_a_broker_that_does_not_lead_says_who_does(cluster: Cluster) -> None:
    cluster.create_topic("hinted", 1)
    leader = cluster.wait_for_leader("hinted")
    other = next(broker for broker in cluster.ports if broker != leader)
    fetch = ShareFetchRequest(
        group_id="hinted",
        member_id="m",
        max_wait_ms=100,
        max_records=1,
        topics=[
            FetchTopic(topic_id=topic_id(cluster, "hinted"), partitions=[FetchPartition(partition_index=0)])
        ],
    )
    batch = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    acknowledge = ShareAcknowledgeRequest(
        group_id="hinted",
        member_id="m",
        share_session_epoch=1,
        topics=[
            AcknowledgeTopic(
                topic_id=topic_id(cluster, "hinted"),
                partitions=[AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])],
            )
        ],
    )
    with Connection(Settings(client_id="test"), "127.0.0.1", cluster.ports[other]) as connection:
        for answer in (
            connection.request(fetch, ShareFetchResponse),
            connection.request(acknowledge, ShareAcknowledgeResponse),
        ):
            [partition] = answer.responses[0].partitions
            assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert partition.current_leader.leader_id == leader
            [node] = answer.node_endpoints
            assert (node.node_id, node.port) == (leader, cluster.ports[leader])
