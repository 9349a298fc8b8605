from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx
import pytest

from ottla.http.background import InBackground
from ottla.rest.server import RestProxy
from ottla.rest.settings import RestSettings
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"auto.create.topics.enable": "false"}) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(broker: Broker) -> Iterator[InBackground]:
    settings = RestSettings(
        {"bootstrap.servers": broker.bootstrap_servers}, port=0, consumer_instance_timeout=60
    )
    with InBackground(lambda: RestProxy(settings), "rest") as running:
        yield running


@pytest.fixture
def http(proxy: InBackground) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=proxy.url, timeout=30) as client:
        yield client


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"t-{uuid.uuid4()}"
    broker.create_topic(name, 2)
    return name
