"""Consumer groups."""

from __future__ import annotations

import pytest

from ..capabilities import ASSIGNORS
from ..cases import case
from ..client import AgentClient, Client
from ..group_members import PARTITIONS, spread, values, wait_for_all, wait_for_records, wait_for_shares
from ..records import Record
from ..settings import broker_config
from ..topics import MakeTopic

pytestmark = pytest.mark.timeout(300)


@case("Three members share, one is killed, two take over", needs=["groups"])
def test_member_is_killed(client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=PARTITIONS)
    session = broker_config(observer, "group.min.session.timeout.ms")
    members = [client.member(unique, topic, session_timeout_ms=session) for _ in range(3)]
    wait_for_shares(members, "three members share six partitions")
    first = spread(60, "before")
    observer.produce(topic, first)
    wait_for_records(members, first)

    victim, *survivors = members
    victim.kill()
    second = spread(60, "after")
    observer.produce(topic, second)
    wait_for_shares(survivors, "two members share six partitions")
    wait_for_records(survivors, second)

    # No record was skipped, and each member read each partition in order.
    assert values(members) == {record.value for record in first + second}
    for member in members:
        for partition in range(PARTITIONS):
            offsets = [record.offset for record in member.records if record.partition == partition]
            assert offsets == sorted(offsets)


@case("Assignor {assignor}: join and leave", needs=["groups", "assignor:{assignor}"], assignor=ASSIGNORS)
def test_assignor(
    client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str, assignor: str
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    first = client.member(unique, topic, assignor=assignor)
    wait_for_shares([first], "one member has all partitions")
    second = client.member(unique, topic, assignor=assignor)
    wait_for_shares([first, second], "two members share")
    records = spread(30, "record")
    observer.produce(topic, records)
    wait_for_records([first, second], records)
    # The member leaves explicitly, so nobody waits for its session timeout.
    second.stop()
    wait_for_shares([first], "the one that stays has all partitions", timeout=20)


@case("A static member that comes back in time causes no rebalance", needs=["static members"])
def test_static_member(client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=PARTITIONS)
    stays = client.member(unique, topic, instance="stays", assignor="range")
    returns = client.member(unique, topic, instance="returns", assignor="range")
    wait_for_shares([stays, returns], "two static members share")
    before = spread(30, "before")
    observer.produce(topic, before)
    wait_for_records([stays, returns], before)
    rebalances, share = stays.rebalances, set(returns.assignment)

    returns.kill()
    returned = client.member(unique, topic, instance="returns", assignor="range")
    wait_for_all([stays, returned], lambda: returned.assignment == share, "it has its old share again")
    records = spread(30, "record")
    observer.produce(topic, records)
    wait_for_records([stays, returned], records)
    assert stays.rebalances == rebalances
    assert len(stays.assignment) == len(returned.assignment) == PARTITIONS // 2


@case("Commit in one process, resume in another", needs=["groups"])
def test_resume(client: Client, observer: AgentClient, topic: str, unique: str) -> None:
    observer.produce(topic, [Record(value=b"%d" % i, partition=0) for i in range(50)])
    first = client.member(unique, topic, limit=20)
    first.wait_until(lambda: len(first.records) == 20, "it reads twenty")
    first.wait_for_exit()
    assert observer.call("committed", group=unique, topic=topic, partitions=[0]) == [20]

    second = client.member(unique, topic, limit=30)
    second.wait_until(lambda: len(second.records) == 30, "it reads the other thirty")
    second.wait_for_exit()
    assert [record.offset for record in first.records + second.records] == list(range(50))


@case("A member that was killed before it committed is read again", needs=["groups"])
def test_uncommitted_is_read_again(client: Client, observer: AgentClient, topic: str, unique: str) -> None:
    observer.produce(topic, [Record(value=b"%d" % i, partition=0) for i in range(10)])
    session = broker_config(observer, "group.min.session.timeout.ms")
    first = client.member(unique, topic, commit=False, session_timeout_ms=session)
    first.wait_until(lambda: len(first.records) == 10, "it reads all")
    first.kill()
    second = client.member(unique, topic, session_timeout_ms=session)
    second.wait_until(lambda: len(second.records) == 10, "the next one reads all again", timeout=60)
    assert [record.offset for record in second.records] == list(range(10))


@case("Members of a live group are described", needs=["groups", "describe_group"])
def test_describe_live_group(client: Client, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=PARTITIONS)
    member = client.member(unique, topic, assignor="roundrobin")
    wait_for_shares([member], "one member has all partitions")
    group = client.call("describe_group", group=unique)
    assert group["state"] == "Stable"
    assert group["assignor"] == "roundrobin"
    [found] = group["members"]
    assert sorted(found["partitions"]) == [[topic, partition] for partition in range(PARTITIONS)]
    member.stop()
    group = client.call("describe_group", group=unique)
    assert (group["state"], group["members"]) == ("Empty", [])
