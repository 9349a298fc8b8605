"""Transactions on the wire, version by version."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.records import read_records
from ottla.testing import Broker
from tests.wire_client import WireClient

from .transactions import (
    WireProducer,
    end_offset,
    fetch,
    find_transaction_coordinator,
    write_marker,
)

NONE = ErrorCode.NONE
MakeProducer = Callable[..., WireProducer]


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"t-{uuid.uuid4()}"
    broker.create_topic(name, 2)
    return name


@pytest.fixture(params=[False, True], ids=["v1", "v2"])
def v2(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def producer(broker: Broker, client: WireClient) -> MakeProducer:
    def make(transactional_id: str | None = None, *, v2: bool = False, init: bool = True) -> WireProducer:
        made = WireProducer(client, transactional_id or f"x-{uuid.uuid4()}", v2=v2)
        if init:
            assert made.init() is NONE
        return made

    return make


def begin(producer: WireProducer, topic: str, *values: bytes) -> None:
    if not producer.v2:
        assert producer.add(topic, 0) == [NONE]
    assert producer.produce(topic, *values) is NONE


def values(answer: Any) -> list[bytes | None]:
    return [
        record.value
        for header, records in read_records(bytes(answer.records))
        if not header.is_control
        for record in records
    ]


def test_features_are_finalized(client: Any) -> None:
    for version, lowest in ((3, 1), (4, 0)):
        answer = client.call(
            ApiVersionsRequest(client_software_name="x", client_software_version="1"), version
        )
        levels = {"group.version": 1, "share.version": 1, "transaction.version": 2}
        supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
        assert supported == {name: (lowest, level) for name, level in levels.items()}
        finalized = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
        assert finalized == {name: (level, level) for name, level in levels.items()}
        assert answer.finalized_features_epoch >= 0


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_finds_the_coordinator(client: Any, broker: Broker, version: int) -> None:
    found = find_transaction_coordinator(client, "x", version)
    assert (found.error_code, f"{found.host}:{found.port}") == (NONE, broker.bootstrap_servers)


def test_records_are_committed_when_the_transaction_is(
    client: Any, producer: MakeProducer, topic: str, v2: bool
) -> None:
    p = producer(v2=v2)
    begin(p, topic, b"a", b"b")
    assert end_offset(client, topic, committed=True) == 0
    assert end_offset(client, topic, committed=False) == 2
    before = fetch(client, topic)
    assert (before.high_watermark, before.last_stable_offset, bytes(before.records)) == (2, 0, b"")
    assert p.end(commit=True) is NONE
    after = fetch(client, topic)
    assert (values(after), after.aborted_transactions) == ([b"a", b"b"], [])
    assert end_offset(client, topic, committed=True) == end_offset(client, topic, committed=False) == 3


def test_aborted_transactions_are_listed_for_those_who_ask(
    client: Any, producer: MakeProducer, topic: str, v2: bool
) -> None:
    p = producer(v2=v2)
    begin(p, topic, b"a")
    aborted_by = p.producer_id
    assert p.end(commit=False) is NONE
    answer = fetch(client, topic)
    assert [(a.producer_id, a.first_offset) for a in answer.aborted_transactions] == [(aborted_by, 0)]
    assert fetch(client, topic, committed=False).aborted_transactions is None
    assert fetch(client, topic, 2).aborted_transactions == []


def test_version_1_keeps_its_epoch_and_version_2_raises_it(producer: MakeProducer, topic: str) -> None:
    old, new = producer(), producer(v2=True)
    for number in range(3):
        begin(old, topic, b"a")
        begin(new, topic, b"b")
        assert old.end(commit=number != 1) is NONE
        assert new.end(commit=number != 1) is NONE
    assert (old.epoch, new.epoch) == (0, 3)


def test_a_waiting_committed_fetch_is_woken_by_the_marker(
    broker: Broker, client: Any, producer: MakeProducer, topic: str
) -> None:
    p = producer(v2=True)
    got: list[Any] = []

    def consume() -> None:
        with WireClient(broker.bootstrap_servers) as other:
            got.append((fetch(other, topic, max_wait_ms=15_000, min_bytes=100), time.monotonic()))

    waiting = threading.Thread(target=consume)
    waiting.start()
    while not broker.waiting_fetches(topic):
        time.sleep(0.005)
    begin(p, topic, b"a" * 200)
    time.sleep(0.2)
    assert not got, "an open transaction was shown"
    ended = time.monotonic()
    assert p.end(commit=True) is NONE
    waiting.join()
    answer, when = got[0]
    assert values(answer) == [b"a" * 200]
    assert when - ended < 5


# Verification


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (9, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_version_1_must_add_before_it_writes(
    client: Any, producer: MakeProducer, topic: str, version: int, code: ErrorCode
) -> None:
    p = producer()
    assert p.produce(topic, b"a", version=version) is code
    assert p.add(topic, 1) == [NONE]
    assert p.produce(topic, b"a", version=version) is code
    assert end_offset(client, topic, committed=False) == 0


def test_a_late_produce_does_not_open_a_transaction_that_nobody_ends(
    client: Any, producer: MakeProducer, topic: str, v2: bool
) -> None:
    """Promise of KIP-890: a batch that arrives after the end is refused, it does not hang in the log."""
    p = producer(v2=v2)
    begin(p, topic, b"a")
    late_epoch, late_sequences = p.epoch, dict(p.sequences)
    assert p.end(commit=True) is NONE
    late = WireProducer(client, p.transactional_id, v2=v2)
    late.producer_id, late.epoch, late.sequences = p.producer_id, late_epoch, late_sequences
    expected = ErrorCode.INVALID_PRODUCER_EPOCH if v2 else ErrorCode.INVALID_TXN_STATE
    assert late.produce(topic, b"late") is expected
    assert end_offset(client, topic, committed=True) == end_offset(client, topic, committed=False)


def test_a_late_end_does_not_reach_the_next_transaction(
    client: Any, producer: MakeProducer, topic: str
) -> None:
    p = producer(v2=True)
    begin(p, topic, b"a")
    late_epoch = p.epoch
    assert p.end(commit=True) is NONE
    begin(p, topic, b"b")
    for commit in (True, False):
        assert p.end(commit=commit, epoch=late_epoch) is ErrorCode.PRODUCER_FENCED
    assert end_offset(client, topic, committed=True) == 2
    assert p.end(commit=True) is NONE


def test_transactional_batches_need_a_transactional_id(producer: MakeProducer, topic: str) -> None:
    p = producer(v2=True)
    refused = p.produce(topic, b"a", transactional_id=None)
    assert refused is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_clients_do_not_write_to_internal_topics(client: Any, producer: MakeProducer) -> None:
    p = producer(v2=True)
    assert p.produce("__transaction_state", b"a") is ErrorCode.INVALID_TOPIC_EXCEPTION
    described = client.call(DescribeTransactionsRequest(transactional_ids=[p.transactional_id]))
    assert described.transaction_states[0].transaction_state == "Empty"


def test_a_batch_that_overtook_the_first_is_refused(producer: MakeProducer, topic: str) -> None:
    p = producer(v2=True)
    p.sequences[topic, 0] = 5
    assert p.produce(topic, b"a") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_several_partitions_are_added_or_none(producer: MakeProducer, topic: str) -> None:
    p = producer()
    missing, left = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    for version in range(4):
        assert p.add(topic, 0, 7, version=version) == [left, missing]
    for version in range(4):
        assert p.add(topic, 0, 1, version=version) == [NONE, NONE]


def test_brokers_add_and_verify_in_batches(producer: MakeProducer, topic: str) -> None:
    p = producer()
    assert p.add_as_broker(topic, 0, verify_only=True) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert p.add_as_broker(topic, 0, verify_only=True, version=4) == [ErrorCode.INVALID_TXN_STATE]
    assert p.add_as_broker(topic, 0, verify_only=False) == [NONE]
    assert p.add_as_broker(topic, 0, 1, verify_only=True) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]


# Fencing


def test_who_comes_second_fences_the_first(client: Any, producer: MakeProducer, topic: str, v2: bool) -> None:
    first = producer(v2=v2)
    begin(first, topic, b"zombie")
    second = producer(first.transactional_id, v2=v2)
    assert second.producer_id == first.producer_id
    assert second.epoch > first.epoch
    assert first.produce(topic, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.end(commit=True) is ErrorCode.PRODUCER_FENCED
    begin(second, topic, b"alive")
    assert second.end(commit=True) is NONE
    answer = fetch(client, topic)
    assert values(answer) == [b"zombie", b"alive"]
    assert [a.first_offset for a in answer.aborted_transactions] == [0]


def test_old_versions_know_fencing_by_another_name(client: Any, producer: MakeProducer, topic: str) -> None:
    first = producer()
    begin(first, topic, b"a")
    producer(first.transactional_id)
    fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    for version in range(6):
        assert first.end(commit=True, version=version) is (invalid if version < 2 else fenced)
    for version in range(4):
        assert first.add(topic, 1, version=version) == [invalid if version < 2 else fenced]
    for version in range(5):
        assert first.add_offsets("g", version) is (invalid if version < 2 else fenced)
    expected = (first.producer_id, first.epoch)
    for version in range(3, 6):
        assert first.init(version, expected=expected) is (invalid if version < 4 else fenced)


@pytest.mark.parametrize("version", range(6))
def test_ids_are_kept_in_every_version(producer: MakeProducer, version: int) -> None:
    p = producer(init=False)
    assert p.init(version) is NONE
    first = p.producer_id
    assert p.epoch == 0
    assert p.init(version) is NONE
    assert (p.producer_id, p.epoch) == (first, 1)


def test_a_producer_goes_on_with_its_own_epoch(producer: MakeProducer) -> None:
    p = producer()
    expected = (p.producer_id, p.epoch)
    assert p.init(expected=expected) is NONE
    assert p.epoch == 1
    assert p.init(expected=expected) is NONE  # the first answer was lost
    assert p.epoch == 1


def test_timeouts_have_a_limit(producer: MakeProducer) -> None:
    p = producer(init=False)
    assert p.init(timeout_ms=900_001) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert p.init(timeout_ms=0) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert p.init(timeout_ms=900_000) is NONE


def test_ids_that_nobody_has_began_with(producer: MakeProducer, topic: str) -> None:
    p = producer(init=False)
    find_transaction_coordinator(p.client, p.transactional_id)
    assert p.end(commit=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert p.add(topic, 0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    p.transactional_id = ""
    assert p.end(commit=True) is ErrorCode.INVALID_REQUEST
    assert p.add(topic, 0) == [ErrorCode.INVALID_REQUEST]


def test_ends_again_and_ends_of_nothing(producer: MakeProducer, topic: str) -> None:
    p = producer()
    assert p.end(commit=True) is ErrorCode.INVALID_TXN_STATE
    begin(p, topic, b"a")
    for version in range(5):
        assert p.end(commit=True, version=version) is NONE
        assert p.end(commit=False, version=version) is ErrorCode.INVALID_TXN_STATE
    new = producer(v2=True)
    assert new.end(commit=True) is ErrorCode.INVALID_TXN_STATE
    assert new.end(commit=False) is NONE
    assert new.epoch == 1
    assert new.end(commit=False, epoch=0) is NONE
    assert new.epoch == 1


# Offsets


def committed(
    client: Any, group: str, topic: str, *, stable: bool, version: int = 9
) -> tuple[ErrorCode, int]:
    if version < 8:
        asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
        answer = client.call(OffsetFetchRequest(group_id=group, topics=asked, require_stable=stable), version)
        partition = answer.topics[0].partitions[0]
    else:
        asked_of = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        )
        answer = client.call(OffsetFetchRequest(groups=[asked_of], require_stable=stable), version)
        partition = answer.groups[0].topics[0].partitions[0]
    return ErrorCode(partition.error_code), partition.committed_offset


def test_offsets_count_when_the_transaction_commits(
    broker: Broker, client: Any, producer: MakeProducer, topic: str, v2: bool
) -> None:
    broker.ensure_internal_topic("__consumer_offsets")
    group = f"g-{uuid.uuid4()}"
    p = producer(v2=v2)
    for offset, commit, seen in ((5, True, 5), (9, False, 5), (7, True, 7)):
        if not v2:
            assert p.add_offsets(group) is NONE
        before = committed(client, group, topic, stable=False)
        assert p.commit_offset(group, topic, offset) is NONE
        assert committed(client, group, topic, stable=False) == before
        for version in (7, 8, 9):
            unstable = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
            assert committed(client, group, topic, stable=True, version=version) == unstable
        assert p.end(commit=commit) is NONE
        assert committed(client, group, topic, stable=True) == (NONE, seen)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.INVALID_TXN_STATE),
        (3, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_offsets_of_version_1_must_have_been_added(
    broker: Broker, producer: MakeProducer, topic: str, version: int, code: ErrorCode
) -> None:
    broker.ensure_internal_topic("__consumer_offsets")
    p = producer()
    assert p.commit_offset("g", topic, 1, version=version) is code
    assert p.add_offsets("g") is NONE
    assert p.commit_offset("g", topic, 1, version=version) is NONE
    assert p.end(commit=False) is NONE


def test_offsets_are_checked_against_the_group(broker: Broker, producer: MakeProducer, topic: str) -> None:
    broker.ensure_internal_topic("__consumer_offsets")
    p = producer(v2=True)
    nobody = f"g-{uuid.uuid4()}"
    assert p.commit_offset(nobody, topic, 1, generation_id=3, member_id="m") is ErrorCode.ILLEGAL_GENERATION
    assert p.commit_offset("", topic, 1) is ErrorCode.INVALID_GROUP_ID
    assert p.commit_offset(nobody, "missing", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert p.commit_offset(nobody, topic, 1) is NONE
    assert p.end(commit=True) is NONE


def test_pending_offsets_survive_a_restart(tmp_path: Any) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        broker.ensure_internal_topic("__consumer_offsets")
        with WireClient(broker.bootstrap_servers) as client:
            p = WireProducer(client, "x", v2=True)
            assert p.init() is NONE
            assert p.commit_offset("g", "t", 5) is NONE
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            unstable = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
            assert committed(client, "g", "t", stable=True) == unstable
            p.client = client
            assert p.end(commit=True) is NONE
            assert committed(client, "g", "t", stable=True) == (NONE, 5)
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            assert committed(client, "g", "t", stable=True) == (NONE, 5)


# Administration


def test_transactions_are_described_and_listed(client: Any, producer: MakeProducer, topic: str) -> None:
    p = producer(v2=True)
    idle = producer()
    begin(p, topic, b"a")
    answer = client.call(
        DescribeTransactionsRequest(
            transactional_ids=[p.transactional_id, idle.transactional_id, "nobody", ""]
        )
    )
    ours, empty, missing, invalid = answer.transaction_states
    assert (ours.transaction_state, ours.producer_id, ours.producer_epoch) == ("Ongoing", p.producer_id, 0)
    assert [(t.topic, t.partitions) for t in ours.topics] == [(topic, [0])]
    assert ours.transaction_start_time_ms > 0
    assert (empty.transaction_state, empty.transaction_start_time_ms) == ("Empty", -1)
    assert (missing.error_code, missing.transactional_id) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "nobody")
    assert invalid.error_code == ErrorCode.INVALID_REQUEST

    def listed(version: int = 2, **filters: Any) -> set[str]:
        found = client.call(ListTransactionsRequest(**filters), version)
        assert not found.error_code
        both = {p.transactional_id, idle.transactional_id}
        return {t.transactional_id for t in found.transaction_states} & both

    both = {p.transactional_id, idle.transactional_id}
    for version in range(3):
        assert listed(version) == both
    assert listed(state_filters=["Ongoing"]) == {p.transactional_id}
    assert listed(producer_id_filters=[idle.producer_id]) == {idle.transactional_id}
    assert listed(duration_filter=600_000) == set()
    assert listed(transactional_id_pattern=p.transactional_id[:12] + ".*") == {p.transactional_id}
    assert listed(transactional_id_pattern=p.transactional_id[:12]) == set()
    unknown = client.call(ListTransactionsRequest(state_filters=["Sleeping"]))
    assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Sleeping"], [])
    for pattern in ("(*", "(a)\\1", "(?=a)"):
        broken = client.call(ListTransactionsRequest(transactional_id_pattern=pattern))
        assert broken.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert p.end(commit=True) is NONE


def test_a_hanging_transaction_is_found_and_ended(client: Any, producer: MakeProducer, topic: str) -> None:
    p = producer()
    begin(p, topic, b"stuck")

    def start_offset() -> int:
        asked = TopicRequest(name=topic, partition_indexes=[0])
        answer = client.call(DescribeProducersRequest(topics=[asked]))
        (state,) = answer.topics[0].partitions[0].active_producers
        return int(state.current_txn_start_offset)

    assert start_offset() == 0
    assert write_marker(client, topic, p.producer_id, p.epoch) is NONE
    assert start_offset() == -1
    assert end_offset(client, topic, committed=True) == 2


def test_markers_are_refused_by_epoch_and_topic(client: Any, producer: MakeProducer, topic: str) -> None:
    p = producer(v2=True)
    begin(p, topic, b"a")
    late = ErrorCode.INVALID_PRODUCER_EPOCH
    assert write_marker(client, topic, p.producer_id, p.epoch, transaction_version=2) is late
    assert write_marker(client, topic, p.producer_id, p.epoch - 1) is late
    assert p.end(commit=True) is NONE
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert write_marker(client, topic, p.producer_id, p.epoch, coordinator_epoch=-1) is fenced
    assert write_marker(client, "missing", 1, 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Time and restarts


@pytest.fixture
def hasty() -> Iterator[Broker]:
    with Broker(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}) as running:
        yield running


def test_a_transaction_that_takes_too_long_is_aborted(hasty: Broker, v2: bool) -> None:
    hasty.create_topic("t")
    with WireClient(hasty.bootstrap_servers) as client:
        p = WireProducer(client, "x", v2=v2)
        assert p.init(timeout_ms=200) is NONE
        begin(p, "t", b"slow")
        deadline = time.monotonic() + 20
        while end_offset(client, "t", committed=True) == 0:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert p.produce("t", b"later") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert p.end(commit=True) is ErrorCode.PRODUCER_FENCED
        assert [a.first_offset for a in fetch(client, "t").aborted_transactions] == [0]
        assert p.init() is NONE


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_goes_on_over_a_restart(tmp_path: Any, v2: bool, commit: bool) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t", 2)
        with WireClient(broker.bootstrap_servers) as client:
            p = WireProducer(client, "x", v2=v2)
            assert p.init() is NONE
            begin(p, "t", b"a")
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            p.client = client
            assert end_offset(client, "t", committed=True) == 0
            assert p.produce("t", b"b") is NONE
            assert p.end(commit=commit) is NONE
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            answer = fetch(client, "t")
            assert values(answer) == [b"a", b"b"]
            assert [a.first_offset for a in answer.aborted_transactions] == ([] if commit else [0])


def stop_markers(broker: Broker) -> None:
    """Until the next start no partition takes a marker."""
    markers: Any = broker._running().broker.markers
    markers.write = lambda _, partitions: [ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(partitions)


@pytest.mark.parametrize("commit", [True, False])
def test_what_was_decided_before_a_crash_is_carried_out_after_it(
    tmp_path: Any, v2: bool, commit: bool
) -> None:
    """Promise: between the decision and the last marker the broker may die; the decision stands."""
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t", 2)
        broker.ensure_internal_topic("__consumer_offsets")
        with WireClient(broker.bootstrap_servers) as client:
            p = WireProducer(client, "x", v2=v2)
            assert p.init() is NONE
            begin(p, "t", b"a")
            if not v2:
                assert p.add_offsets("g") is NONE
            assert p.commit_offset("g", "t", 5) is NONE
            stop_markers(broker)
            epoch = p.epoch
            assert p.end(commit=commit) is NONE
            described = client.call(DescribeTransactionsRequest(transactional_ids=["x"]))
            state = described.transaction_states[0].transaction_state
            assert state == ("PrepareCommit" if commit else "PrepareAbort")
            assert p.produce("t", b"too early") in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.NOT_ENOUGH_REPLICAS,
                NONE,  # version 1, whose transaction is still open in the log
            )
            assert end_offset(client, "t", committed=True) == 0
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            described = client.call(DescribeTransactionsRequest(transactional_ids=["x"]))
            state = described.transaction_states[0].transaction_state
            assert state == ("CompleteCommit" if commit else "CompleteAbort")
            assert end_offset(client, "t", committed=True) > 0
            assert bool(fetch(client, "t").aborted_transactions) is not commit
            assert committed(client, "g", "t", stable=True) == (NONE, 5 if commit else -1)
            p.client = client
            assert p.end(commit=commit, epoch=epoch) is NONE  # the answer was lost
