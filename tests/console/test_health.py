"""Problems that follow from facts about a cluster and the services beside it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ottla.client.admin.groups import GroupListing
from ottla.client.admin.log_dirs import LogDir
from ottla.client.cluster import Node
from ottla.client.errors import ClientError
from ottla.console.access.roles import Level, Role, User
from ottla.console.cluster.snapshot import Snapshot, Snapshots
from ottla.console.cluster.source import PartitionState, TopicState, Topology
from ottla.console.health.facts import (
    AuditFacts,
    CertificateFacts,
    ConnectorFacts,
    DeadLetterFacts,
    Facts,
    Observed,
    QueryFacts,
    TaskFacts,
)
from ottla.console.health.problem import Badge, badges
from ottla.console.health.problems import problems


def snapshot(
    *partitions: PartitionState, min_isr: int | None = None, controller: int | None = 0, full: bool = False
) -> Snapshot:
    nodes = {number: Node(number, "kafka", 9092 + number, None) for number in (0, 1)}
    topics = {"orders": TopicState("orders", False, partitions)}
    volumes = {0: [LogDir("/data", None, [], 100, 5 if full else 90)]}
    wanted = {} if min_isr is None else {"orders": min_isr}
    return Snapshot(0.0, Topology("id", controller, nodes, topics), {}, volumes, wanted)


def texts(found: Snapshot) -> list[str]:
    return [f"{each.severity}: {each.text}" for each in problems(Facts(found))]


def test_nothing_is_said_of_a_cluster_that_is_well() -> None:
    assert texts(snapshot(PartitionState(0, 0, (0, 1), (0, 1)), min_isr=2)) == []


def test_a_partition_below_min_isr_is_named_with_who_is_missing() -> None:
    assert texts(snapshot(PartitionState(3, 0, (0, 1, 2), (0,)), min_isr=2)) == [
        "error: Broker 2 is down, but replicas are assigned to it.",
        "error: Below min.insync.replicas, hence not written with acks=all: 1 partition: "
        "orders-3 (1 in sync, 2 needed; broker 2 is down; broker 1 is up, but behind).",
        "warning: Replicas that are not in sync: 1 partition affected.",
    ]


def test_a_replica_that_is_behind_is_named_where_there_are_still_enough() -> None:
    assert texts(snapshot(PartitionState(0, 0, (0, 1), (0,)), min_isr=1)) == [
        "warning: Replicas that are not in sync: 1 partition affected: orders-0 (broker 1 is up, but behind)."
    ]


def test_a_partition_without_a_leader_is_named_once() -> None:
    found = texts(snapshot(PartitionState(0, None, (2, 3), (2,)), min_isr=2))
    assert found[2] == (
        "error: Without a leader, hence neither written nor read: 1 partition: orders-0 (brokers 2, 3 are down)."
    )
    assert not any("Below min.insync.replicas" in each for each in found)


def test_more_than_a_few_are_counted_and_topics_of_others_are_not_named() -> None:
    many = snapshot(*(PartitionState(number, 0, (0, 1), (0,)) for number in range(9)), min_isr=2)
    assert "9 partitions: orders-0 (" in texts(many)[0]
    assert texts(many)[0].endswith("4 more.")
    stranger = User("tim", (Role("team", Level.VIEWER, ("payments",)),))
    assert problems(Facts(many.seen_by(stranger))) == []


def test_a_controller_that_is_missing_and_a_full_disk_are_reasons() -> None:
    found = texts(snapshot(controller=None, full=True))
    assert found[0].startswith("error: The cluster names no controller")
    assert found[1] == "warning: Broker 0: the disk of /data is 95% full."
    assert {each.area: each.path for each in problems(Facts(snapshot(controller=None, full=True)))} == {
        "brokers": ("overview",),
        "disks": ("capacity",),
    }


# -- groups --


def lag(*values: float) -> list[tuple[float, float]]:
    return [(15.0 * number, value) for number, value in enumerate(values)]


def of_group(points: list[tuple[float, float]], state: str = "Stable") -> list[str]:
    listed = {"billing": GroupListing("billing", state, "Consumer", "consumer")}
    found = replace(snapshot(PartitionState(0, 0, (0, 1), (0, 1))), groups=listed)
    return [f"{each.text} {each.fix}" for each in problems(Facts(found, lags={"billing": points}))]


RISING = lag(0, 0, 10_000, 20_000, 30_000, 40_000, 50_000, 59_000)


def test_a_lag_that_rises_is_told_with_its_rate() -> None:
    [told] = of_group(RISING)
    assert "has risen to 59,000 messages, by 653 a second: its consumers are too slow." in told
    [told] = of_group(RISING, "Empty")
    assert "it has no members. Start its consumers" in told


def test_a_lag_that_rose_and_stays_there_is_still_told_until_it_falls() -> None:
    assert of_group([*RISING, (200.0, 59_000), (215.0, 59_000)])
    assert not of_group([*RISING, (200.0, 58_000)])
    assert not of_group([*RISING, (200.0, 0)])


@pytest.mark.parametrize("state", ["Stable", "Empty"])
@pytest.mark.parametrize(
    "points",
    [
        [],
        lag(0, 0, 0, 0, 0, 0, 0, 0),
        lag(0, 900, 100, 800, 0, 700, 200, 900, 50),  # commits every few seconds
        lag(5000, 100, 200, 300, 400, 500, 600),  # recovers from more
        lag(1, 2, 3, 4, 5, 6, 7, 8, 9),  # too few to matter
        lag(*[1] * 30),  # the marker of a transaction
        lag(0, 0, 300, 600, 900, 1200),  # not long enough
    ],
)
def test_a_lag_that_comes_and_goes_is_no_problem(points: list[tuple[float, float]], state: str) -> None:
    assert of_group(points, state) == []


def test_members_that_commit_nothing_are_told_but_an_abandoned_group_is_not() -> None:
    [told] = of_group(lag(*[700] * 12))
    assert "commits nothing and stays 700 messages behind" in told
    assert of_group(lag(*[700] * 12), "Empty") == []


# -- services --

FAILURES: dict[str, tuple[Observed, str]] = {
    "connector": (
        Observed(connectors=(ConnectorFacts("sink", "FAILED", "ConnectException: refused"),)),
        "error connectors: Connector 'sink' failed: ConnectException: refused.",
    ),
    "task": (
        Observed(connectors=(ConnectorFacts("sink", "RUNNING", "", (TaskFacts(1, "FAILED", "full"),)),)),
        "error connectors: Task 1 of connector 'sink' failed: full.",
    ),
    "tasks": (
        Observed(connectors=(ConnectorFacts("sink", "RUNNING", "", (TaskFacts(0, "FAILED"), TaskFacts(1, "FAILED"))),)),
        "error connectors: Tasks 0, 1 of connector 'sink' failed.",
    ),
    "query": (Observed(queries=(QueryFacts("CTAS_1", "ERROR"),)), "error queries: Query 'CTAS_1' failed."),
    "pipeline": (
        Observed(pipelines=(QueryFacts("trending", "lost"),)),
        "error pipelines: Pipeline 'trending' failed.",
    ),
    "mirror": (
        Observed(mirrors={"east → local": RISING}),
        "warning mirrors: Mirror 'east → local' falls behind: 59,000 messages are not copied yet.",
    ),
    "letters": (
        Observed(dead_letters=(DeadLetterFacts("orders-dlq", 2886, lag(0, 0, 2886)),)),
        "warning dead letters: 2,886 dead letters wait in 'orders-dlq'; 2,886 arrived in the last ten minutes.",
    ),
    "old letters": (
        Observed(dead_letters=(DeadLetterFacts("orders-dlq", 1, lag(1, 1, 1)),)),
        "note dead letters: 1 dead letter waits in 'orders-dlq'.",
    ),
    "certificate": (
        Observed(certificates=(CertificateFacts("kafka:9093", "CN=kafka", 9.4),)),
        "warning certificates: The certificate of kafka:9093 (CN=kafka) expires in 9 days.",
    ),
    "expired": (
        Observed(certificates=(CertificateFacts("kafka:9093", "CN=kafka", -1),)),
        "error certificates: The certificate of kafka:9093 (CN=kafka) has expired.",
    ),
    "audit": (
        Observed(audit=(AuditFacts("orders", "sink", "loss", 3), AuditFacts("orders", "sink", "loss", 4))),
        "error audit: The count audit found loss of 7 records in 'orders' at tier sink.",
    ),
    "silent": (Observed(silent={"Connect": "Connect is gone."}), "error services: Connect is gone."),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_each_failure_of_a_service_is_one_problem_with_a_page_and_a_remedy(name: str) -> None:
    observed, expected = FAILURES[name]
    [found] = problems(Facts(snapshot(PartitionState(0, 0, (0, 1), (0, 1))), 30.0, observed=observed))
    assert f"{found.severity} {found.area}: {found.text}" == expected
    assert found.fix.endswith(".")
    assert found.path


def test_a_healthy_service_is_no_problem() -> None:
    observed = Observed(
        connectors=(ConnectorFacts("sink", "PAUSED", "", (TaskFacts(0, "UNASSIGNED"),)),),
        queries=(QueryFacts("CTAS_1", "RUNNING"),),
        pipelines=(QueryFacts("trending", "stopped"),),
        mirrors={"east → local": lag(5, 3, 9, 2)},
        dead_letters=(DeadLetterFacts("orders-dlq", 0, lag(0, 0, 2886)),),  # sent back
        certificates=(CertificateFacts("kafka:9093", "CN=kafka", 80),),
    )
    assert problems(Facts(snapshot(PartitionState(0, 0, (0, 1), (0, 1))), 30.0, observed=observed)) == []


def test_a_log_of_changes_that_cannot_be_written_is_an_error() -> None:
    [found] = problems(Facts(snapshot(), audit_log="The audit log cannot be written."))
    assert (found.severity, found.area) == ("error", "audit")


def test_a_role_for_some_topics_hears_of_those_alone() -> None:
    everything = Observed(
        connectors=(ConnectorFacts("sink", "FAILED"),),
        queries=(QueryFacts("CTAS_1", "ERROR"),),
        pipelines=(QueryFacts("trending", "lost"),),
        mirrors={"east → local": RISING},
        dead_letters=(DeadLetterFacts("orders-dlq", 1), DeadLetterFacts("payroll-dlq", 1)),
        certificates=(CertificateFacts("kafka:9093", "CN=kafka", -1),),
        audit=(AuditFacts("payroll", "sink", "loss", 3),),
        silent={"Connect": "Connect is gone."},
    )
    user = User("tim", (Role("team", Level.OPERATOR, ("orders*",)),))
    seen = problems(Facts(snapshot().seen_by(user), observed=everything.seen_by(user)))
    assert [(each.area, each.name) for each in seen] == [("dead letters", "orders-dlq")]


def test_badges_count_problems_by_page_with_the_worst_severity() -> None:
    observed = Observed(
        connectors=(ConnectorFacts("a", "FAILED"), ConnectorFacts("b", "FAILED")),
        mirrors={"east → local": RISING},
        dead_letters=(DeadLetterFacts("orders-dlq", 1),),
    )
    found = badges(problems(Facts(snapshot(), observed=observed)))
    assert (found["connectors"], found["flow"], found["topics"]) == (
        Badge(2, "error"),
        Badge(1, "warning"),
        None,
    )
    assert found["alerts"] == Badge(3, "error")


def test_a_cluster_that_does_not_answer_is_said_to_be_silent_until_it_answers() -> None:
    failures = [False]

    async def take() -> Snapshot:
        if failures[0]:
            raise ClientError("nobody is there")
        return snapshot()

    async def look() -> None:
        snapshots = Snapshots(take, fresh_seconds=0, silence_seconds=0.05)
        patient = Snapshots(take, fresh_seconds=0, silence_seconds=60)
        shown = await snapshots.current()
        await patient.current()
        assert snapshots.silent_seconds is None
        failures[0] = True
        await patient.current()
        assert patient.silent_seconds is None  # a single failure is not reported
        while (silent := snapshots.silent_seconds) is None:
            assert await snapshots.current() is shown
        [said] = problems(Facts(shown, silent_seconds=silent))
        assert said.severity == "error"
        assert said.text.startswith("The cluster has not answered for ")
        failures[0] = False
        await snapshots.renewed()
        assert snapshots.silent_seconds is None

    asyncio.run(asyncio.wait_for(look(), 30))
