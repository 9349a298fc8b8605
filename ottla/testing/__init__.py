"""A broker inside the test process.

    from ottla.testing import Broker

    with Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

This is the real broker on a real socket, with its data in a temporary directory. pytest finds the fixtures of
`ottla.testing.pytest_plugin` as soon as Ottla is installed.

`Cluster(brokers=3)` runs several brokers in separate processes, with a real ZooKeeper. Tests can kill, pause and
restart them one by one. With `faults=True` tests can also cut connections, skew clocks and fill disks.
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

# Imported on demand: a test with one broker does not need the cluster code.
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
