from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from ottla.testing import Broker
from tests.broker.transactions.wire_producer import NONE, MakeProducer, WireProducer
from tests.wire_client import WireClient


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"num.partitions": "1"}) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"t-{uuid.uuid4()}"
    broker.create_topic(name, 2)
    return name


@pytest.fixture(params=[False, True], ids=["v1", "v2"])
def v2(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def producer(broker: Broker, client: WireClient) -> MakeProducer:
    def make(transactional_id: str | None = None, *, v2: bool = False, init: bool = True) -> WireProducer:
        made = WireProducer(client, transactional_id or f"x-{uuid.uuid4()}", v2=v2)
        if init:
            assert made.init() is NONE
        return made

    return make
