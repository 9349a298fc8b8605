"""Cluster metrics of the brokers: replication, elections and ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ottla.client import cluster as client
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.canary import Canary
from ottla.testing import Cluster
from ottla.testing.ports import ReservedPorts
from tests.broker.metrics.scraping import Metrics, get

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_a_broker_that_dies_is_seen_by_the_others() -> None:
    ports = ReservedPorts(3)
    broker_config = {place: {"metrics.port": str(port)} for place, port in enumerate(ports.numbers)}

    def scrape(broker: int) -> Metrics:
        return Metrics(get(f"http://127.0.0.1:{ports.numbers[broker]}/metrics")[2])

    def total(name: str, *brokers: int, **labels: str) -> float:
        return sum(scrape(broker).total(name, **labels) for broker in brokers or (0, 1, 2))

    with Cluster(3, broker_config=broker_config, config={"replica.lag.time.max.ms": "1500"}) as cluster:
        opened = client.Cluster(
            Settings(parse_servers(cluster.bootstrap_servers), request_timeout=10, api_timeout=20)
        )
        bird = Canary(opened, "canary")
        found = bird.round()
        assert (found.brokers, found.acknowledged, found.lost) == (3, 30, 0)
        manager, controller = "kafka_server_replicamanager", "kafka_controller_kafkacontroller"
        _until(lambda: total(f"{controller}_activecontrollercount") == 1)
        assert total(f"{manager}_underreplicatedpartitions") == 0
        assert total("ottla_zookeeper_connected") == 3
        assert total("kafka_network_requestmetrics_requests_total", request="FetchFollower") > 0
        of_topic = {"topic": "canary"}
        counted = "kafka_server_brokertopicmetrics"
        assert total(f"{counted}_messagesin_total", **of_topic) == 30
        written = total(f"{counted}_bytesin_total", **of_topic)
        _until(lambda: total(f"{counted}_replicationbytesin_total", **of_topic) == 2 * written)
        assert total(f"{counted}_replicationbytesout_total", **of_topic) == 2 * written
        remote = "kafka_network_requestmetrics_remotetimems_sum"
        assert total(remote, request="Produce") > 0

        cluster.kill(0)
        _until(lambda: total(f"{manager}_underreplicatedpartitions", 1, 2) > 0)
        _until(lambda: total(f"{manager}_leadercount", 1, 2) >= 3)
        stats = "kafka_controller_controllerstats"
        _until(lambda: total(f"{stats}_leaderelectionrateandtimems_count", 1, 2) >= 1)
        assert total(f"{stats}_uncleanleaderelections_total", 1, 2) == 0
        assert total(f"{controller}_activebrokercount", 1, 2) >= 2
        assert bird.round().lost == 0

        cluster.restart(0)
        _until(lambda: total(f"{manager}_underreplicatedpartitions") == 0)
        assert total(f"{manager}_isrexpands_total") >= 1
        assert bird.round().lost == 0
        opened.close()


def _until(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
