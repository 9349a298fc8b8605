"""Promise: Kafka's tools show the lag of a running query."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Semaphore
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import Broker
from tests.spark_fixtures import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP = "lag-while-it-runs"
Tool = Callable[[list[str]], str]


def our_tool(arguments: list[str]) -> str:
    command = [str(Path(sys.executable).with_name("kafka-consumer-groups")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


def kafkas_tool(arguments: list[str]) -> str:
    from bench.peers.apache_kafka import GROUPS, run_tool

    return run_tool(GROUPS, arguments, check=False, timeout=60).stdout


@pytest.fixture(params=[our_tool, pytest.param(kafkas_tool, marks=pytest.mark.peers)])
def tool(request: pytest.FixtureRequest) -> Tool:
    if request.param is kafkas_tool:
        from bench.peers.apache_kafka import Unavailable, kafka_jars

        try:
            kafka_jars()
        except Unavailable as reason:
            pytest.skip(str(reason))
    chosen: Tool = request.param
    return chosen


@pytest.mark.parametrize("option", ["kafka.group.id", "ottla.commit.group"])
def test_the_lag_of_a_running_query_goes_to_nothing(
    spark: SparkSession, fresh_ottla_broker: Broker, checkpoint: str, tool: Tool, option: str
) -> None:
    fresh_ottla_broker.create_topic("t", partitions=2)
    for number in range(50):
        fresh_ottla_broker.produce("t", b"%d" % number, partition=number % 2)
    allowed = Semaphore(0)

    def wait_for_leave(rows: DataFrame, number: int) -> None:
        assert rows.count()
        assert allowed.acquire(timeout=120)

    source = Source(spark, fresh_ottla_broker.bootstrap_servers)
    options: dict[str, Any] = {option: GROUP, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 10}
    stream = source.stream(subscribe="t", **options)
    query = stream.writeStream.foreachBatch(wait_for_leave).option("checkpointLocation", checkpoint).start()
    try:
        allowed.release(2)
        wait_for_lag(tool, fresh_ottla_broker, {("t", "0"): "15", ("t", "1"): "15"})
        allowed.release(100)
        wait_for_lag(tool, fresh_ottla_broker, {("t", "0"): "0", ("t", "1"): "0"})
        assert query.isActive
    finally:
        allowed.release(100)
        query.stop()


def wait_for_lag(tool: Tool, broker: Broker, expected: dict[tuple[str, str], str]) -> None:
    deadline = time.monotonic() + 60
    while True:
        described = tool(["--bootstrap-server", broker.bootstrap_servers, "--describe", "--group", GROUP])
        if lags(described) == expected:
            return
        assert time.monotonic() < deadline, f"the tool still says:\n{described}"


def lags(described: str) -> dict[tuple[str, str], str]:
    """Parse lags by topic and partition from GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG …"""
    rows = [line.split() for line in described.splitlines() if line.startswith(GROUP)]
    return {(row[1], row[2]): row[5] for row in rows}
