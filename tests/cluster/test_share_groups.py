"""Share groups of a real cluster: leaders, group coordinators and share coordinators are spread over the brokers."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer

from ottla.client.connection import Connection
from ottla.client.settings import Settings
from ottla.protocol.codec import Request, Response
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import read_share_group_state, write_share_group_state
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from ottla.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.testing import Cluster
from tests.cluster.share_workers import (
    Jobs,
    Workers,
    begin_at_the_beginning,
    commit,
    poll,
    share_consumer,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

PARTITIONS = 6
SESSION_SECONDS = 6
GROUP, SHARE = 0, 2
STATE_TOPIC = "__share_group_state"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": "10000",
        "share.coordinator.state.topic.num.partitions": "6",
        "zookeeper.session.timeout.ms": str(1000 * SESSION_SECONDS),
    }
    with Cluster(3, config=config) as running:
        yield running


@pytest.fixture(autouse=True)
def everybody_back(cluster: Cluster) -> Iterator[None]:
    yield
    for broker_id in cluster.ports:
        if broker_id not in cluster.running():
            cluster.restart(broker_id)


def coordinator(cluster: Cluster, key: str, key_type: int) -> int:
    """Once there is one that runs."""
    found: list[int] = []

    def known() -> bool:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        answer = cluster.ask(request, FindCoordinatorResponse).coordinators[0]
        found[:] = [answer.node_id]
        return not answer.error_code and answer.node_id in cluster.running()

    cluster.wait_until(known, f"a coordinator of {key}")
    return found[0]


def topic_id(cluster: Cluster, topic: str) -> bytes:
    return cluster.metadata([topic]).topics[0].topic_id


def share_coordinator(cluster: Cluster, group: str, topic: str | bytes, partition: int) -> int:
    """Of a topic that is named, or that there was with this id."""
    known = topic_id(cluster, topic) if isinstance(topic, str) else topic
    text = base64.urlsafe_b64encode(known).decode().rstrip("=")
    return coordinator(cluster, f"{group}:{text}:{partition}", SHARE)


def produce(cluster: Cluster, topic: str, values: range) -> set[bytes]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in values:
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return {str(number).encode() for number in values}


def read(consumer: ShareConsumer, wanted: set[bytes], fate: AcknowledgeType) -> dict[bytes, Message]:
    """Until all that are wanted have come and met their fate; what came."""
    seen: dict[bytes, Message] = {}
    settled: set[bytes] = set()
    deadline = time.monotonic() + 60
    while not wanted <= settled:
        assert time.monotonic() < deadline, f"{sorted(wanted - settled)} did not come"
        messages = poll(consumer, 0.5)
        for message in messages:
            seen[message.value()] = message
            consumer.acknowledge(message, fate)
        confirmed = commit(consumer) if messages else set()
        settled |= {m.value() for m in messages if (m.topic(), m.partition()) in confirmed}
    return seen


def test_what_was_accepted_does_not_come_again_after_the_cluster_was_restarted(cluster: Cluster) -> None:
    cluster.create_topic("restarted", PARTITIONS)
    begin_at_the_beginning(cluster, "restarted")
    for numbers in (range(30), range(30, 60)):
        sent = produce(cluster, "restarted", numbers)
        consumer = share_consumer(cluster, "restarted", "restarted", explicit=True)
        try:
            assert read(consumer, sent, AcknowledgeType.ACCEPT).keys() == sent
        finally:
            consumer.close()
        for broker_id in cluster.ports:
            cluster.restart(broker_id)


KILLED = ["leader killed", "share coordinator killed", "group coordinator killed"]
STRUCK = [*KILLED, "leader paused", "share coordinator paused", "leader stopped"]


@pytest.mark.parametrize(
    ("topic", "faults"),
    [
        ("killed", KILLED),
        pytest.param("struck", STRUCK * 2, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
    ids=["killed", "struck"],
)
def test_every_record_comes_and_none_that_was_accepted_comes_again(
    cluster: Cluster, topic: str, faults: list[str]
) -> None:
    cluster.create_topic(topic, PARTITIONS)
    begin_at_the_beginning(cluster, topic)

    def advance(jobs: Jobs, workers: Workers) -> None:
        """Until records that are written from now on have been accepted in every partition."""
        since = len(jobs.written)

        def accepted() -> bool:
            fresh = [int(value) for value in list(workers.accepted) if int(value) >= since]
            return len({number % PARTITIONS for number in fresh}) == PARTITIONS

        cluster.wait_until(accepted, "records of every partition are accepted", 90)

    with (
        Jobs(cluster, topic, PARTITIONS, per_second=60) as jobs,
        Workers(cluster, topic, topic, 3) as workers,
    ):
        advance(jobs, workers)
        for turn, fault in enumerate(faults):
            with struck(cluster, fault, topic, turn % PARTITIONS):
                advance(jobs, workers)
            for each in range(PARTITIONS):
                cluster.wait_for_isr(STATE_TOPIC, cluster.ports, each, 60)
                cluster.wait_for_isr(topic, cluster.ports, each, 60)
        jobs.stop()
        cluster.wait_until(lambda: jobs.written <= workers.delivered(), "every record has come", 60)
        # A broker may have been killed when a record was accepted and the member not told: no lag tells of those too.
        cluster.wait_until(lambda: set(lags(cluster, topic)) == {0}, "every record is done", 60)
        last = jobs.write_more(5 * PARTITIONS)
        cluster.wait_until(lambda: last <= set(workers.accepted), "the last ones are accepted", 60)
        assert workers.after_acceptance() == []
        assert not workers.accepted_again
        assert {delivery.value for delivery in workers.deliveries} == jobs.written
    assert lags(cluster, topic) == [0] * PARTITIONS


@contextmanager
def struck(cluster: Cluster, fault: str, topic: str, partition: int) -> Iterator[None]:
    """The group has the name of its topic."""
    whom, _, what = fault.rpartition(" ")
    if whom == "leader":
        broker = cluster.wait_for_leader(topic, partition)
    elif whom == "share coordinator":
        broker = share_coordinator(cluster, topic, topic, partition)
    else:
        broker = coordinator(cluster, topic, GROUP)
    if what == "paused":
        # Others take over when its session has ended. Then it goes on, and does not know.
        cluster.pause(broker)
        time.sleep(1.5 * SESSION_SECONDS)
        cluster.resume(broker)
        yield
        return
    if what == "killed":
        cluster.kill(broker)
    else:
        cluster.stop(broker)
    yield
    cluster.restart(broker)


def test_delivery_counts_outlive_the_leader_and_the_share_coordinator(cluster: Cluster) -> None:
    cluster.create_topic("counted", 1)
    begin_at_the_beginning(cluster, "counted")
    [bad] = produce(cluster, "counted", range(1))
    consumer = share_consumer(cluster, "counted", "counted", explicit=True)
    try:
        for count in range(1, 6):
            message = read(consumer, {bad}, AcknowledgeType.RELEASE)[bad]
            assert message.delivery_count() == count
            if count % 2:
                killed = cluster.wait_for_leader("counted")
            else:
                killed = share_coordinator(cluster, "counted", "counted", 0)
            cluster.kill(killed)
            cluster.restart(killed)
        # It was given up after five deliveries, which is Kafka's limit.
        [good] = produce(cluster, "counted", range(PARTITIONS, PARTITIONS + 1))
        assert read(consumer, {good}, AcknowledgeType.ACCEPT).keys() == {good}
    finally:
        consumer.close()


def test_what_cannot_be_replicated_is_refused_and_comes_again(cluster: Cluster) -> None:
    cluster.create_topic("alone", 1)
    begin_at_the_beginning(cluster, "alone")
    [first] = produce(cluster, "alone", range(1))
    consumer = share_consumer(cluster, "alone", "alone", explicit=True)
    try:
        read(consumer, {first}, AcknowledgeType.ACCEPT)
        second = produce(cluster, "alone", range(PARTITIONS, PARTITIONS + 1))
        messages: list[Message] = []
        cluster.wait_until(lambda: bool(messages.extend(poll(consumer, 0.5)) or messages), "the record comes")
        leader = cluster.wait_for_leader("alone")
        others = [broker for broker in cluster.ports if broker != leader]
        for broker in others:
            cluster.kill(broker)
        consumer.acknowledge(messages[0], AcknowledgeType.ACCEPT)
        [error] = consumer.commit_sync(60).values()
        assert error is not None
        assert error.args[0].code() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        for broker in others:
            cluster.restart(broker)
        again = read(consumer, second, AcknowledgeType.ACCEPT)
        assert again.keys() == second
        [third] = produce(cluster, "alone", range(2 * PARTITIONS, 2 * PARTITIONS + 1))
        assert read(consumer, {third}, AcknowledgeType.ACCEPT).keys() == {third}
    finally:
        consumer.close()


# Administration


def ask(cluster: Cluster, group: str, request: Request, answer: type[Response]) -> Response:
    return cluster.ask(request, answer, broker=coordinator(cluster, group, GROUP))


def describe(cluster: Cluster, group: str) -> dict[int, tuple[int, int]]:
    """Start offset and lag of each partition of the group's only topic."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )
    answer = ask(cluster, group, request, DescribeShareGroupOffsetsResponse)
    assert isinstance(answer, DescribeShareGroupOffsetsResponse)
    assert not answer.groups[0].error_code
    found = {}
    for topic in answer.groups[0].topics:
        for partition in topic.partitions:
            assert not partition.error_code, ErrorCode(partition.error_code)
            found[partition.partition_index] = (partition.start_offset, partition.lag)
    return found


