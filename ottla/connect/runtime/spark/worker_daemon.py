"""The Spark daemon that forks the Python workers of connectors."""

from __future__ import annotations

from ottla.spark.workers import serve

if __name__ == "__main__":
    serve(
        (
            "ottla.connect.runtime.tasks.sink_task",
            "ottla.connect.runtime.tasks.source_task",
            "ottla.connect.connectors.file_stream",
        )
    )
