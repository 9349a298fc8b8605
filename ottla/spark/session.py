"""SparkSession configured for pipelines on a laptop, or on any other master."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from socketserver import BaseServer
from typing import TYPE_CHECKING, Any

from ottla.jvm.java import java_home
from ottla.python_process import guard_workers
from ottla.spark.spark_home import quick_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: For a JVM that only starts Python tasks: it starts faster without optimising itself.
LIGHT_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

_SETTINGS = {
    # By default, half the cost of a small micro-batch is TCP between Java and Python, and a slower interface for
    # checkpoint files.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.showConsoleProgress": "false",
}

_LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(
    app_name: str | None = None, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """Create a session that knows `format("ottla")`. `config` overrides every setting.

    Without a master, Spark runs on all cores of this machine.
    """
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home())
    # Workers must run the interpreter with Ottla, regardless of `python3` on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    guard_workers()
    master = master or default_master()
    settings = dict(_SETTINGS)
    settings["spark.driver.extraJavaOptions"] = driver_java_options()
    if find_spec("pandas") is None:  # without pandas, Spark warns at every Python function
        settings["spark.sql.execution.pythonUDF.arrow.enabled"] = "false"
    if master.startswith("local"):
        settings |= _LOCAL_SETTINGS
    settings |= config or {}
    builder = SparkSession.builder.appName(app_name or "ottla").master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with quick_home(master):
        spark: SparkSession = builder.getOrCreate()
    register(spark)
    ignore_closed_connections(spark.sparkContext._accumulatorServer)
    return spark


def driver_java_options(*more: str) -> str:
    return " ".join([f"-Dlog4j2.configurationFile=file:{_LOG_SETTINGS}", *more])


def ignore_closed_connections(server: BaseServer) -> None:
    """Suppress the traceback that PySpark's accumulator server prints for closed connections.

    Java closes its connection when a query stops in the middle of a batch, and opens another for the next batch.
    """
    print_error = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            print_error(request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def default_master() -> str:
    return os.environ.get("SPARK_MASTER") or "local[*]"


def register(spark: SparkSession) -> None:
    """Register `format("ottla")` and `format("ottla.table")` with a session created elsewhere."""
    from ottla.spark.data_source import OttlaDataSource
    from ottla.spark.tables.table_source import TableDataSource

    spark.dataSource.register(OttlaDataSource)
    spark.dataSource.register(TableDataSource)
