"""Python workers of Spark that start tasks fast: what is loaded before they are forked, and what they do once."""

from __future__ import annotations

import contextlib
import gc
import socket
from collections.abc import Callable, Iterable
from importlib import import_module

_settled = False
# After pyspark.worker has loaded its own.
_LOADED = ("pyspark.worker", "pyarrow", "ottla.records.kernels")


def serve(modules: Iterable[str]) -> None:
    """Be Spark's daemon that forks Python workers, with everything loaded that their tasks need.

    No thread is started here and no connection opened: neither would survive the fork.
    """
    for name in (*_LOADED, *modules):
        # Whatever is missing, a task that needs it says so.
        with contextlib.suppress(ImportError):
            import_module(name)
    with contextlib.suppress(Exception):
        load_kernels()
    from pyspark import daemon

    daemon.worker = without_reader(daemon.worker)
    # All of it stays: tasks that make many objects need not look at it each time the garbage is collected.
    gc.freeze()
    daemon.manager()


def without_reader(worker: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Nobody may read what a task returns: Spark has ended before it. That is worth no traceback."""

    def run(connection: socket.socket, authenticated: bool) -> int:
        try:
            return worker(connection, authenticated)
        except BrokenPipeError:
            return 1

    return run


def load_kernels() -> None:
    """Compiled loops are loaded by their first use, which would take each task a quarter of a second of CPU."""
    import pyarrow as pa

    from ottla.records.kernels import Encoder, Seal, decode, rows_by_partition
    from ottla.spark.sink.partitioner import Partitioner

    values, everything = pa.array([b"value"], pa.binary()), 1 << 62
    for keys in (None, values):
        partitions = Partitioner("", 1).partitions(1, keys, None)
        for _, rows in rows_by_partition(partitions):
            seal = Seal(0, None, 1, 0, 0, True)
            for batch in Encoder(keys, values, None, None).encode(rows, 1 << 14, seal):
                decode(batch, start=0, end=everything, with_headers=True, aborted=[])


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
