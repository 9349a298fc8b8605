"""Promise: a canary notices the loss of acknowledged records after an unclean election."""

from __future__ import annotations

import time

import pytest

from ottla.client import cluster as client
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.audit.audit_topic import ensure_audit_topic, read_tier_counts, write_entries
from ottla.monitoring.audit.counting import Tier, count_topic
from ottla.monitoring.audit.tier_counts import TierCounts
from ottla.monitoring.canary import Canary
from ottla.testing import Cluster
from ottla.testing.ports import ReservedPorts
from tests.broker.metrics.scraping import Metrics, get

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_an_unclean_election_is_a_loss() -> None:
    [port] = ReservedPorts(1).numbers
    config = {"unclean.leader.election.enable": "true"}
    with Cluster(2, config=config, broker_config={1: {"metrics.port": str(port)}}) as cluster:
        opened = client.Cluster(
            Settings(parse_servers(cluster.bootstrap_servers), request_timeout=5, api_timeout=20)
        )
        bird = Canary(opened, "canary", records=10)
        assert bird.round().lost == 0
        cluster.kill(1)
        found = bird.round()
        until = time.monotonic() + 60
        while found.acknowledged < 20:  # broker 0 leads both partitions, and is alone in sync
            assert time.monotonic() < until
            found = bird.round()
        assert found.lost == 0
        cluster.kill(0)
        cluster.restart(1)
        lost = 0
        while not lost:  # broker 1 must be elected although it is out of sync
            assert time.monotonic() < until
            try:
                lost = bird.round().lost
            except client.ClientError:
                time.sleep(0.1)
        assert lost >= 10
        metrics = Metrics(get(f"http://127.0.0.1:{port}/metrics")[2])
        assert metrics.value("kafka_controller_controllerstats_uncleanleaderelections_total") >= 1
        cluster.restart(0)
        opened.close()


def test_the_counts_show_the_loss_of_an_unclean_election() -> None:
    """The first tier counted the records before the loss; the second counts the remaining records."""
    with Cluster(2, config={"unclean.leader.election.enable": "true"}) as cluster:
        opened = client.Cluster(
            Settings(parse_servers(cluster.bootstrap_servers), request_timeout=5, api_timeout=20)
        )
        bird = Canary(opened, "canary", records=10)
        bird.round()
        cluster.kill(1)
        until = time.monotonic() + 60
        while bird.round().acknowledged < 20:
            assert time.monotonic() < until
        tier = Tier("before", bucket_ms=86_400_000)
        before = list(count_topic(opened, "canary", tier, TierCounts()))
        cluster.kill(0)
        cluster.restart(1)
        while not _is_led(opened):
            assert time.monotonic() < until
            time.sleep(0.1)
        ensure_audit_topic(opened, "audit-counts")
        write_entries(opened, before, "audit-counts")
        tier_counts = read_tier_counts(opened, "audit-counts")
        write_entries(
            opened, count_topic(opened, "canary", Tier("after", tier.bucket_ms), tier_counts), "audit-counts"
        )
        found = read_tier_counts(opened, "audit-counts").balance(
            "canary", ("before", "after"), grace_ms=-2 * tier.bucket_ms
        )
        assert [(each.tier, each.kind) for each in found] == [("after", "loss")]
        assert found[0].missing >= 10
        cluster.restart(0)
        opened.close()


def _is_led(opened: client.Cluster) -> bool:
    try:
        opened.forget_nodes()
        found = opened.topics(["canary"])
        return bool(found) and set(found["canary"].leaders.values()) == {1}
    except client.ClientError:
        return False
