"""Promise: pipelines give the same results through `format("ottla")`, Spark's own connector, and on Apache Kafka.

Run with `make test-spark-peers`: the connector and Apache Kafka come from Maven Central.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import Broker

from .twelve_pipelines import PIPELINES, Way, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.peers

Pipeline = Callable[[Way], list[Any]]


@pytest.fixture(scope="module")
def prefix() -> str:
    return f"equal-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def ottla_servers(ottla_broker: Broker, prefix: str) -> str:
    fill(ottla_broker.bootstrap_servers, prefix)
    return ottla_broker.bootstrap_servers


@pytest.fixture(scope="module")
def kafka_servers(apache_kafka: str, prefix: str) -> str:
    fill(apache_kafka, prefix)
    return apache_kafka


@pytest.fixture(scope="module")
def results() -> dict[Pipeline, list[Any]]:
    """The result of each pipeline through `format("ottla")` from Ottla."""
    return {}


@pytest.fixture
def ours(
    spark: SparkSession, ottla_servers: str, prefix: str, tmp_path: Path, results: dict[Pipeline, list[Any]]
) -> Callable[[Pipeline], list[Any]]:
    def run(pipeline: Pipeline) -> list[Any]:
        if pipeline not in results:
            results[pipeline] = pipeline(Way(spark, "ottla", ottla_servers, prefix, tmp_path / "ours"))
        assert results[pipeline], "nothing came out"
        return ordered(results[pipeline])

    return run


def ordered(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


def named(pipeline: Pipeline) -> str:
    return pipeline.__name__


@pytest.mark.usefixtures("jvm_connector")
@pytest.mark.parametrize("pipeline", PIPELINES, ids=named)
def test_the_same_through_the_connector_of_the_jvm(
    spark: SparkSession,
    ottla_servers: str,
    prefix: str,
    tmp_path: Path,
    pipeline: Pipeline,
    ours: Callable[[Pipeline], list[Any]],
) -> None:
    theirs = pipeline(Way(spark, "kafka", ottla_servers, prefix, tmp_path / "jvm"))
    assert ordered(theirs) == ours(pipeline)


@pytest.mark.parametrize("pipeline", PIPELINES, ids=named)
def test_the_same_from_apache_kafka(
    spark: SparkSession,
    kafka_servers: str,
    prefix: str,
    tmp_path: Path,
    pipeline: Pipeline,
    ours: Callable[[Pipeline], list[Any]],
) -> None:
    theirs = pipeline(Way(spark, "ottla", kafka_servers, prefix, tmp_path / "kafka"))
    assert ordered(theirs) == ours(pipeline)
