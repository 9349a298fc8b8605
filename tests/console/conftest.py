from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.console.browsing import Visitor


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"auto.create.topics.enable": "false"}, registry=True) as running:
        yield running


@pytest.fixture(scope="module")
def open_console(broker: Broker) -> Iterator[Callable[..., InBackground]]:
    """Opens consoles for the module's broker, with ConsoleSettings as arguments."""
    started: list[InBackground] = []

    def start(**settings: Any) -> InBackground:
        cluster = ClusterSettings(
            "local",
            {"bootstrap.servers": broker.bootstrap_servers},
            registry=broker.schema_registry_url,
            **settings.pop("cluster", {}),
        )
        given = ConsoleSettings((cluster,), port=0, lag_seconds=0.5, refresh_seconds=0.3, **settings)
        running = InBackground(lambda: Console(given), "console").start()
        started.append(running)
        return running

    yield start
    for each in started:
        each.stop()


@pytest.fixture(scope="module")
def console(open_console: Callable[..., InBackground]) -> InBackground:
    return open_console()


@pytest.fixture
def visitor(console: InBackground) -> Iterator[Visitor]:
    with Visitor(console.url) as visiting:
        yield visiting


@pytest.fixture
def names(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Unique names."""
    count = iter(range(1000))
    stem = request.node.name.removeprefix("test_")[:60].replace("[", "-").replace("]", "")
    return lambda: f"{stem}-{next(count)}"
