"""Fetch on the wire: limits, long polling, sessions."""

from __future__ import annotations

import threading
import time
from itertools import count

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.protocol.records import read_records
from ottla.testing import Broker
from tests.wire_client import WireClient

_names = count()


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"fetch-{next(_names)}"
    broker.create_topic(name, partitions=3)
    return name


def request(topic: str, offsets: dict[int, int], **options: int) -> FetchRequest:
    partition_max = options.pop("partition_max_bytes", 1 << 20)
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max)
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, **options},
        topics=[FetchTopic(topic=topic, partitions=partitions)],
    )


def call(client: WireClient, asked: FetchRequest, version: int = 12) -> FetchResponse:
    answer = client.call(asked, version)
    assert isinstance(answer, FetchResponse)
    return answer


def partitions(answer: FetchResponse) -> dict[int, PartitionData]:
    return {part.partition_index: part for topic in answer.responses for part in topic.partitions}


def values(part: PartitionData) -> list[bytes | None]:
    return [record.value for _, records in read_records(bytes(part.records or b"")) for record in records]


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_with_names_reads_what_was_written(
    broker: Broker, client: WireClient, topic: str, version: int
) -> None:
    broker.produce(topic, b"a")
    broker.produce(topic, b"b")
    part = partitions(call(client, request(topic, {0: 0}), version))[0]
    assert values(part) == [b"a", b"b"]
    assert part.high_watermark == 2


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_with_ids_reads_what_was_written(
    broker: Broker, client: WireClient, topic: str, version: int
) -> None:
    broker.produce(topic, b"a")
    asked = request(topic, {0: 0})
    asked.topics[0].topic_id = broker.topic_id(topic)
    assert values(partitions(call(client, asked, version))[0]) == [b"a"]
    asked.topics[0].topic_id = b"?" * 16
    assert partitions(call(client, asked, version))[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_offset_outside_the_log_is_out_of_range(broker: Broker, client: WireClient, topic: str) -> None:
    broker.produce(topic, b"a")
    for offset in (-1, 2, 1 << 40):
        part = partitions(call(client, request(topic, {0: offset})))[0]
        assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert partitions(call(client, request(topic, {0: 1})))[0].error_code == ErrorCode.NONE


def test_limits_cut_the_data_but_the_first_batch_is_always_whole(
    broker: Broker, client: WireClient, topic: str
) -> None:
    for partition in (0, 1):
        broker.produce(topic, b"x" * 1000, partition=partition)
        broker.produce(topic, b"y" * 1000, partition=partition)
    answer = partitions(call(client, request(topic, {0: 0, 1: 0}, max_bytes=10)))
    assert values(answer[0]) == [b"x" * 1000]
    assert not answer[1].records
    answer = partitions(call(client, request(topic, {0: 0, 1: 0}, partition_max_bytes=10)))
    assert values(answer[0]) == [b"x" * 1000]
    assert not answer[1].records


def test_a_fetch_waits_for_min_bytes_and_is_woken_by_the_append(
    broker: Broker, client: WireClient, topic: str
) -> None:
    asked = request(topic, {0: 0}, max_wait_ms=20_000, min_bytes=1)
    timer = threading.Timer(0.2, lambda: broker.produce(topic, b"late"))
    began = time.monotonic()
    timer.start()
    part = partitions(call(client, asked))[0]
    timer.join()
    assert values(part) == [b"late"]
    assert time.monotonic() - began < 10


def test_a_fetch_without_data_answers_after_max_wait(client: WireClient, topic: str) -> None:
    began = time.monotonic()
    part = partitions(call(client, request(topic, {0: 0}, max_wait_ms=300)))[0]
    assert not part.records
    assert time.monotonic() - began >= 0.29


def test_a_waiting_fetch_is_answered_when_its_topic_is_deleted(broker: Broker, client: WireClient) -> None:
    broker.create_topic("doomed")
    timer = threading.Timer(0.2, lambda: broker.delete_topic("doomed"))
    timer.start()
    part = partitions(call(client, request("doomed", {0: 0}, max_wait_ms=20_000)))[0]
    timer.join()
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_client_that_hangs_up_while_waiting_leaves_nothing_behind(broker: Broker, topic: str) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        client.send(request(topic, {0: 0}, max_wait_ms=180_000), 12)
    deadline = time.monotonic() + 60
    while broker.waiting_fetches(topic):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_leader_epochs_are_checked(broker: Broker, client: WireClient, topic: str) -> None:
    asked = request(topic, {0: 0})
    asked.topics[0].partitions[0].current_leader_epoch = 99
    assert partitions(call(client, asked))[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


class TestSessions:
    def open(self, client: WireClient, topic: str, offsets: dict[int, int]) -> int:
        answer = call(client, request(topic, offsets, session_epoch=0))
        assert set(partitions(answer)) == set(offsets)
        assert answer.session_id > 0
        return answer.session_id

    def again(self, client: WireClient, session: int, epoch: int, **options: object) -> FetchResponse:
        asked = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_id=session, session_epoch=epoch, **options
        )
        return call(client, asked)

    def test_only_what_changed_is_answered(self, broker: Broker, client: WireClient, topic: str) -> None:
        session = self.open(client, topic, {0: 0, 1: 0, 2: 0})
        assert partitions(self.again(client, session, 1)) == {}
        broker.produce(topic, b"news", partition=1)
        found = partitions(self.again(client, session, 2))
        assert set(found) == {1}
        assert values(found[1]) == [b"news"]

    def test_positions_move_and_partitions_are_forgotten(
        self, broker: Broker, client: WireClient, topic: str
    ) -> None:
        for partition in range(3):
            broker.produce(topic, b"first", partition=partition)
        session = self.open(client, topic, {0: 0, 1: 0, 2: 0})
        moved = FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(partition=p, fetch_offset=1, partition_max_bytes=1 << 20) for p in (0, 1)
            ],
        )
        forgotten = ForgottenTopic(topic=topic, partitions=[2])
        answer = self.again(client, session, 1, topics=[moved], forgotten_topics_data=[forgotten])
        assert partitions(answer) == {}
        broker.produce(topic, b"second", partition=2)
        broker.produce(topic, b"second", partition=0)
        found = partitions(self.again(client, session, 2))
        assert {index: values(part) for index, part in found.items()} == {0: [b"second"]}

    def test_a_wrong_epoch_or_session_is_refused(self, client: WireClient, topic: str) -> None:
        session = self.open(client, topic, {0: 0})
        assert self.again(client, session, 7).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert self.again(client, session + 1, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_a_session_can_be_closed(self, client: WireClient, topic: str) -> None:
        session = self.open(client, topic, {0: 0})
        assert self.again(client, session, -1).session_id == 0
        assert self.again(client, session, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_partitions_take_turns_when_the_response_is_small(
        self, broker: Broker, client: WireClient, topic: str
    ) -> None:
        for partition in range(3):
            for _ in range(3):
                broker.produce(topic, b"x" * 500, partition=partition)
        session = call(client, request(topic, {0: 0, 1: 0, 2: 0}, session_epoch=0, max_bytes=100)).session_id
        first_served = []
        for epoch in range(1, 4):
            asked = FetchRequest(
                max_wait_ms=0, min_bytes=1, max_bytes=100, session_id=session, session_epoch=epoch
            )
            found = partitions(call(client, asked))
            first_served += [index for index, part in found.items() if part.records]
        assert sorted(first_served) == [0, 1, 2]


def test_large_slices_arrive_whole_and_unchanged(broker: Broker, client: WireClient) -> None:
    """The response needs several sendfile turns, and the client reads more slowly than the broker sends."""
    broker.create_topic("large", config={"max.message.bytes": "9000000"})
    sent = [bytes([n]) * 3_000_000 for n in range(4)]
    for value in sent:
        broker.produce("large", value)
    asked = request("large", {0: 0}, partition_max_bytes=100_000_000, max_bytes=100_000_000)
    assert values(partitions(call(client, asked))[0]) == sent


def test_requests_behind_a_waiting_fetch_are_answered_after_it_and_in_order(
    broker: Broker, client: WireClient, topic: str
) -> None:
    waiting = request(topic, {0: 0}, max_wait_ms=20_000)
    first = client.send(waiting, 12)
    following = [(asked, client.send(asked, 12)) for asked in [request(topic, {1: 0}) for _ in range(50)]]
    second_wait = request(topic, {1: 0}, max_wait_ms=100)
    last = client.send(second_wait, 12)
    broker.produce(topic, b"now")
    answer = client.receive(waiting, 12, first)
    assert isinstance(answer, FetchResponse)
    assert values(partitions(answer)[0]) == [b"now"]
    for asked, correlation_id in following:
        answer = client.receive(asked, 12, correlation_id)
        assert isinstance(answer, FetchResponse)
        assert set(partitions(answer)) == {1}
    client.receive(second_wait, 12, last)


def test_more_than_the_read_ahead_behind_a_waiting_fetch_is_not_lost(
    broker: Broker, client: WireClient, topic: str
) -> None:
    waiting = request(topic, {0: 0}, max_wait_ms=20_000)
    first = client.send(waiting, 12)
    asked = request(topic, {1: 0})
    following = [client.send(asked, 12) for _ in range(3000)]  # about 300 KB
    broker.produce(topic, b"now")
    client.receive(waiting, 12, first)
    for correlation_id in following:
        client.receive(asked, 12, correlation_id)
