"""Tests of this package may be coroutines: each runs on an event loop of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from ottla.testing import ZooKeeper


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """One server for all tests; each has a root of its own in it."""
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    with ZooKeeper() as server:
        yield server
