"""Fixtures for cluster tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from ottla.testing import Cluster


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """Three brokers with default settings, shared by all tests of a module."""
    with new_cluster(3) as running:
        yield running


@pytest.fixture
def everybody_back(cluster: Cluster) -> Iterator[None]:
    """Restart the brokers that a test has stopped."""
    yield
    for broker_id in cluster.ports:
        if broker_id not in cluster.running():
            cluster.restart(broker_id)


@pytest.fixture
def zookeeper(cluster: Cluster) -> Iterator[KazooClient]:
    """The test's own session with the cluster's ZooKeeper."""
    client = KazooClient(cluster.zookeeper.connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()
