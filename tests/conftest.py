from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ottla.testing import Cluster, ZooKeeper

pytest_plugins = ["pytester", "tests.spark_fixtures"]

# The machine may be shared with other runs: an example that takes long is no failure.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")

# Brokers and tools start in half the time when they find their bytecode. Where it must not be written beside the
# sources, it goes to the caches.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")

# A shell starts what runs in its background with SIGINT ignored, and children inherit that. They do not inherit a
# handler: so Ctrl-C can be sent to them, and is still ignored here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda _number, _frame: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with clusters take longest: they come first, so that no worker ends long after the others."""
    items.sort(key=lambda item: item.get_closest_marker("cluster") is None)


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """A command that is run in this process logs to the stream of its test, which is closed afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if root.handlers != handlers:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture(scope="session")
def shared_zookeeper() -> Iterator[ZooKeeper]:
    """One server for all tests that do not stop it. Each cluster has a root of its own in it."""
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    with ZooKeeper() as running:
        yield running


@pytest.fixture(scope="session")
def new_cluster(shared_zookeeper: ZooKeeper) -> Callable[..., Cluster]:
    """`Cluster`, with the shared ZooKeeper."""

    def make(brokers: int, **options: Any) -> Cluster:
        return Cluster(brokers, zookeeper=shared_zookeeper.chroot(), **options)

    return make
