from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing import Broker
from tests.wire_client import WireClient


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"num.partitions": "1"}) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected
