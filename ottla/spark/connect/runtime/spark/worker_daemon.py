"""Spark's daemon that forks the Python workers of connectors."""

from __future__ import annotations

from ottla.spark.workers import serve

if __name__ == "__main__":
    serve(
        (
            "ottla.spark.connect.runtime.tasks.sink_task",
            "ottla.spark.connect.runtime.tasks.source_task",
            "ottla.spark.connect.connectors.file_stream",
        )
    )
