"""Sinks and mirrors as tiers of the count audit: reports exist if and only if the records do. Without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from ottla.client import cluster as clusters
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.settings import Settings, parse_servers
from ottla.client.transactions import TransactionClient
from ottla.mirror.raw_copy import CopyRange, copy_range
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC, ensure_audit_topic, read_tier_counts
from ottla.monitoring.audit.counting import BadAuditOption, Tier, count_topic, parse_tier
from ottla.monitoring.audit.tier_counts import DUPLICATION, Finding, TierCounts
from ottla.spark.options import OptionError
from ottla.spark.sink.exactly_once.task_transaction import Attempt
from ottla.spark.sink.sink_options import parse_sink_options
from ottla.spark.sink.task import prepare_rows, write_rows
from ottla.testing import Broker

BUCKET = 1000
MOMENT = 1_700_000_000_000
LATER = {"grace_ms": 0}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(autouse=True)
def no_connections_left() -> Iterator[None]:
    yield
    while clusters._clusters:
        clusters._clusters.popitem()[1].close()


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with closing(Cluster(Settings(parse_servers(broker.bootstrap_servers)))) as opened:
        ensure_audit_topic(opened)
        yield opened


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, 2)
    return name


def rows(count: int) -> pa.RecordBatch:
    times = pa.array([(MOMENT + each * 300) * 1000 for each in range(count)], pa.timestamp("us", "UTC"))
    return pa.record_batch(
        {
            "key": pa.array([f"k{each}" if each % 3 else None for each in range(count)]),
            "value": pa.array([b"v%d" % each for each in range(count)]),
            "timestamp": times,
        }
    )


def options(broker: Broker, topic: str, **more: str):
    return parse_sink_options(
        {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "topic": topic,
            "ottla.audit.enable": "true",
            "ottla.audit.bucket.ms": str(BUCKET),
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def counts_with(cluster: Cluster, *topics: tuple[str, str]) -> TierCounts:
    """Return the audit topic's reports and the topics' current contents, under the tier_counts' names."""
    tier_counts = read_tier_counts(cluster)
    for name, known_as in topics:
        for report in count_topic(cluster, name, Tier("log", BUCKET, known_as), tier_counts):
            tier_counts.add(report)
    return tier_counts


def counted(tier_counts: TierCounts, topic: str, tier: str) -> int:
    return sum(each.count for each in tier_counts.counts.get((topic, tier), {}).values())


def test_the_rows_of_a_task_are_counted_as_they_are_in_the_topic(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    assert write_rows(options(broker, topic), iter([rows(20)])) == 20
    tier_counts = counts_with(cluster, (topic, topic))
    assert counted(tier_counts, topic, "spark") == 20
    assert len(tier_counts.counts[topic, "spark"]) == 6
    assert tier_counts.balance(topic, ("spark", "log"), grace_ms=0) == []


def test_a_task_goes_on_after_its_broker_was_away(topic: str, tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic(topic, 2)
        assert write_rows(options(broker, topic), iter([rows(5)])) == 5
        broker.restart()
        assert write_rows(options(broker, topic), iter([rows(5)])) == 5
        with closing(Cluster(Settings(parse_servers(broker.bootstrap_servers)))) as cluster:
            assert counted(read_tier_counts(cluster), topic, "spark") == 10


def test_pages_are_committed_with_the_rows_and_aborted_with_them(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    exactly_once = options(broker, topic, ottla_delivery="exactly-once", ottla_audit_tier="pipeline")
    client = TransactionClient(cluster)
    for batch, commit in enumerate((True, False, True)):
        attempt = Attempt(f"query-{topic}", 1, batch)
        count, transaction = prepare_rows(exactly_once, iter([rows(4)]), attempt)
        assert count == 4
        assert transaction is not None
        client.end([transaction], commit=commit)
    tier_counts = counts_with(cluster, (topic, topic))
    assert counted(tier_counts, topic, "pipeline") == 8
    assert tier_counts.balance(topic, ("pipeline", "log"), grace_ms=0) == []


def test_rows_that_are_written_twice_are_a_duplication(broker: Broker, cluster: Cluster, topic: str) -> None:
    write_rows(options(broker, topic, ottla_audit_tier="first"), iter([rows(3)]))
    copy = f"{topic}-copy"
    broker.create_topic(copy)
    for _ in range(2):
        write_rows(
            options(broker, copy, ottla_audit_tier="second", ottla_audit_known_as=topic), iter([rows(3)])
        )
    found = counts_with(cluster).balance(topic, ("first", "second"), grace_ms=0)
    assert found == [Finding(topic, MOMENT, "second", "first", DUPLICATION, -3, 3)]


@pytest.mark.parametrize("checksums", [True, False])
def test_a_mirror_counts_batches_as_it_sends_them_on(
    broker: Broker, cluster: Cluster, topic: str, checksums: bool
) -> None:
    plain = parse_sink_options({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic})
    large = pa.record_batch(
        {
            "value": pa.array([b"x" * 2000] * 20),
            "timestamp": pa.array([MOMENT * 1000] * 20, pa.timestamp("us", "UTC")),
        }
    )
    for each in (rows(7), large, rows(5)):  # small batches are rewritten, large ones forwarded
        write_rows(plain, iter([each]))
    remote = f"east.{topic}"
    broker.create_topic(remote, 2)
    client = TransactionClient(cluster)
    transaction = client.begin(f"mirror {topic}", 60_000)
    settings = Settings(parse_servers(broker.bootstrap_servers))
    tier = Tier("mirror", BUCKET, has_checksums=checksums)
    tier_counts = counts_with(cluster, (topic, topic))
    for partition in range(2):
        place = TopicPartition(topic, partition)
        end = tier_counts.position(topic, "log", partition, cluster.topics([topic])[topic].topic_id.hex())
        wanted = CopyRange(place, 0, end.end if end else 0, TopicPartition(remote, partition), False)
        for report in copy_range(
            settings, settings, transaction, wanted, skip_gaps=False, audit=tier
        ).reports:
            tier_counts.add(report)
    client.end([transaction], commit=True)
    assert counted(tier_counts, topic, "mirror") == 32
    assert tier_counts.balance(topic, ("log", "mirror"), grace_ms=0) == []


def test_what_makes_no_sense_is_named(broker: Broker) -> None:
    assert parse_tier({}, "spark") is None
    assert parse_tier({"ottla.audit.enable": "TRUE"}, "spark") == Tier("spark")
    with pytest.raises(
        BadAuditOption, match=r"ottla.audit.bucket.ms must be a number of milliseconds, not '0'"
    ):
        parse_tier({"ottla.audit.enable": "true", "ottla.audit.bucket.ms": "0"}, "spark")
    with pytest.raises(OptionError, match=r"ottla.audit.enable must be true or false, not '1'"):
        options(broker, "t", ottla_audit_enable="1")
    assert parse_sink_options({"kafka.bootstrap.servers": "h:1", "topic": "t"}).audit is None
    assert AUDIT_TOPIC == "__ottla_audit"
