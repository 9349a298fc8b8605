"""Spark's daemon that forks its Python workers, with everything loaded that a task needs: so tasks start at once.

Nothing is computed and no thread is started here: both would not survive the fork.
"""

from __future__ import annotations

import contextlib
from importlib import import_module

# After pyspark.worker has loaded its own.
_NEEDED = (
    "pyspark.worker",
    "pyarrow",
    "ottla.spark.kernels",
    "ottla.spark.connect.runtime.tasks.sink_task",
    "ottla.spark.connect.runtime.tasks.source_task",
    "ottla.spark.connect.connectors.file_stream",
)


def main() -> None:
    for name in _NEEDED:
        # Whatever is missing, a task that needs it says so.
        with contextlib.suppress(ImportError):
            import_module(name)
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
