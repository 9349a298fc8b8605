"""Share groups (KIP-932).

Members share the records of a partition, not the partitions: each record is locked for one of them at a time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode

from ..cases import case
from ..client import AgentClient
from ..group_members import wait_for_all
from ..records import ClientError, Record
from ..settings import broker_config, configure_group
from ..share import ShareConsumer
from ..topics import is_served
from ..waiting import wait_for

pytestmark = pytest.mark.timeout(300)

NEEDS = ["share groups"]
_SHORT_LOCK_MS = 3000

OpenConsumer = Callable[..., ShareConsumer]


@pytest.fixture
def group(observer: AgentClient, unique: str) -> str:
    """A share group that starts at the earliest offset."""
    name = f"s-{unique}"
    configure_group(observer, name, share_auto_offset_reset="earliest")
    return name


@pytest.fixture
def consumer(client: AgentClient, group: str, topic: str) -> Iterator[OpenConsumer]:
    """Opens consumers of the group, and closes the ones that a case leaves open."""
    opened: list[ShareConsumer] = []

    def open_one(**options: Any) -> ShareConsumer:
        opened.append(ShareConsumer(client, group, topic, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def lock_for(observer: AgentClient, group: str) -> float:
    """Shorten the group's locks, but not below the pace of a busy machine; return the seconds."""
    least = broker_config(observer, "group.share.min.record.lock.duration.ms")
    lock = max(least, _SHORT_LOCK_MS)
    configure_group(observer, group, share_record_lock_duration_ms=str(lock))
    return lock / 1000


def produce(observer: AgentClient, topic: str, *values: str) -> None:
    observer.produce(topic, [Record(value=value.encode(), partition=0) for value in values])


def read_until(
    consumer: ShareConsumer, value: str, fate: str = "accept"
) -> list[tuple[bytes | None, int | None]]:
    """Return values and delivery counts up to and including `value`, acknowledging all records the same way."""
    found: list[tuple[bytes | None, int | None]] = []
    deadline = time.monotonic() + 40
    while value.encode() not in [seen for seen, _ in found]:
        assert time.monotonic() < deadline, f"{value} does not come; {found}"
        records = consumer.poll()
        found += [(record.value, record.delivery_count) for record in records]
        consumer.acknowledge({offset_of(record): fate for record in records})
    return found


def offset_of(record: Record) -> int:
    assert record.offset is not None
    return record.offset


@case("Two members divide the records of one partition", needs=NEEDS)
def test_divide(client: AgentClient, observer: AgentClient, topic: str, group: str) -> None:
    members = [client.share_member(group, topic) for _ in range(2)]
    sent: Counter[bytes | None] = Counter()

    def seen() -> Counter[bytes | None]:
        return Counter(record.value for member in members for record in member.records)

    deadline = time.monotonic() + 60
    while not all(member.records for member in members):
        assert time.monotonic() < deadline, "one member gets everything"
        values = [f"record {len(sent) + i}" for i in range(10)]
        produce(observer, topic, *values)
        sent.update(value.encode() for value in values)
        wait_for_all(members, lambda: seen().keys() == sent.keys(), "everything is read")
    for member in members:
        member.stop()
    assert seen() == sent, "nothing is read twice"
    assert {record.delivery_count for member in members for record in member.records} == {1}


@case("Accept, release and reject, with delivery counts", needs=NEEDS)
def test_acknowledge(observer: AgentClient, topic: str, consumer: OpenConsumer) -> None:
    produce(observer, topic, "accepted", "released", "rejected")
    one = consumer(explicit=True)
    first: list[Record] = []
    while len(first) < 3:
        records = one.poll()
        assert records, "the records do not come"
        fates = {0: "accept", 1: "release", 2: "reject"}
        one.acknowledge({offset_of(record): fates[offset_of(record)] for record in records})
        first += records
    assert {record.delivery_count for record in first[:3]} == {1}
    produce(observer, topic, "last")
    again = [(record.value, record.delivery_count) for record in first[3:]] + read_until(one, "last")
    assert again == [(b"released", 2), (b"last", 1)]


@case("A record that is released again and again is given up", needs=NEEDS)
def test_delivery_count_limit(observer: AgentClient, topic: str, consumer: OpenConsumer) -> None:
    limit = broker_config(observer, "group.share.delivery.count.limit")
    produce(observer, topic, "bad")
    one = consumer(explicit=True)
    for count in range(1, limit + 1):
        assert read_until(one, "bad", "release") == [(b"bad", count)]
    produce(observer, topic, "good")
    assert read_until(one, "good") == [(b"good", 1)]


