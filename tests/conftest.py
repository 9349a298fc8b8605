from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, settings

from ottla.testing import Cluster, ZooKeeper

pytest_plugins = ["pytester", "tests.spark_fixtures"]

# The machine may be shared with other runs, so a slow example is no failure.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")

# Brokers and tools start twice as fast with cached bytecode. If it must not be written beside the sources, it goes to
# the caches.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")

# A shell starts background jobs with SIGINT ignored, and children inherit that. They do not inherit a handler, so with
# one installed here, tests can send them Ctrl-C while this process still ignores it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda _number, _frame: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run modules with clusters first. They take longest, and no worker should end long after the others."""
    items.sort(key=lambda item: item.get_closest_marker("cluster") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # the event loop of a real broker
        runner.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Restore logging. A command run in this process logs to its test's stream, which is closed afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if root.handlers != handlers:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture(scope="session")
def shared_zookeeper() -> Iterator[ZooKeeper]:
    """One server for all tests that do not stop it. Each cluster has its own chroot."""
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    with ZooKeeper() as running:
        yield running


@pytest.fixture(scope="session")
def new_cluster(shared_zookeeper: ZooKeeper) -> Callable[..., Cluster]:
    """`Cluster`, with the shared ZooKeeper."""

    def make(brokers: int, **options: Any) -> Cluster:
        return Cluster(brokers, zookeeper=shared_zookeeper.chroot(), **options)

    return make