def lags(cluster: Cluster, group: str) -> list[int]:
    return [lag for _, (_, lag) in sorted(describe(cluster, group).items())]


def test_offsets_are_described_set_and_deleted_wherever_they_are_kept(cluster: Cluster) -> None:
    cluster.create_topic("offsets", PARTITIONS)
    begin_at_the_beginning(cluster, "offsets")
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
    assert isinstance(altered, AlterShareGroupOffsetsResponse)
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
    assert isinstance(deleted, DeleteShareGroupOffsetsResponse)
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
        assert isinstance(answer, DeleteGroupsResponse)
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


# What brokers ask each other


def read_state(
    cluster: Cluster,
    group: str,
    topic: str | bytes,
    partition: int,
    *,
    leader_epoch: int = -1,
    broker: int = -1,
) -> tuple[ErrorCode, read_share_group_state.PartitionResult]:
    asked = read_share_group_state.PartitionData(partition=partition, leader_epoch=leader_epoch)
    known = topic_id(cluster, topic) if isinstance(topic, str) else topic
    request = read_share_group_state.ReadShareGroupStateRequest(
        group_id=group,
        topics=[read_share_group_state.ReadStateData(topic_id=known, partitions=[asked])],
    )
    if broker < 0:
        broker = share_coordinator(cluster, group, topic, partition)
    answer = cluster.ask(request, read_share_group_state.ReadShareGroupStateResponse, broker=broker)
    result = answer.results[0].partitions[0]
    return ErrorCode(result.error_code), result


def write_state(
    cluster: Cluster, group: str, topic: str, partition: int, *, leader_epoch: int, state_epoch: int
) -> ErrorCode:
    request = write_share_group_state.WriteShareGroupStateRequest(
        group_id=group,
        topics=[
            write_share_group_state.WriteStateData(
                topic_id=topic_id(cluster, topic),
                partitions=[
                    write_share_group_state.PartitionData(
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
    answer = cluster.ask(request, write_share_group_state.WriteShareGroupStateResponse, broker=broker)
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
        # As if another broker led it: the leader is fenced when it writes, and nothing that is accepted is lost.
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
