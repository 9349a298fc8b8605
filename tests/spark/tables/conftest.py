"""A broker with a registry, a warehouse, and the table job as tests run it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("iceberg", "delta")


@pytest.fixture(scope="session")
def registry_broker() -> Iterator[Broker]:
    with Broker(registry=True) as broker:
        yield broker


class Tables:
    """Table topics of one test, with a warehouse of their own."""

    def __init__(self, spark: SparkSession, broker: Broker, warehouse: Path) -> None:
        from ottla.client.schema_registry import RegistrySettings
        from ottla.spark.tables.lakes.catalogs import Lake
        from ottla.spark.tables.union_options import Connection

        self.spark = spark
        self.broker = broker
        self.warehouse = warehouse
        self.lake = Lake(str(warehouse))
        registry = None
        if broker.has_registry:
            registry = RegistrySettings((broker.schema_registry_url,))
        self.connection = Connection({"bootstrap.servers": broker.bootstrap_servers}, registry)
        self.complaints: list[str] = []

    def topic(self, name: str, partitions: int = 1, **settings: str) -> str:
        config = {f"ottla.table.{key.replace('_', '.')}": value for key, value in settings.items()}
        self.broker.create_topic(name, partitions=partitions, config=config)
        return name

    def put(self, topic: str, *values: Any, key: bytes | None = None, partition: int = 0) -> None:
        for value in values:
            data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            self.broker.produce(topic, data, key=key, partition=partition)

    def run(self, *topics: str) -> dict[str, int]:
        """Run the table job until the tables have caught up. Return the rows that it wrote."""
        from ottla.spark.tables.job import TableJob

        written: dict[str, int] = {}

        def report(topic: str, step: Any) -> None:
            written[topic] = written.get(topic, 0) + step.rows

        job = TableJob(
            self.spark, self.connection, self.lake, report=report, complain=self.complaints.append,
            once=True, topics=frozenset(topics),
        )  # fmt: skip
        job.run()
        return written

    def settings(self, topic: str) -> Any:
        from ottla.client.cluster import Cluster
        from ottla.client.settings import Settings
        from ottla.spark.tables.topic_tables import table_of

        cluster = Cluster(Settings.from_properties(dict(self.connection.properties), client_id="tests"))
        try:
            return table_of(cluster, topic)
        finally:
            cluster.close()

    def table(self, topic: str) -> Any:
        return self.lake.load(self.settings(topic))

    def rows(self, topic: str, *, dead_letters: bool = False) -> list[dict[str, Any]]:
        """Return the rows as an independent reader sees them: PyIceberg or deltalake."""
        settings = self.settings(topic)
        name = f"{topic}~dlq" if dead_letters else topic
        if settings.format == "iceberg":
            from pyiceberg.catalog import load_catalog
            from pyiceberg.exceptions import NoSuchTableError

            uri = f"sqlite:///{self.warehouse}/catalog.db"
            catalog = load_catalog("ottla", type="sql", uri=uri, warehouse=f"file://{self.warehouse}")
            try:
                found = catalog.load_table(("default", name)).scan().to_arrow()
            except NoSuchTableError:
                return []
        else:
            from deltalake import DeltaTable

            path = str(self.warehouse / "default" / name)
            if not DeltaTable.is_deltatable(path):
                return []
            found = DeltaTable(path).to_pyarrow_table()
        return sorted(found.to_pylist(), key=lambda row: (row["__partition"], row["__offset"]))

    def read(self, topic: str, **more: Any) -> DataFrame:
        from ottla.spark import read_table

        options = {}
        if self.broker.has_registry:
            options["schemaRegistryUrl"] = self.broker.schema_registry_url
        return read_table(
            self.spark, topic, bootstrap_servers=self.broker.bootstrap_servers, warehouse=str(self.warehouse),
            options=options, **more,
        )  # fmt: skip


def values(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the columns of the values."""
    return [{name: each for name, each in row.items() if not name.startswith("__")} for row in rows]


@pytest.fixture
def tables(spark: SparkSession, registry_broker: Broker, tmp_path: Path) -> Tables:
    return Tables(spark, registry_broker, tmp_path / "lake")
