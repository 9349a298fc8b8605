"""Consumer groups with the consumer protocol (KIP-848).

The broker assigns, so the session is the broker's to choose as well.
"""

from __future__ import annotations

import pytest

from ..capabilities import BROKER_ASSIGNORS
from ..cases import case
from ..client import AgentClient, Client
from ..group_members import PARTITIONS, spread, values, wait_for_all, wait_for_records, wait_for_shares
from ..member import Member
from ..records import Record
from ..settings import broker_config, configure_group
from ..topics import MakeTopic

pytestmark = pytest.mark.timeout(300)

UNIFORM = "broker:uniform"
NEEDS = ["assignor:broker:uniform"]


@case(
    "Assignor {assignor}: join and leave",
    needs=["assignor:{assignor}"],
    assignor=BROKER_ASSIGNORS,
)
def test_broker_assigns(
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
    second.stop()
    wait_for_shares([first], "the one that stays has all partitions", timeout=20)


@case(
    "A live classic group is upgraded and keeps its place",
    needs=["assignor:broker:uniform"],
)
def test_upgrade(client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=PARTITIONS)
    classic = client.member(unique, topic, assignor="range")
    before = spread(30, "before")
    observer.produce(topic, before)
    wait_for_records([classic], before)
    newcomer = client.member(unique, topic, assignor="broker:uniform")
    wait_for_shares([classic, newcomer], "both share")
    during = spread(30, "during")
    observer.produce(topic, during)
    wait_for_records([classic, newcomer], during)
    classic.stop()
    wait_for_shares([newcomer], "the new member has all partitions", timeout=30)
    after = spread(30, "after")
    observer.produce(topic, after)
    wait_for_records([newcomer], after)
    assert values([newcomer]).isdisjoint({record.value for record in before}), "it began where the group was"


@case("A live group goes back to classic and keeps its place", needs=NEEDS)
def test_downgrade(client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=PARTITIONS)
    new = client.member(unique, topic, assignor=UNIFORM)
    before = spread(30, "before")
    observer.produce(topic, before)
    wait_for_records([new], before)
    wait_for_commits([new], 30)
    classic = client.member(unique, topic, assignor="range")
    wait_for_shares([new, classic], "both share")
    new.stop()
    wait_for_shares([classic], "the classic member has all partitions", timeout=30)
    after = spread(30, "after")
    observer.produce(topic, after)
    wait_for_records([classic], after)
    assert values([classic]) == {record.value for record in after}, "it began where the group was"


@case("Three members share, one is killed, two take over", needs=NEEDS)
def test_member_is_killed(client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=PARTITIONS)
    members = [client.member(unique, topic, assignor=UNIFORM) for _ in range(3)]
    wait_for_shares(members, "three members share six partitions")
    first = spread(60, "before")
    observer.produce(topic, first)
    wait_for_records(members, first)

    victim, *survivors = members
    victim.kill()
    second = spread(60, "after")
    observer.produce(topic, second)
    session = broker_config(observer, "group.consumer.session.timeout.ms") / 1000
    wait_for_shares(survivors, "two members share six partitions", timeout=session + 30)
    wait_for_records(survivors, second)
    assert values(members) == {record.value for record in first + second}


@case("A static member that leaves and comes back causes no rebalance", needs=[*NEEDS, "static members"])
def test_static_member(client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=PARTITIONS)
    # A busy machine starts a new member too slowly for a short session.
    configure_group(observer, unique, consumer_session_timeout_ms="45000")
    stays = client.member(unique, topic, instance="stays", assignor=UNIFORM)
    returns = client.member(unique, topic, instance="returns", assignor=UNIFORM)
    wait_for_shares([stays, returns], "two static members share")
    rebalances, share = stays.rebalances, set(returns.assignment)

    returns.stop()
    returned = client.member(unique, topic, instance="returns", assignor=UNIFORM)
    wait_for_all([stays, returned], lambda: returned.assignment == share, "it has its old share again")
    records = spread(30, "record")
    observer.produce(topic, records)
    wait_for_records([stays, returned], records)
    assert stays.rebalances == rebalances


@case("A second static member of the same name is refused", needs=[*NEEDS, "static members"])
def test_static_member_in_use(client: Client, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=PARTITIONS)
    first = client.member(unique, topic, instance="one", assignor=UNIFORM)
    wait_for_shares([first], "one member has all partitions")
    second = client.member(unique, topic, instance="one", assignor=UNIFORM)
    second.wait_until_failed("it is told that the name is taken")
    assert first.assignment == set(range(PARTITIONS))
    assert first.failure is None


@case("A pattern is matched by the broker, and a topic that comes later, too", needs=NEEDS)
def test_pattern(client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str) -> None:
    def fill(text: str) -> Record:
        record = Record(value=text.encode(), partition=0)
        observer.produce(make_topic(), [record])
        return record

    first = fill("there before")
    # The pattern matches only the topics of this test.
    member = client.member(f"g-{unique}", f"^{unique}-.*", assignor=UNIFORM)
    wait_for_records([member], [first])
    second = fill("comes later")
    wait_for_records([member], [second])
    assert values([member]) == {first.value, second.value}


@case("A pattern with flags and classes of RE2", needs=[*NEEDS, "patterns of RE2"])
def test_pattern_of_re2(client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str) -> None:
    record = Record(value=b"found", partition=0)
    observer.produce(make_topic(), [record])
    member = client.member(f"g-{unique}", rf"^(?i){unique.upper()}-[[:alnum:]\pL_-]+", assignor=UNIFORM)
    wait_for_records([member], [record])


@case("Commit in one process, resume in another", needs=NEEDS)
def test_resume(client: Client, observer: AgentClient, topic: str, unique: str) -> None:
    observer.produce(topic, [Record(value=b"%d" % i, partition=0) for i in range(50)])
    first = client.member(unique, topic, assignor=UNIFORM, limit=20)
    first.wait_for_exit()
    second = client.member(unique, topic, assignor=UNIFORM, limit=30)
    second.wait_for_exit()
    assert [record.offset for record in first.records + second.records] == list(range(50))


@case("Members of a live group are described", needs=[*NEEDS, "describe_group"])
def test_describe(client: Client, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=PARTITIONS)
    member = client.member(unique, topic, assignor=UNIFORM)
    wait_for_shares([member], "one member has all partitions")
    group = client.call("describe_group", group=unique)
    assert (group["state"], group["assignor"]) == ("Stable", "uniform")
    [found] = group["members"]
    assert sorted(found["partitions"]) == [[topic, partition] for partition in range(PARTITIONS)]
    member.stop()
    group = client.call("describe_group", group=unique)
    assert (group["state"], group["members"]) == ("Empty", [])


def wait_for_commits(members: list[Member], count: int) -> None:
    wait_for_all(
        members,
        lambda: sum(offset for member in members for offset in member.committed.values()) == count,
        "everything is committed",
    )
