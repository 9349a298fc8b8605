"""Fixtures of tests that run on Spark. A test with `spark` starts a JVM, and only `make test-spark` runs it."""

from __future__ import annotations

import os
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
def jvm_connector() -> str:
    """The jars of Spark's own connector, from Maven Central. The session loads them if any test uses this."""
    from bench.peers.apache_kafka import Unavailable, spark_connector_jars

    try:
        return spark_connector_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Apache Kafka: a running one, or one from Maven Central."""
    running = os.environ.get("OTTLA_TEST_KAFKA")
    if running:
        yield running
        return
    from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars

    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    # Auto-created topics have one partition, and the broker looks for abandoned transactions often.
    config = {"num.partitions": "1", "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    with ApacheKafka(data=tmp_path_factory.mktemp("kafka"), config=config) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    pytest.importorskip("pyspark")
    from ottla.spark import session

    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.memory": "1g",
    }
    # A running JVM cannot load further jars.
    if any("jvm_connector" in getattr(item, "fixturenames", ()) for item in request.session.items):
        config["spark.jars"] = _connector_or_nothing()
    spark = session("tests", master="local[2]", config=config)
    yield spark
    spark.stop()


def _connector_or_nothing() -> str:
    from bench.peers.apache_kafka import Unavailable, spark_connector_jars

    try:
        return spark_connector_jars()
    except Unavailable:
        return ""


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
        """Return the values of a batch as text, in the order of partitions and offsets."""
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
    """A session with the broker's address and a checkpoint directory."""
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
