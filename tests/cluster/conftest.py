"""Fixtures for cluster tests. A test may be a coroutine; each runs on its own event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator

import pytest
import uvloop
from kazoo.client import KazooClient

from ottla.testing import Cluster


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # the event loop of a real broker
        runner.run(pyfuncitem.obj(**arguments))
    return True


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
