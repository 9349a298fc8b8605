"""Run each example unchanged: events into a real broker, the pipeline on Spark, and then read its topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"

# A whole minute, so that windows start at the first event.
START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def _load(name: str, file: Path) -> Any:
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


feed = _load("examples_feed", EXAMPLES / "feed.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "example" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300))


class Example:
    """One example with its own broker."""

    def __init__(self, name: str, spark: SparkSession, broker: Broker, checkpoints: Path) -> None:
        self.folder = EXAMPLES / name
        self.spark = spark
        self.broker = broker
        self.generate = feed.generator(name)
        self._partitions = {
            topic: int(config.get("partitions", "1")) for topic, config in self.generate.TOPICS.items()
        }
        self._settings = {
            "spark.ottla.bootstrap.servers": broker.bootstrap_servers,
            "spark.ottla.checkpoints": str(checkpoints),
            "spark.ottla.trigger": "available-now",
        }
        feed.create_topics(broker.bootstrap_servers, self.generate.TOPICS)
        for key, value in self._settings.items():
            spark.conf.set(key, value)

    def set(self, key: str, value: str) -> None:
        self._settings[key] = value
        self.spark.conf.set(key, value)

    def close(self) -> None:
        for key in self._settings:
            self.spark.conf.unset(key)

    def module(self, name: str) -> Any:
        """Import a file of the example."""
        return _load(f"{self.folder.name}_{name}", self.folder / f"{name}.py")

    def events(self, count: int, seconds: float, seed: int = 7) -> list[Any]:
        """Return the first events of the example, spaced by this many seconds."""
        return list(islice(self.generate.events(seed, feed.steps(START, seconds)), count))

    def send(self, events: list[Any]) -> None:
        feed.send(self.broker.bootstrap_servers, events)

    def run(self) -> None:
        """Process the current contents of the topics, like `ottla pipeline run --available-now`."""
        from ottla.spark.pipelines.loading import load

        queries = load(self.folder / "pipeline.py")(self.spark, self.broker.bootstrap_servers)
        try:
            for query in queries:
                query.awaitTermination()
        finally:
            for query in queries:
                query.stop()

    def records(self, topic: str) -> list[tuple[str | None, Any]]:
        """Return keys and values of all partitions, each in order."""
        return [
            (
                None if record.key is None else bytes(record.key).decode(),
                None if record.value is None else json.loads(bytes(record.value)),
            )
            for partition in range(self._partitions.get(topic, 1))
            for record in self.broker.records(topic, partition)
        ]

    def values(self, topic: str) -> list[Any]:
        return [value for _, value in self.records(topic)]

    def latest(self, topic: str) -> dict[str | None, Any]:
        """Return the last value of each key, like a compacted topic."""
        return {key: value for key, value in dict(self.records(topic)).items() if value is not None}


@pytest.fixture
def example(
    spark: SparkSession,
    fresh_ottla_broker: Broker,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Example]:
    """The example named like the test module."""
    name = Path(request.module.__file__).stem.removeprefix("test_")
    running = Example(name, spark, fresh_ottla_broker, tmp_path / "checkpoints")
    yield running
    running.close()
