from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.connect.worker.workers import Worker, distributed_properties


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def worker(broker: Broker) -> Iterator[Worker]:
    with Worker(distributed_properties(broker.bootstrap_servers)) as worker:
        worker.wait_until_ready()
        yield worker


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("a\nb\n")
    return file
