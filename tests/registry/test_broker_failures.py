"""Brokers fail under a registry: registered schemas stay registered."""

from __future__ import annotations

import threading

import pytest

from ottla.registry.settings import RegistrySettings
from ottla.testing import Cluster
from tests.registry.conftest import Api, in_background
from tests.registry.nodes import SETTINGS
from tests.registry.writers import Writer, check, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]


def settings(cluster: Cluster) -> RegistrySettings:
    return RegistrySettings.from_properties(
        {
            "kafkastore.bootstrap.servers": cluster.bootstrap_servers,
            "listeners": "http://127.0.0.1:0",
            **SETTINGS,
        }
    )


def test_nothing_is_lost_when_the_leader_of_the_topic_is_killed():
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    with Cluster(brokers=3, config={"group.min.session.timeout.ms": "1000"}) as cluster:
        stopping = threading.Event()
        with in_background(settings(cluster)) as one, in_background(settings(cluster)) as two:
            Api(one.url).id_of("first", '"int"')
            writers = [Writer(number, [one.url, two.url], stopping) for number in range(3)]

            def registered() -> int:
                return sum(len(each.registered) for each in writers)

            try:
                for writer in writers:
                    writer.start()
                for _ in range(2):
                    before = registered()
                    wait_until(lambda: registered() > before + 30, 60)  # noqa: B023
                    leader = cluster.leader("_schemas")
                    cluster.kill(leader)
                    before = registered()
                    wait_until(lambda: registered() > before + 30, 90)  # noqa: B023
                    cluster.restart(leader)
                    cluster.wait_for_isr("_schemas", {0, 1, 2})
            finally:
                stopping.set()
                for writer in writers:
                    writer.join()
            promised = {name: each for writer in writers for name, each in writer.registered.items()}
        with in_background(settings(cluster)) as fresh:
            check(promised, Api(fresh.url))
