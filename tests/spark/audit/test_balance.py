"""Spark balances tier_counts like the plain balance, once and continuously."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.cluster import Cluster
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.audit.audit_topic import ensure_audit_topic, write_entries
from ottla.monitoring.audit.count_reports import NO_PARTITION, CountReport, Counts, Entry, Round
from ottla.monitoring.audit.tier_counts import LOSS, SUBSTITUTION, Finding, TierCounts
from ottla.testing import Broker
from tests.connect.runtime.conftest import wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET = 1000
CASES = 150


def random_entries(random: random.Random, topic: str) -> list[Entry]:
    """Return reports of some mostly consistent tiers: some repeated, replaced, late, or from another's epoch."""
    entries: list[Entry] = []
    tiers = random.sample(["broker", "mirror", "sink"], random.randint(1, 3))
    records = [(random.randrange(5) * 300, random.randbytes(3)) for _ in range(random.randint(0, 12))]
    for number, tier in enumerate(tiers):
        mine = list(records)
        if mine and random.random() < 0.4:
            fate = random.choice(["lose", "repeat", "change"])
            at = random.randrange(len(mine))
            if fate == "lose":
                del mine[at]
            elif fate == "repeat":
                mine.append(mine[at])
            else:
                mine[at] = mine[at][0], b"other"
        reports: list[CountReport] = []
        first = 0
        has_offsets = random.random() < 0.7
        has_checksums = random.random() < 0.9
        while first < len(mine):
            end = min(len(mine), first + random.randint(1, 5))
            report = CountReport(
                topic, tier, random.randrange(2) if not has_offsets else 0, first, end, 0, "here", BUCKET
            )
            report.epoch, report.counted_in, report.has_checksums = 0, random.randrange(2), has_checksums
            if not has_offsets:
                report.partition, report.first, report.end = NO_PARTITION, -1, -1
            for at, value in mine[first:end]:
                report.note(at, None, value)
            first = end
            reports.append(report)
        for _ in range(random.randrange(3)):  # written again, or by another process that did not know
            if reports:
                reports.insert(random.randrange(len(reports) + 1), random.choice(reports))
        for report in reports:
            report.time_ms = random.choice([500, 1500, 5000, 5000 + number, 9000])
        entries += reports
        if random.random() < 0.7:
            entries.append(Round(tier, "here", random.choice([400, 9000]), {topic: [0]}))
    if random.random() < 0.5:
        random.shuffle(entries)
    return entries


def frame(spark: SparkSession, entries: list[Entry], *more: bytes) -> DataFrame:
    rows: list[tuple[int, int, Any]] = [
        (0, at, bytearray(json.dumps(each.to_json()).encode())) for at, each in enumerate(entries)
    ]
    rows += [(0, len(rows) + at, bytearray(each)) for at, each in enumerate(more)]
    return spark.createDataFrame(rows, "tier_counts int, offset bigint, value binary")


@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"tiers": ("broker", "mirror", "sink")},
        {"tiers": ("sink", "broker")},
        {"counts_only": True},
        {"grace_ms": 3000},
        {"tiers": ("broker", "sink"), "now_ms": 1800},
    ],
    ids=str,
)
def test_both_balances_agree_about_any_counts(spark: SparkSession, terms: dict[str, Any]) -> None:
    from ottla.spark.audit.balance import Terms, balance

    random_one = random.Random(7)
    entries = [entry for case in range(CASES) for entry in random_entries(random_one, f"topic-{case}")]
    tier_counts = TierCounts()
    for each in entries:
        tier_counts.add(each)
    given = {"grace_ms": 0, **terms}
    expected = [finding for topic in tier_counts.topics for finding in tier_counts.balance(topic, **given)]
    assert len(expected) > 10
    assert balance(frame(spark, entries, b"", b"[1]", b"{}", b"\xff"), Terms(**given)) == sorted(expected)


def test_sums_of_checksums_wrap_around(spark: SparkSession) -> None:
    from ottla.spark.audit.balance import Terms, balance

    high = (1 << 64) - 1

    def report(tier: str, *checksums: int) -> list[CountReport]:
        return [
            CountReport("t", tier, NO_PARTITION, -1, -1, 9000, "here", BUCKET, {0: Counts(1, 1, each)})
            for each in checksums
        ]

    same = [*report("a", high, high, 5), *report("b", 3, high, 1)]
    assert balance(frame(spark, same), Terms(grace_ms=0)) == []
    other = [*report("a", high, 5), *report("b", 3, 2)]
    assert balance(frame(spark, other), Terms(grace_ms=0)) == [Finding("t", 0, "b", "a", SUBSTITUTION, 0, 2)]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as a, Broker() as b:
        yield a, b


def test_counts_of_two_clusters_are_watched_and_findings_come_and_go(
    spark: SparkSession, clusters: tuple[Broker, Broker]
) -> None:
    from ottla.spark.audit.balance import Terms
    from ottla.spark.audit.watch import FindingsTopic, watch

    east, west = (Cluster(Settings(parse_servers(each.bootstrap_servers))) for each in clusters)
    with closing(east), closing(west):
        for each in (east, west):
            ensure_audit_topic(each)
        sent, arrived = CountReport("orders", "east", 0, 0, 2, 5000, "here", BUCKET), None
        for value in (b"a", b"b"):
            sent.note(0, None, value)
        write_entries(east, [sent, Round("east", "here", 9000, {"orders": [0]})])
        arrived = CountReport("east.orders", "mirror", NO_PARTITION, -1, -1, 9000, "here", BUCKET)
        arrived.note(0, None, b"a")
        write_entries(west, [arrived])
        findings = FindingsTopic(east)
        findings.prepare()
        options = [{"kafka.bootstrap.servers": each.bootstrap_servers} for each in clusters]
        terms = Terms(("east", "mirror"), 0, known_as={"east.orders": "orders"})
        changes: list[tuple[list[Finding], list[Finding]]] = []
        watching = watch(
            spark, options, findings, terms, interval=0.5, on_change=lambda *each: changes.append(each)
        )
        try:
            lost = Finding("orders", 0, "mirror", "east", LOSS, 1, 2)
            wait_for(lambda: changes == [([lost], [])], "the loss was not found")
            assert list(findings.read().values()) == [lost]
            late = CountReport("east.orders", "mirror", NO_PARTITION, -1, -1, 9500, "here", BUCKET)
            late.note(0, None, b"b")
            write_entries(west, [late])
            wait_for(lambda: changes[1:] == [([], [lost])], "it was not settled")
            assert findings.read() == {}
        finally:
            watching.stop()
