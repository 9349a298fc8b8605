"""Streaming query whose rows are ranges of offsets. The checkpoint is temporary."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


class RangesQuery:
    """Owner: the thread that starts and stops the query. A Spark thread calls `copy` with each micro-batch."""

    def __init__(self, spark: SparkSession, name: str, copy: Callable[[DataFrame, int], None]) -> None:
        self._spark = spark
        self._name = name
        self._copy = copy
        self._checkpoint = ""
        self._query: StreamingQuery | None = None

    def start(self, options: Mapping[str, str]) -> None:
        from ottla.mirror.ranges_source import FORMAT, RangesDataSource

        self._checkpoint = tempfile.mkdtemp(prefix="ottla-mirror-")
        self._spark.dataSource.register(RangesDataSource)
        frame = self._spark.readStream.format(FORMAT).options(**options).load()
        self._query = (
            frame.writeStream.foreachBatch(self._copy)
            .queryName(self._name)
            .option("checkpointLocation", self._checkpoint)
            .start()
        )

    @property
    def is_running(self) -> bool:
        return self._query is not None and bool(self._query.isActive)

    def failure(self) -> BaseException | None:
        if self._query is None or self._query.isActive:
            return None
        found: BaseException | None = self._query.exception()
        return found

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._query = None
        if self._checkpoint:
            shutil.rmtree(self._checkpoint, ignore_errors=True)
            self._checkpoint = ""
