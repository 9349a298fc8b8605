from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.testing import Broker

INTERVAL_MS = 100


def tiered_config(remote: Path) -> dict[str, str]:
    return {
        "remote.log.storage.system.enable": "true",
        "ottla.remote.storage.uri": f"file://{remote}",
        "ottla.remote.storage.chunk.bytes": "4096",
        "remote.log.manager.task.interval.ms": str(INTERVAL_MS),
        "log.retention.check.interval.ms": str(INTERVAL_MS),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    }


TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "2000",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "0",
    "index.interval.bytes": "200",
}


def eventually(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("remote")


@pytest.fixture(scope="module")
def broker(remote: Path) -> Iterator[Broker]:
    with Broker(config=tiered_config(remote)) as running:
        yield running


def log_of(broker: Broker, topic: str, partition: int = 0):
    return broker._server.broker.replicas.topic(topic)[partition].log
