"""A SQL session with its own broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.sql import SqlSession

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z


class Sql:
    def __init__(self, session: SqlSession, broker: Broker) -> None:
        self.session = session
        self.broker = broker

    def __call__(self, script: str) -> list[tuple[Any, ...]]:
        """Execute statements and return the rows of the last one."""
        return list(self.session.execute(script)[-1].rows)

    def dicts(self, query: str) -> list[dict[str, Any]]:
        return self.session.execute(query)[-1].dicts()

    def refused(self, script: str) -> str:
        from ottla.sql import SqlError

        with pytest.raises(SqlError) as caught:
            self.session.execute(script)
        return str(caught.value)

    def settle(self) -> None:
        """Wait until all queries have processed their input; one may read another's output."""
        for _ in range(2):
            for running in self.session.queries.all():
                running.query.processAllAvailable()

    def produce(
        self, topic: str, value: Any, key: bytes | None = None, at: int | None = None, partition: int = 0
    ) -> None:
        data = None if value is None else json.dumps(value).encode()
        self.broker.produce(topic, data, key=key, timestamp=at, partition=partition)

    def records(self, topic: str, partitions: int = 1) -> list[tuple[bytes | None, Any]]:
        """Return keys and decoded values by partition."""
        found = [
            record for partition in range(partitions) for record in self.broker.records(topic, partition)
        ]
        return [
            (
                None if record.key is None else bytes(record.key),
                None if record.value is None else json.loads(bytes(record.value)),
            )
            for record in found
        ]


@pytest.fixture
def statements(fresh_ottla_broker: Broker) -> Sql:
    """A session for statements without Spark, which would fail to start."""
    pytest.importorskip("sqlglot")
    pytest.importorskip("pyspark")
    from ottla.sql import SqlSession

    def no_spark() -> SparkSession:
        raise AssertionError("this statement must not need Spark")

    return Sql(
        SqlSession(no_spark, bootstrap_servers=fresh_ottla_broker.bootstrap_servers), fresh_ottla_broker
    )


@pytest.fixture
def sql(spark: SparkSession, fresh_ottla_broker: Broker, tmp_path: Path) -> Iterator[Sql]:
    pytest.importorskip("sqlglot")
    from ottla.sql import SqlSession

    session = SqlSession(
        spark,
        bootstrap_servers=fresh_ottla_broker.bootstrap_servers,
        checkpoints=str(tmp_path / "checkpoints"),
    )
    session.execute("SET 'auto.offset.reset' = 'earliest';")
    held = Sql(session, fresh_ottla_broker)
    yield held
    held.session.stop()  # a test may have another one by now
