"""Loads, failures and what-if questions for clusters defined here."""

from __future__ import annotations

import pytest

from ottla.monitoring.capacity.advice import (
    Limits,
    Plan,
    advice,
    brokers_for,
    disk_outlook,
    duration,
    needs,
    partitions_for,
    rate,
)
from ottla.monitoring.capacity.load import (
    BrokerFacts,
    ClusterFacts,
    Disk,
    Partition,
    PartitionFacts,
    TopicSettings,
    loads,
    losses,
)

GB = 10**9
DAY_MS = 86_400_000


def cluster(
    partitions: dict[Partition, PartitionFacts], *, brokers: int = 3, usable: int = 50 * GB, **settings: int
) -> ClusterFacts:
    known = {number: BrokerFacts(number, disks=(Disk("/d", 100 * GB, usable),)) for number in range(brokers)}
    topics = {topic: TopicSettings(**settings) for topic, _ in partitions}
    return ClusterFacts(10.0, known, partitions, topics)


def test_replicas_receive_and_the_leader_sends() -> None:
    facts = cluster({("t", 0): PartitionFacts(0, (0, 1, 2), (0, 1, 2), 1000, 10, 100.0, 1.0, 250.0)})
    now = loads(facts).brokers
    assert [now[each].bytes_in for each in range(3)] == [100.0, 100.0, 100.0]
    assert [now[each].bytes_out for each in range(3)] == [100.0 * 2 + 250.0, 0.0, 0.0]
    assert [now[each].leaders for each in range(3)] == [1, 0, 0]


def test_without_its_leader_the_next_in_sync_leads() -> None:
    facts = cluster({("t", 0): PartitionFacts(0, (0, 1, 2), (0, 2), 1000, 10, 100.0, 1.0, 250.0)})
    now = loads(facts, without={0}).brokers
    assert now[2].leaders == 1
    assert now[2].bytes_out == 100.0 + 250.0
    assert now[1].leaders == 0


def test_a_loss_takes_partitions_offline_or_makes_them_read_only() -> None:
    facts = cluster(
        {
            ("safe", 0): PartitionFacts(0, (0, 1, 2), (0, 1, 2)),
            ("tight", 0): PartitionFacts(0, (0, 1), (0, 1)),
            ("alone", 0): PartitionFacts(1, (1,), (1,)),
        },
        min_insync_replicas=2,
    )
    by_broker = {each.broker: each for each in losses(facts)}
    assert by_broker[0].read_only == [("tight", 0)]
    assert by_broker[0].offline == []
    assert by_broker[1].offline == [("alone", 0)]
    assert by_broker[1].read_only == [("tight", 0)]
    assert (by_broker[2].offline, by_broker[2].read_only) == ([], [])
    said = advice(facts, loads(facts), losses(facts), Limits())
    assert any("Without broker 1 1 partition would be offline, such as alone-0" in each for each in said)
    assert any("Without broker 0 1 partition could not be written with acks=all" in each for each in said)


def test_a_disk_fills_up_only_if_retention_does_not_catch_up() -> None:
    writing = {("t", 0): PartitionFacts(0, (0,), (0,), 10 * GB, 10, 1e6, 1.0, 0.0)}
    for_a_day = cluster(writing, retention_ms=DAY_MS)  # 86.4 GB in the end, with 60 GB available
    found = disk_outlook(for_a_day, loads(for_a_day), 0, Limits())
    assert found.full_in == pytest.approx(50 * GB / 1e6)
    assert found.used == 0.5
    assert found.later == pytest.approx((40 + 86.4) / 100)
    for_an_hour = cluster(writing, retention_ms=DAY_MS // 24)
    assert disk_outlook(for_an_hour, loads(for_an_hour), 0, Limits()).full_in is None
    by_size = cluster(writing, retention_ms=100 * DAY_MS, retention_bytes=20 * GB)
    assert disk_outlook(by_size, loads(by_size), 0, Limits()).full_in is None
    for_ever = cluster(writing)
    assert disk_outlook(for_ever, loads(for_ever), 0, Limits()).full_in == pytest.approx(50_000)


def test_two_directories_on_one_disk_are_one_disk() -> None:
    broker = BrokerFacts(0, disks=(Disk("/d/a", 100, 40), Disk("/d/b", 100, 40), Disk("/e", 10, 5)))
    assert (broker.total, broker.usable) == (110, 45)


def test_a_network_that_cannot_carry_a_loss_is_named() -> None:
    facts = cluster(
        {
            ("t", each): PartitionFacts(each, (each, (each + 1) % 3), (0, 1, 2), 0, 0, 10e6, 1.0, 40e6)
            for each in range(3)
        }
    )
    said = advice(facts, loads(facts), losses(facts), Limits(network=100e6))
    assert any("add a broker" in each for each in said)
    assert not any(
        "add a broker" in each for each in advice(facts, loads(facts), losses(facts), Limits(network=1e9))
    )


def test_the_formulas_of_the_page() -> None:
    plan = Plan(ingress=10e6, replication_factor=3, groups=2, retention=86_400, brokers=6)
    found = needs(plan)
    assert found.disk == pytest.approx(10e6 * 3 * 86_400 / (5 * 0.7))
    assert found.bytes_in == pytest.approx(10e6 * 3 / 5)
    assert found.bytes_out == pytest.approx(10e6 * 4 / 5)
    assert (
        brokers_for(plan, disk=1e12, network=20e6) == 5
    )  # 3.7 for the disks, 2 for the network, and one spare
    assert brokers_for(plan) == 3


def test_partitions_for_a_rate() -> None:
    assert partitions_for(100e6, 30e6, 50e6) == 4
    assert partitions_for(100e6, 30e6, 10e6) == 10
    assert partitions_for(1, 30e6, 50e6, consumers=12) == 12
    with pytest.raises(ValueError, match="above 0"):
        partitions_for(1, 0, 1)


def test_how_figures_read() -> None:
    assert [rate(each) for each in (12, 1500, 2.5e6, 3e9)] == ["12 B/s", "1.5 kB/s", "2.5 MB/s", "3.0 GB/s"]
    assert [duration(each) for each in (30, 600, 9000, 10 * 86_400)] == [
        "a minute",
        "10 minutes",
        "2 hours",
        "10 days",
    ]
