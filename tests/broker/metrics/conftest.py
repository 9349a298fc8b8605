from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"metrics.port": "0"}) as running:
        yield running
