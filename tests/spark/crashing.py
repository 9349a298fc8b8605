"""`format("ottla")` with a driver that dies at a named point of a batch.

Two more options set the point (`crash`) and the processes that die together (`pids`, a file). Without such a file only
the current process dies, and Spark's cleanup is skipped, as if everything had died.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from ottla.client.cluster import Cluster
from ottla.client.transactions import Transaction, TransactionClient
from ottla.protocol.errors import ErrorCode
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.sink import batches
from ottla.spark.sink.exactly_once.commit_log import CommitState
from ottla.spark.sink.exactly_once.commit_topic import CommitTopic
from ottla.spark.sink.exactly_once.task_transaction import Attempt
from ottla.spark.sink.sink_options import SinkOptions
from ottla.spark.sink.writers import OttlaStreamWriter, stream_writer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

POINTS = [
    "one task has written",
    "all tasks have written",
    "before the decision",
    "after the decision",
    "after the first EndTxn",
    "after the last EndTxn",
    "after the record that it is done",
]


def reached(point: str) -> None:
    if _crash.point == point:
        if _crash.pids:
            for each in Path(_crash.pids).read_text().split():
                os.kill(int(each), signal.SIGKILL)
        os._exit(1)


class _Crash:
    """The crash in the process that runs a task or a commit."""

    point = ""
    pids = ""


_crash = _Crash()


def arm(point: str, pids: str) -> None:
    """Arm the crash. A task runs in another process, with copies of everything pickled for it."""
    _crash.point, _crash.pids = point, pids


def _append(self: CommitTopic, cluster: Cluster, record: bytes) -> CommitState:
    if b'"kind":"decide"' in record:
        reached("before the decision")
        state = append(self, cluster, record)
        reached("after the decision")
        return state
    if b'"kind":"done"' in record:
        reached("after the last EndTxn")
    return append(self, cluster, record)


def _end(
    self: TransactionClient,
    transactions: Iterable[Transaction],
    *,
    commit: bool,
    seconds: float | None = None,
) -> dict[Transaction, ErrorCode]:
    outcome = {}
    for each in transactions:
        outcome.update(end(self, [each], commit=commit, seconds=seconds))
        if commit:
            reached("after the first EndTxn")
    return outcome


append, end = CommitTopic.append, TransactionClient.end


class CrashingWriter(OttlaStreamWriter):
    def __init__(self, options: SinkOptions, point: str, pids: str) -> None:
        super().__init__(options)
        self._point = point
        self._pids = pids

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        arm(self._point, self._pids)
        message = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0:
            reached("one task has written")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        arm(self._point, self._pids)
        reached("all tasks have written")
        CommitTopic.append, TransactionClient.end = _append, _end  # type: ignore[method-assign]
        try:
            super().commit(messages, batchId)
        finally:
            CommitTopic.append, TransactionClient.end = append, end  # type: ignore[method-assign]
        reached("after the record that it is done")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if not self._point:
            super().abort(messages, batchId)


class CrashingDataSource(OttlaDataSource):
    def streamWriter(self, schema: StructType, overwrite: bool) -> OttlaStreamWriter:
        options = {**self.options}
        point, pids = options.pop("crash", ""), options.pop("pids", "")
        return CrashingWriter(stream_writer(options, schema, overwrite)._options, point, pids)


def crash_in_foreach_batch(point: str, pids: str) -> None:
    """Make `write_batch` die at this point in this process, which hosts the Python driver."""
    arm(point, pids)
    prepare_in_task, commit = batches._prepare, batches.commit

    def prepare(options: SinkOptions, attempt: Attempt) -> Any:
        write = prepare_in_task(options, attempt)

        def write_and_crash(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            arm(point, pids)
            yield from write(rows)
            context = TaskContext.get()
            assert context is not None
            if context.partitionId() == 0:
                reached("one task has written")

        return write_and_crash

    def commit_and_crash(options: SinkOptions, attempt: Attempt, transactions: list[Transaction]) -> None:
        reached("all tasks have written")
        commit(options, attempt, transactions)
        reached("after the record that it is done")

    batches._prepare, batches.commit = prepare, commit_and_crash
    CommitTopic.append, TransactionClient.end = _append, _end  # type: ignore[method-assign]
