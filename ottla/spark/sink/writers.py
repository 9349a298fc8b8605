"""Writers of `format("ottla")` for batches and streams.

At-least-once: all in-sync replicas acknowledge every row before its task ends, and repeated tasks or micro-batches
write again. Exactly-once: tasks write in transactions that the driver ends; see `exactly_once`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.client.cluster import shared_cluster
from ottla.client.errors import ClientError
from ottla.client.transactions import Transaction, TransactionClient
from ottla.spark.options import OptionError
from ottla.spark.sink.exactly_once.batch_commit import (
    BatchCommit,
    abort_leftovers,
    check_batch,
    check_open,
    join_run,
    not_committed,
)
from ottla.spark.sink.exactly_once.task_transaction import Attempt
from ottla.spark.sink.planning import checked
from ottla.spark.sink.sink_options import SinkOptions, parse_sink_options
from ottla.spark.sink.task import prepare_rows, write_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> OttlaWriter:
    if overwrite:
        raise OptionError("A topic cannot be overwritten: use .mode('append').")
    return OttlaWriter(checked(parse_sink_options(options), schema))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> OttlaStreamWriter:
    """Create the writer of a stream.

    In output mode complete (`overwrite`), batches are appended, as in Spark's connector.
    """
    return OttlaStreamWriter(checked(parse_sink_options(options, streaming=True), schema))


@dataclass
class TaskCommit(WriterCommitMessage):
    rows: int


@dataclass
class Prepared(WriterCommitMessage):
    """Rows that become visible when the driver commits the transaction. Without rows there is no transaction."""

    rows: int
    attempt: Attempt
    transaction: Transaction | None


Messages = Sequence[WriterCommitMessage | None]


def _prepared(messages: Messages) -> list[Prepared]:
    return [message for message in messages if isinstance(message, Prepared)]


class OttlaWriter(DataSourceArrowWriter):
    """Writer of one save. Tasks receive a pickled copy; the driver commits with the same object."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._attempt = Attempt(query=f"save-{uuid.uuid4()}", generation=1, batch=0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.exactly_once:
            return TaskCommit(write_rows(self._options, iterator))
        rows, transaction = prepare_rows(self._options, iterator, self._attempt)
        return Prepared(rows, self._attempt, transaction)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the transactions. A save is never repeated, so it needs no commit log."""
        transactions = [each.transaction for each in _prepared(messages) if each.transaction is not None]
        if not self._options.exactly_once:
            return
        with shared_cluster(self._options.settings) as cluster:
            client = TransactionClient(cluster)
            check_open(client, transactions)
            lost = not_committed(client.end(transactions, commit=True))
            if lost:
                raise ClientError(
                    f"{len(lost)} of {len(transactions)} transactions timed out before they were committed: some rows "
                    "of this save are missing."
                )
            self._abort_leftovers(client)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.exactly_once:
            with shared_cluster(self._options.settings) as cluster:
                self._abort_leftovers(TransactionClient(cluster))

    def _abort_leftovers(self, client: TransactionClient) -> None:
        query, generation, _ = self._attempt
        abort_leftovers(client, query, generation, None, self._options.transaction_timeout_ms)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """Spark creates one writer per batch and another to commit it, so the messages carry all state for the driver."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.exactly_once:
            return TaskCommit(write_rows(self._options, iterator))
        query, run, batch = _current_batch()
        with shared_cluster(self._options.settings) as cluster:
            state = join_run(cluster, query, run, self._options.checkpoint)
        check_batch(state, query, batch)
        attempt = Attempt(query, state.generation, batch)
        if state.is_decided(batch):
            # An earlier run has committed this batch. Consume the rows anyway, because stateful operators before the
            # sink update their state only then.
            rows = sum(each.num_rows for each in iterator)
            return Prepared(rows, attempt, None)
        rows, transaction = prepare_rows(self._options, iterator, attempt)
        return Prepared(rows, attempt, transaction)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        prepared = _prepared(messages)
        if not prepared:  # at-least-once: nothing to commit
            return
        transactions = [each.transaction for each in prepared if each.transaction is not None]
        with shared_cluster(self._options.settings) as cluster:
            commit = BatchCommit(cluster, prepared[0].attempt, self._options.transaction_timeout_ms)
            commit.commit(transactions, fail_on_loss=self._options.fail_on_data_loss)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        prepared = _prepared(messages)
        if prepared:
            with shared_cluster(self._options.settings) as cluster:
                BatchCommit(cluster, prepared[0].attempt, self._options.transaction_timeout_ms).abort()


def _current_batch() -> tuple[str, str, int]:
    context = TaskContext.get()
    assert context is not None
    found = [
        context.getLocalProperty(name)
        for name in ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId")
    ]
    query, run, batch = found
    if query is None or run is None or batch is None:
        raise ClientError(
            "Spark does not say which query this is, so it cannot be written exactly once: say "
            "ottla.delivery=at-least-once."
        )
    return query, run, int(batch)
