"""Coroutine tests for this package: each runs on its own event loop."""

from __future__ import annotations

import asyncio
import inspect

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
def zookeeper(shared_zookeeper: ZooKeeper) -> ZooKeeper:
    """A ZooKeeper; each test has its own chroot."""
    return shared_zookeeper
