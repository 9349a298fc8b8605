"""Count the topics of a live broker, and find the errors of a copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ottla.cli.jobs.audit import AuditTerms
from ottla.cli.options import make_client
from ottla.client.cluster import Cluster
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.audit.audit_topic import ensure_audit_topic, read_tier_counts, write_entries
from ottla.monitoring.audit.counting import Compacted, Tier, count_topic
from ottla.monitoring.audit.metrics import AuditMetrics
from ottla.monitoring.audit.tier_counts import DUPLICATION, LOSS, SUBSTITUTION, Finding
from ottla.testing import Broker
from tests.broker.metrics.scraping import Metrics

BUCKET = 1000
MOMENT = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    opened = Cluster(Settings(parse_servers(broker.bootstrap_servers)))
    yield opened
    opened.close()


def count(
    cluster: Cluster, topic: str, tier: str, known_as: str | None = None, tier_counts: str = "tier_counts"
) -> int:
    """Return the counted records."""
    ensure_audit_topic(cluster, tier_counts)
    reports = list(
        count_topic(cluster, topic, Tier(tier, BUCKET, known_as), read_tier_counts(cluster, tier_counts))
    )
    write_entries(cluster, reports, tier_counts)
    return sum(each.count for report in reports for each in report.buckets.values())


def test_loss_duplication_and_substitution_are_found_with_their_bucket(
    broker: Broker, cluster: Cluster
) -> None:
    broker.create_topic("orders", 2)
    broker.create_topic("copy", 1)
    for place in range(40):
        value = f"value {place}".encode()
        when = MOMENT + place * 100
        broker.produce("orders", value, key=b"k", partition=place % 2, timestamp=when)
        if place == 5:
            continue  # a lost record
        broker.produce("copy", b"other" if place == 25 else value, key=b"k", timestamp=when)
        if place == 17:
            broker.produce("copy", value, key=b"k", timestamp=when)
    assert count(cluster, "orders", "source") == 40
    assert count(cluster, "copy", "mirror", "orders") == 40
    found = read_tier_counts(cluster, "tier_counts").balance("orders", grace_ms=0)
    assert [(each.bucket_ms - MOMENT, each.tier, each.kind, each.missing) for each in found] == [
        (0, "mirror", LOSS, 1),
        (1000, "mirror", DUPLICATION, -1),
        (2000, "mirror", SUBSTITUTION, 0),
    ]


def test_the_counts_are_metrics_as_well(broker: Broker, cluster: Cluster) -> None:
    broker.create_topic("shown")
    metrics = AuditMetrics(cluster, "shown-tier_counts", grace_ms=0)
    assert metrics.lines() == []
    for place in range(3):
        broker.produce("shown", str(place).encode(), timestamp=MOMENT)
    count(cluster, "shown", "source", tier_counts="shown-tier_counts")
    broker.create_topic("empty")
    count(cluster, "empty", "mirror", "shown", tier_counts="shown-tier_counts")
    for _ in range(2):  # the second run adds nothing
        found = Metrics("".join(metrics.lines()))
        assert found.value("ottla_audit_records_total", topic="shown", tier="source") == 3
        assert found.value("ottla_audit_missing_records", topic="shown", tier="mirror", kind=LOSS) == 3
        assert found.value("ottla_audit_unbalanced_buckets", topic="shown", tier="mirror", kind=LOSS) == 1


def test_counting_goes_on_where_it_stopped_and_a_clean_copy_balances(
    broker: Broker, cluster: Cluster
) -> None:
    for topic in ("clean", "clean-copy"):
        broker.create_topic(topic)
    for some in (range(5), range(5, 12), range(0)):
        for place in some:
            for topic in ("clean", "clean-copy"):
                broker.produce(topic, str(place).encode(), timestamp=MOMENT + place)
        assert count(cluster, "clean", "source", tier_counts="more") == len(some)
        assert count(cluster, "clean-copy", "mirror", "clean", tier_counts="more") == len(some)
    tier_counts = read_tier_counts(cluster, "more")
    assert tier_counts.balance("clean", grace_ms=0) == []
    [topic_id] = [each.topic_id for each in cluster.topics(["clean"]).values()]
    position = tier_counts.position("clean", "source", 0, topic_id.hex())
    assert position is not None
    assert position.end == 12


def test_aborted_records_do_not_count(broker: Broker, cluster: Cluster) -> None:
    broker.create_topic("transactions")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "audit-test"})
    producer.init_transactions(20)
    for place in range(6):
        producer.begin_transaction()
        producer.produce("transactions", str(place).encode())
        if place % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    assert count(cluster, "transactions", "source", tier_counts="transacted") == 3
    assert count(cluster, "transactions", "source", tier_counts="transacted") == 0


def test_compacted_topics_are_refused(broker: Broker, cluster: Cluster) -> None:
    broker.create_topic("table", config={"cleanup.policy": "compact"})
    with pytest.raises(Compacted, match="go by design"):
        count(cluster, "table", "source")


def test_counts_of_several_clusters_are_compared_and_topics_renamed(broker: Broker, cluster: Cluster) -> None:
    with Broker() as other:
        mirrored = Cluster(Settings(parse_servers(other.bootstrap_servers)))
        broker.create_topic("payments")
        other.create_topic("east.payments")
        for place in range(5):
            broker.produce("payments", b"%d" % place, timestamp=MOMENT)
            if place != 3:
                other.produce("east.payments", b"%d" % place, timestamp=MOMENT)
        count(cluster, "payments", "east", tier_counts="east-tier_counts")
        count(mirrored, "east.payments", "west", tier_counts="east-tier_counts")
        mirrored.close()
        first = make_client(broker.bootstrap_servers, None, 10)
        terms = AuditTerms(
            first,
            counts_at=[other.bootstrap_servers],
            counts_config=None,
            audit_topic="east-tier_counts",
            tiers="east, west",
            known_as={"east.payments": "payments"},
            grace=0,
            counts_only=False,
            until_now=False,
            master=None,
        )
        terms.check()
        assert terms.here() == [Finding("payments", MOMENT, "west", "east", LOSS, 1, 5)]
        terms.close()
        first.close()
