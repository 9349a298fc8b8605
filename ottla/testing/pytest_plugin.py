"""pytest fixtures, available as soon as Ottla is installed.

- `ottla_broker`: one broker for the whole run. Override `ottla_broker_config` to give it keys of server.properties.
- `ottla_bootstrap_servers`: its address.
- `ottla_topic`: the name of a new topic with one partition, for one test.
- `fresh_ottla_broker`: a broker for one test alone, for faults and restarts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import Broker


@pytest.fixture(scope="session")
def ottla_broker_config() -> dict[str, str]:
    return {}


@pytest.fixture(scope="session")
def ottla_broker(ottla_broker_config: dict[str, str]) -> Iterator[Broker]:
    from ottla.testing.broker import Broker

    with Broker(config=ottla_broker_config) as broker:
        yield broker


@pytest.fixture(scope="session")
def ottla_bootstrap_servers(ottla_broker: Broker) -> str:
    return ottla_broker.bootstrap_servers


@pytest.fixture
def ottla_topic(ottla_broker: Broker) -> str:
    name = f"topic-{uuid.uuid4().hex[:12]}"
    ottla_broker.create_topic(name)
    return name


@pytest.fixture
def fresh_ottla_broker(ottla_broker_config: dict[str, str]) -> Iterator[Broker]:
    from ottla.testing.broker import Broker

    with Broker(config=ottla_broker_config) as broker:
        yield broker
