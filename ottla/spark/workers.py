"""Fast Spark Python workers: modules loaded before the fork, and one-time setup."""

from __future__ import annotations

import contextlib
import gc
import socket
from collections.abc import Callable, Iterable
from importlib import import_module

_settled = False
# pyspark.worker comes first and loads its own modules.
_LOADED = ("pyspark.worker", "pyarrow", "ottla.records.kernels")


def serve(modules: Iterable[str]) -> None:
    """Run Spark's daemon that forks Python workers, with all modules for their tasks loaded.

    The daemon starts no threads and opens no connections, because neither would survive the fork.
    """
    for name in (*_LOADED, *modules):
        # A task that needs a missing module reports it.
        with contextlib.suppress(ImportError):
            import_module(name)
    with contextlib.suppress(Exception):
        load_kernels()
    from pyspark import daemon

    daemon.worker = without_reader(daemon.worker)
    # Exempt all loaded objects, so that garbage collection in tasks does not scan them.
    gc.freeze()
    daemon.manager()


def without_reader(worker: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Suppress the traceback when Spark ends before it has read a task's result."""

    def run(connection: socket.socket, authenticated: bool) -> int:
        try:
            return worker(connection, authenticated)
        except BrokenPipeError:
            return 1

    return run


def load_kernels() -> None:
    """Use the compiled loops once, because loading them would cost each task a quarter of a second of CPU."""
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
    """Exempt everything loaded so far from garbage collection. Called at the end of a task.

    Spark's workers collect garbage after every task. With all libraries loaded, that takes longer than reading some
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
