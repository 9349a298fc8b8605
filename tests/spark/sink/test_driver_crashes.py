"""Promise: wherever in a batch the driver dies, the query that is started again ends with every row once."""

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


def test_a_driver_that_dies_at_every_step_of_a_batch(fresh_ottla_broker: Broker, tmp_path: Path) -> None:
    """One query, killed in its next batch at the next point, again and again."""
    broker = fresh_ottla_broker
    broker.create_topic("events", partitions=2)
    broker.create_topic("stateless", partitions=3)
    options = {
        "servers": broker.bootstrap_servers,
        "master": "local[2]",
        "per_batch": str(PER_BATCH),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    fed = 0

    def feed() -> None:
        nonlocal fed
        for number in range(fed, fed + 2 * PER_BATCH):
            broker.produce("events", b"v%d" % number, key=b"%d" % number, partition=number % 2)
        fed += 2 * PER_BATCH

    def written() -> Counter[bytes]:
        return Counter(message.value() for message in consume(broker.bootstrap_servers, "stateless"))

    for point in POINTS:
        feed()
        driver = DriverProcess(tmp_path, {**options, "crash": point}, "stateless")
        assert driver.wait(300) != 0, f"not killed {point}: {driver.output.read_text()}"
        assert max(written().values(), default=1) == 1, point
    feed()
    driver = DriverProcess(tmp_path, options, "stateless")
    assert driver.wait(300) == 0, driver.output.read_text()
    assert written() == Counter(b"V%d" % number for number in range(fed))
