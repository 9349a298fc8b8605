"""What a Python worker of Spark does once, so that later tasks start faster."""

from __future__ import annotations

import gc

_settled = False


def settle() -> None:
    """Called at the end of a task: everything that is loaded by now is exempt from garbage collection.

    Spark's workers collect garbage after every task. With all libraries loaded that takes longer than reading some
    thousand rows, and delays the next task.
    """
    global _settled
    if not _settled and _is_worker():
        _settled = True
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    from pyspark import TaskContext

    return TaskContext.get() is not None
