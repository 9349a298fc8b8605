"""``python -m bench.lake``: topics as tables beside the same topic read to Parquet by hand, as ratios of one run.

By hand means `format("ottla")` and Spark's own Parquet writer, which commits no offsets. Both sides read the same topic
of one broker in one Spark session, in turn, and the better of the repetitions counts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.peers.brokers import OttlaBroker, ottla_command
from bench.rows import spark_data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIELDS = "id BIGINT, tag STRING, likes BIGINT, text STRING"
_TARGET = 0.8


class LakeBench:
    def __init__(self, spark: SparkSession, servers: str, rows: int, directory: Path) -> None:
        self._spark = spark
        self._servers = servers
        self._rows = rows
        self._directory = directory
        self._runs = 0

    def fill(self, topic: str) -> None:
        spark_data.fill(self._servers, topic, 8, "none", 100, self._rows)

    def by_table(self, topic: str, format: str, mode: str) -> float:
        """Materialise the topic from its first record, and return the seconds."""
        from ottla.spark.tables.lakes.catalogs import Lake
        from ottla.spark.tables.materializer import Materializer
        from ottla.spark.tables.union_options import Connection
        from ottla.table_settings import TableSettings

        warehouse = self._fresh()
        settings = TableSettings(topic, format, mode=mode)
        connection = Connection({"bootstrap.servers": self._servers})
        materializer = Materializer(self._spark, connection, Lake(str(warehouse)), settings)
        began = time.perf_counter()
        written = 0
        while step := materializer.step().rows:
            written += step
        seconds = time.perf_counter() - began
        materializer.close()
        self._check(written)
        return seconds

    def by_hand(self, topic: str, mode: str) -> float:
        target = str(self._fresh() / "by-hand")
        options = {
            "kafka.bootstrap.servers": self._servers,
            "subscribe": topic,
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
        }
        if mode == "json":
            options |= {"valueFormat": "json", "valueSchema": _FIELDS}
        began = time.perf_counter()
        frame = self._spark.read.format("ottla").options(**options).load()
        if mode == "json":
            frame = frame.select("partition", "offset", "timestamp", "key", "headers", "value.*")
        frame.write.parquet(target)
        seconds = time.perf_counter() - began
        self._check(self._spark.read.parquet(target).count())
        return seconds

    def _fresh(self) -> Path:
        """Return a new directory: a process keeps the catalogs of old ones open."""
        shutil.rmtree(self._directory / str(self._runs), ignore_errors=True)
        self._runs += 1
        found = self._directory / str(self._runs)
        found.mkdir(parents=True)
        return found

    def _check(self, rows: int) -> None:
        if rows != self._rows:
            raise RuntimeError(f"{rows} rows were written instead of {self._rows}")


def best(measure: Callable[[], float], repetitions: int) -> float:
    """Return the best of the repetitions, after one that does not count."""
    measure()
    return min(measure() for _ in range(repetitions))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.lake", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args()
    from ottla.spark import session

    table = Table("materialising", "M rows/s", "by hand", "ratio", "target")
    spark = session("bench lake")
    broker = OttlaBroker(ottla_command())
    try:
        broker.start()
        with tempfile.TemporaryDirectory() as directory:
            bench = LakeBench(spark, broker.bootstrap_servers, given.rows, Path(directory) / "lake")
            bench.fill("events")
            for mode in ("key_value", "json"):
                hand = best(lambda mode=mode: bench.by_hand("events", mode), given.repetitions)
                for format in ("iceberg", "delta"):
                    ours = best(
                        lambda mode=mode, format=format: bench.by_table("events", format, mode),
                        given.repetitions,
                    )
                    speeds = [f"{given.rows / seconds / 1e6:.2f}" for seconds in (ours, hand)]
                    table.add_row(f"{mode} to {format}", *speeds, f"{hand / ours:.2f}", f"≥ {_TARGET}")
    finally:
        broker.stop()
        broker.remove()
    spark.stop()
    Console().print(table)


if __name__ == "__main__":
    main()
