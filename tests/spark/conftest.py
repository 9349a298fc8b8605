"""What the tests of pipelines share. Those that ask for `spark` start a JVM, and only `make test-spark` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    pytest.importorskip("pyspark")
    from ottla.spark import session

    spark = session(
        "tests",
        master="local[2]",
        config={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.driver.memory": "1g",
        },
    )
    yield spark
    spark.stop()


class Source:
    """Reads from one broker."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str) -> None:
        self._spark = spark
        self._bootstrap_servers = bootstrap_servers

    def options(self, options: dict[str, Any]) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self._bootstrap_servers,
            **{name.replace("__", "."): str(value) for name, value in options.items()},
        }

    def batch(self, **options: Any) -> DataFrame:
        return self._spark.read.format("ottla").options(**self.options(options)).load()

    def stream(self, **options: Any) -> DataFrame:
        return self._spark.readStream.format("ottla").options(**self.options(options)).load()

    def values(self, **options: Any) -> list[str]:
        """The values of a batch as text, in the order of partitions and offsets."""
        rows = self.batch(**options).orderBy("topic", "partition", "offset").collect()
        return [bytes(row.value).decode() for row in rows]


@pytest.fixture
def source(spark: SparkSession, ottla_broker: Broker) -> Source:
    return Source(spark, ottla_broker.bootstrap_servers)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture
def session(spark: SparkSession, ottla_broker: Broker, tmp_path: Path) -> Iterator[SparkSession]:
    """A session that knows where the broker and the checkpoints are."""
    settings = {
        "spark.ottla.bootstrap.servers": ottla_broker.bootstrap_servers,
        "spark.ottla.checkpoints": str(tmp_path / "checkpoints"),
        "spark.ottla.trigger": "available-now",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)
