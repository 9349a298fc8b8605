"""One of three replicas is damaged while its broker is down: no record is lost, and the replica recovers."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.testing import Cluster
from tests.cluster.faults.test_losing_data import send
from tests.cluster.load import read_all
from tests.faults.damage import Damage, damage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

BROKERS = {0, 1, 2}
# Without meta.properties a broker does not know its identity; it refuses to start and says so.
KINDS = [
    "log", "index", "time index", "snapshot", "leader epochs", "partition metadata", "manifest", "recovery points",
    "log starts", "high watermarks", "clean shutdown", "live ends", "mark",
]  # fmt: skip
MANY = int(os.environ.get("OTTLA_DAMAGE_CASES", "5000")) // 250


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(3, config={"zookeeper.session.timeout.ms": "3000"}) as running:
        yield running


def strike(cluster: Cluster, broker: int, how: Callable[[Path], object], *, clean: bool) -> None:
    cluster.stop(broker) if clean else cluster.kill(broker)
    how(cluster.directory(broker))
    cluster.restart(broker)


@pytest.mark.parametrize("clean", [True, False])
def test_a_replica_that_lost_its_end_is_fetched_again_from_the_leader(cluster: Cluster, clean: bool) -> None:
    topic = f"cut-{clean}"
    cluster.create_topic(topic)
    send(cluster, topic, range(100))
    cluster.wait_for_isr(topic, BROKERS)
    broker = cluster.leader(topic)

    def cut(directory: Path) -> None:
        log = max((directory / f"{topic}-0").glob("*.log"))
        os.truncate(log, log.stat().st_size // 2)

    strike(cluster, broker, cut, clean=clean)
    cluster.wait_for_isr(topic, BROKERS, seconds=60)
    assert list(cluster.directory(broker).glob(f"{topic}-0.*-stray")), "the damaged files are gone"
    others = BROKERS - {broker}
    for other in others:
        cluster.stop(other)
    try:
        cluster.wait_until(lambda: cluster.leader(topic) == broker, "the replica leads")
        assert read_all(cluster.bootstrap_servers, topic) == list(range(100))
    finally:
        for other in others:
            cluster.restart(other)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(MANY))
def test_whatever_happens_to_a_replica_the_cluster_keeps_every_record(cluster: Cluster, seed: int) -> None:
    rng = random.Random(seed)
    topic = f"damaged-{seed}"
    cluster.create_topic(topic)
    send(cluster, topic, range(100))
    cluster.wait_for_isr(topic, BROKERS)
    broker = rng.choice([cluster.leader(topic), *BROKERS])
    done: list[Damage] = []
    strike(
        cluster,
        broker,
        lambda directory: done.append(damage(directory, rng, KINDS)),
        clean=rng.random() < 0.5,
    )
    print(f"seed {seed}: broker {broker}, {done[0]}")
    cluster.wait_for_isr(topic, BROKERS, seconds=60)
    send(cluster, topic, range(100, 150))
    assert read_all(cluster.bootstrap_servers, topic) == list(range(150))
    for other in BROKERS - {broker}:
        cluster.restart(other)
    cluster.wait_for_isr(topic, BROKERS, seconds=60)
    assert read_all(cluster.bootstrap_servers, topic) == list(range(150))
