"""Promise: wherever in a batch the driver dies, the restarted query ends with every row once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from ottla.testing import Broker
from tests.spark.consuming import consume
from tests.spark.crashing import POINTS
from tests.spark.driver_process import DriverProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

PER_BATCH = 10


class Killed:
    """A query that is killed repeatedly, each time at the next point of its next batch."""

    def __init__(self, broker: Broker, directory: Path, pipeline: str) -> None:
        self._broker = broker
        self._directory = directory
        self._pipeline = pipeline
        broker.create_topic("events", partitions=2)
        broker.create_topic(pipeline, partitions=3)
        self._options = {
            "servers": broker.bootstrap_servers,
            "master": "local[2]",
            "per_batch": str(PER_BATCH),
            "checkpoint": str(directory / "checkpoint"),
        }
        self.fed = 0

    def feed(self) -> None:
        for number in range(self.fed, self.fed + 2 * PER_BATCH):
            self._broker.produce("events", b"v%d" % number, key=b"%d" % number, partition=number % 2)
        self.fed += 2 * PER_BATCH

    def written(self) -> Counter[bytes]:
        found = consume(self._broker.bootstrap_servers, self._pipeline)
        return Counter(message.value() for message in found)

    def at_every_point(self) -> None:
        for point in POINTS:
            self.feed()
            driver = DriverProcess(self._directory, {**self._options, "crash": point}, self._pipeline)
            assert driver.wait(300) != 0, f"not killed {point}: {driver.output.read_text()}"
            assert max(self.written().values(), default=1) == 1, point
        self.feed()
        driver = DriverProcess(self._directory, self._options, self._pipeline)
        assert driver.wait(300) == 0, driver.output.read_text()


def test_a_driver_that_dies_at_every_step_of_a_batch(fresh_ottla_broker: Broker, tmp_path: Path) -> None:
    killed = Killed(fresh_ottla_broker, tmp_path, "stateless")
    killed.at_every_point()
    assert killed.written() == Counter(b"V%d" % number for number in range(killed.fed))


def test_a_driver_that_dies_at_every_step_of_an_update(fresh_ottla_broker: Broker, tmp_path: Path) -> None:
    """Update mode with foreachBatch: the counts after each batch, once."""
    killed = Killed(fresh_ottla_broker, tmp_path, "counted")
    killed.at_every_point()
    each = PER_BATCH // 2
    assert killed.written() == Counter(
        b"%d:%d" % (key, n) for key in (0, 1) for n in range(each, killed.fed // 2 + 1, each)
    )