@case("A rejected record reaches the dead-letter topic (KIP-1191)", needs=NEEDS)
def test_dead_letters(
    client: AgentClient, observer: AgentClient, group: str, topic: str, unique: str, consumer: OpenConsumer
) -> None:
    letters = f"dlq.{unique}"
    configs = {
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    changes = [["SET", name, value] for name, value in configs.items()]
    try:
        observer.call("incremental_alter_configs", kind="group", name=group, changes=changes)
    except ClientError as error:
        pytest.skip(f"the broker is older than Kafka 4.4: {error}")
    enabled = {"errors.deadletterqueue.group.enable": "true"}
    observer.call(
        "create_topic", name=letters, partitions=1, replication=1, configs=enabled, validate_only=False
    )
    try:
        wait_for(lambda: is_served(observer, letters, 1), "the dead-letter topic is served")
        produce(observer, topic, "bad")
        assert read_until(consumer(explicit=True), "bad", "reject") == [(b"bad", 1)]
        [letter] = client.consume(letters, 1)
        assert letter.value == b"bad"
        headers = dict(letter.headers)
        assert headers["__dlq.errors.topic"] == topic.encode()
        assert headers["__dlq.errors.message"] == b"Offset rejected by client."
    finally:
        observer.call("delete_topic", name=letters)


@case("A lock that runs out gives the records to another, and a late acknowledgement is refused", needs=NEEDS)
def test_lock_runs_out(observer: AgentClient, group: str, topic: str, consumer: OpenConsumer) -> None:
    lock = lock_for(observer, group)
    produce(observer, topic, "slow")
    slow, other = consumer(explicit=True), consumer(explicit=True)
    before = time.monotonic()
    [held] = slow.poll()
    # Longer locks from here on: the second one's lock must not expire.
    longest = broker_config(observer, "group.share.max.record.lock.duration.ms")
    configure_group(observer, group, share_record_lock_duration_ms=str(longest))
    [again] = other.poll()
    assert time.monotonic() - before > lock * 0.9
    assert (again.value, again.delivery_count) == (b"slow", 2)
    with pytest.raises(ClientError) as refused:
        slow.acknowledge({offset_of(held): "accept"})
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE
    other.acknowledge({offset_of(again): "accept"})


@case("A lock that is renewed does not run out", needs=[*NEEDS, "renewed locks"])
def test_renewed_lock(observer: AgentClient, group: str, topic: str, consumer: OpenConsumer) -> None:
    lock = lock_for(observer, group)
    produce(observer, topic, "long")
    slow, other = consumer(explicit=True), consumer(explicit=True)
    [held] = slow.poll()
    for _ in range(3):
        slow.acknowledge({offset_of(held): "renew"})
        assert other.poll(timeout=lock / 2) == []
        # The client returns the record once more, so that the application can acknowledge it.
        [held] = slow.poll()
    slow.acknowledge({offset_of(held): "accept"})
    assert other.poll(timeout=lock * 1.5) == []


@case("What a killed member had locked goes to another", needs=NEEDS)
def test_member_is_killed(
    client: AgentClient, observer: AgentClient, group: str, topic: str, consumer: OpenConsumer
) -> None:
    lock_for(observer, group)
    values = [f"record {i}" for i in range(5)]
    produce(observer, topic, *values)
    victim = client.share_member(group, topic, accept=False)
    victim.wait_until(lambda: bool(victim.records), "it has locked records")
    victim.kill()
    held = {record.value for record in victim.records}
    found = dict(read_until(consumer(explicit=True), values[-1]))
    assert found == {value.encode(): 2 if value.encode() in held else 1 for value in values}


@case("A member that closes gives back what it had locked", needs=NEEDS)
def test_close_releases(
    client: AgentClient, observer: AgentClient, group: str, topic: str, consumer: OpenConsumer
) -> None:
    produce(observer, topic, "job")
    first = client.share_member(group, topic, accept=False)
    first.wait_until(lambda: bool(first.records), "it has locked the record")
    first.stop()
    begun = time.monotonic()
    [(value, _)] = read_until(consumer(explicit=True), "job")
    assert value == b"job"
    assert time.monotonic() - begun < 15, "nobody waits for the lock, which is for half a minute"


@case("share.auto.offset.reset={reset}", needs=NEEDS, reset=["earliest", "latest"])
def test_offset_reset(
    observer: AgentClient, group: str, topic: str, consumer: OpenConsumer, reset: str
) -> None:
    configure_group(observer, group, share_auto_offset_reset=reset)
    produce(observer, topic, "before")
    one = consumer()
    found: list[Record] = []
    deadline = time.monotonic() + 40
    while not any(record.value == b"after" for record in found):
        assert time.monotonic() < deadline, "nothing comes"
        # The first member initialises the group's start offset, so more records have to follow.
        produce(observer, topic, "after")
        found += one.poll(timeout=0.5)
    assert (b"before" in {record.value for record in found}) == (reset == "earliest")


@case("A group goes on where it was", needs=NEEDS)
def test_resume(
    client: AgentClient, observer: AgentClient, group: str, topic: str, consumer: OpenConsumer
) -> None:
    produce(observer, topic, "a", "b")
    first = ShareConsumer(client, group, topic, explicit=True)
    read_until(first, "b")
    first.close()  # a client may have a fetch in flight, and would get the records
    produce(observer, topic, "c")
    assert read_until(consumer(explicit=True), "c") == [(b"c", 1)]


@case("share.isolation.level=read_committed leaves out aborted records", needs=[*NEEDS, "transactions"])
def test_read_committed(
    client: AgentClient, observer: AgentClient, group: str, topic: str, consumer: OpenConsumer
) -> None:
    configure_group(observer, group, share_isolation_level="read_committed")
    handle = client.call("begin_producer", transactional_id=f"x-{topic}")
    for value, outcome in (("a", "commit"), ("never", "abort"), ("b", "commit")):
        client.call(
            "transact", handle=handle, topic=topic, values=[value], group=None, offset=-1, outcome=outcome
        )
    assert read_until(consumer(explicit=True), "b") == [(b"a", 1), (b"b", 1)]


@case("Settings of a group are set and described", needs=[*NEEDS, "incremental_alter_configs"])
def test_group_configs(client: AgentClient, unique: str) -> None:
    configure_group(client, unique, share_auto_offset_reset="earliest")
    configs = client.call("describe_configs", kind="group", name=unique)
    assert configs["share.auto.offset.reset"]["value"] == "earliest"
    with pytest.raises(ClientError) as refused:
        configure_group(client, unique, share_auto_offset_reset="somewhere")
    assert refused.value.code == ErrorCode.INVALID_CONFIG


@case(
    "A lock shorter or longer than the broker allows is refused", needs=[*NEEDS, "incremental_alter_configs"]
)
def test_lock_bounds(client: AgentClient, observer: AgentClient, unique: str) -> None:
    least = broker_config(observer, "group.share.min.record.lock.duration.ms")
    most = broker_config(observer, "group.share.max.record.lock.duration.ms")
    for fits in (least, most):
        configure_group(client, unique, share_record_lock_duration_ms=str(fits))
    for wrong in (least - 1, most + 1):
        with pytest.raises(ClientError) as refused:
            configure_group(client, unique, share_record_lock_duration_ms=str(wrong))
        assert refused.value.code == ErrorCode.INVALID_CONFIG


@case("List share groups", needs=["list_share_groups"])
def test_list(client: AgentClient, observer: AgentClient, group: str, topic: str) -> None:
    one = ShareConsumer(observer, group, topic)
    try:
        wait_for(lambda: group in client.call("list_share_groups"), "the group is listed")
    finally:
        one.close()


@case("Describe a share group", needs=[*NEEDS, "describe_share_group"])
def test_describe(
    client: AgentClient, observer: AgentClient, group: str, topic: str, consumer: OpenConsumer
) -> None:
    produce(observer, topic, "a")
    one = consumer(explicit=True)
    read_until(one, "a")
    described = client.call("describe_share_group", group=group)
    assert described["state"] == "Stable"
    assert [member["partitions"] for member in described["members"]] == [[[topic, 0]]]


@case("List, alter and delete the offsets of a share group", needs=[*NEEDS, "alter_share_group_offsets"])
def test_offsets(client: AgentClient, observer: AgentClient, group: str, topic: str) -> None:
    def offsets() -> Any:
        return client.call("share_group_offsets", group=group)

    produce(observer, topic, "a", "b", "c")
    one = ShareConsumer(client, group, topic, explicit=True)
    read_until(one, "c")
    # The start offset may be stored after the acknowledgement; the lag includes both.
    wait_for(lambda: [lag for *_, lag in offsets()] == [0], "the group has read everything")
    with pytest.raises(ClientError) as refused:
        client.call("alter_share_group_offsets", group=group, topic=topic, offsets=[[0, 1]])
    assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
    one.close()
    client.call("alter_share_group_offsets", group=group, topic=topic, offsets=[[0, 1]])
    assert offsets() == [[topic, 0, 1, 2]]
    one = ShareConsumer(client, group, topic, explicit=True)
    assert read_until(one, "c") == [(b"b", 1), (b"c", 1)]
    one.close()
    client.call("delete_share_group_offsets", group=group, topic=topic)
    assert offsets() == []


@case("Delete a share group, when it is empty", needs=[*NEEDS, "delete_share_group"])
def test_delete(client: AgentClient, observer: AgentClient, group: str, topic: str) -> None:
    produce(observer, topic, "a")
    one = ShareConsumer(client, group, topic, explicit=True)
    read_until(one, "a")
    with pytest.raises(ClientError) as refused:
        client.call("delete_share_group", group=group)
    assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
    one.close()
    client.call("delete_share_group", group=group)
    assert group not in client.call("list_share_groups")
