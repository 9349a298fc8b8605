"""What a Python worker of Spark does once, for the sake of all tasks that come after."""

from __future__ import annotations

import gc

_settled = False


def settle() -> None:
    """To be called at the end of a task: all that is loaded by now stays, and need not be looked at for garbage.

    Spark's workers collect garbage after every task. With the libraries that are loaded by then that takes longer than
    reading some thousand rows, in the time of the next task.
    """
    global _settled
    if not _settled and _is_worker():
        _settled = True
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    from pyspark import TaskContext

    return TaskContext.get() is not None
