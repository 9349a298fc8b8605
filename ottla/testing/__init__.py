"""A broker inside the test process.

    from ottla.testing import Broker

    with Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

It is the real broker on a real socket, with its data in a temporary directory that is removed at the end. With pytest,
the fixtures of `ottla.testing.pytest_plugin` are there as soon as Ottla is installed.

`Cluster(brokers=3)` is several of them, each a process of its own, with a real ZooKeeper; they can be killed, paused
and restarted one by one. With `faults=True` they can also be cut off from each other, their clocks can be wrong and
their disks full.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.protocol.errors import ErrorCode
    from ottla.testing.broker import Broker
    from ottla.testing.cluster import Cluster
    from ottla.testing.cluster_network import ZOOKEEPER
    from ottla.testing.security import acl
    from ottla.testing.zookeeper import ZooKeeper

__all__ = ["ZOOKEEPER", "Broker", "Cluster", "ErrorCode", "ZooKeeper", "acl"]

# Imported when used: a test with one broker needs nothing of clusters.
_MODULES = {
    "Broker": "ottla.testing.broker",
    "Cluster": "ottla.testing.cluster",
    "ErrorCode": "ottla.protocol.errors",
    "ZOOKEEPER": "ottla.testing.cluster_network",
    "ZooKeeper": "ottla.testing.zookeeper",
    "acl": "ottla.testing.security",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
