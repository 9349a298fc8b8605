"""Exactly-once writes from foreachBatch, with the same two-phase commit as the streaming sink.

    def each(rows, number):
        write_batch(rows, {"kafka.bootstrap.servers": …, "topic": …}, batch_id=number, checkpoint="/checkpoints/q")

    frame.writeStream.foreachBatch(each).option("checkpointLocation", "/checkpoints/q").start()

Here the driver runs in Python and knows query, run and batch before any task starts. It joins the run itself and passes
everything to the tasks with their function. The tasks return the transactions that they left open.

- `options` are the write options of `format("ottla")`. With ottla.delivery=at-least-once this is an ordinary save.
- `query_id` and `run_id` are known in the thread in which Spark calls the function. Other threads must pass them.
- One call writes each batch, because a batch has one decision in the commit log. A column 'topic' routes rows to
  several topics.
- A batch that was already decided writes nothing, but its rows are computed, because stateful operators (Spark's and
  Ottla's) update their state only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.client.cluster import shared_cluster
from ottla.client.errors import ClientError
from ottla.client.transactions import Transaction
from ottla.spark import queries
from ottla.spark.arrow_map import map_in_arrow
from ottla.spark.checkpoints import location
from ottla.spark.options import OptionError
from ottla.spark.sink.exactly_once.batch_commit import BatchCommit, check_batch, join_run
from ottla.spark.sink.exactly_once.task_transaction import Attempt
from ottla.spark.sink.planning import checked
from ottla.spark.sink.sink_options import SinkOptions, parse_sink_options
from ottla.spark.sink.task import prepare_rows
from ottla.spark.source.data_loss import log

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_TRANSACTION = "transactional_id string, producer_id bigint, producer_epoch int"

#: Last run and batch of each query, written by this process.
_written: dict[str, tuple[str, int]] = {}


def write_batch(
    frame: DataFrame,
    options: Mapping[str, str],
    *,
    batch_id: int,
    checkpoint: str,
    query_id: str | None = None,
    run_id: str | None = None,
) -> None:
    """Write the rows of a micro-batch. They are visible on return, and never twice."""
    parsed = checked(parse_sink_options(options, streaming=True), frame.schema)
    if not parsed.exactly_once:
        frame.write.format("ottla").mode("append").options(**options).save()
        return
    query = query_id or queries.query_id(frame.sparkSession)
    run = run_id or queries.run_id(frame.sparkSession)
    if query is None or run is None:
        raise OptionError(
            "Which query is this? In a thread other than the one in which Spark calls the function of foreachBatch, "
            "say query_id=… and run_id=…."
        )
    if _written.get(query) == (run, batch_id):
        raise OptionError(
            f"Batch {batch_id} has been written by an earlier call, and each can be only once: "
            "for several topics, write one frame with a column 'topic'."
        )
    with shared_cluster(parsed.settings) as cluster:
        state = join_run(cluster, query, run, location(checkpoint))
    check_batch(state, query, batch_id)
    attempt = Attempt(query, state.generation, batch_id)
    try:
        if state.is_decided(batch_id):
            frame.write.format("noop").mode("overwrite").save()
            transactions = []
        else:
            transactions = prepare(frame, parsed, attempt)
        commit(parsed, attempt, transactions)
    except BaseException:
        _abort(parsed, attempt)
        raise
    _written[query] = run, batch_id


def prepare(frame: DataFrame, options: SinkOptions, attempt: Attempt) -> list[Transaction]:
    """Run the tasks and return their open transactions, without those of superseded attempts."""
    prepared = map_in_arrow(frame, _prepare(options, attempt), _TRANSACTION).collect()
    return [Transaction(*row) for row in prepared]


def _prepare(
    options: SinkOptions, attempt: Attempt
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        _, transaction = prepare_rows(options, batches, attempt)
        if transaction is not None:
            types = (pa.string(), pa.int64(), pa.int32())
            columns = [pa.array([value], kind) for value, kind in zip(transaction, types, strict=True)]
            yield pa.record_batch(columns, names=transaction._fields)

    return write


def commit(options: SinkOptions, attempt: Attempt, transactions: list[Transaction]) -> None:
    with shared_cluster(options.settings) as cluster:
        driver = BatchCommit(cluster, attempt, options.transaction_timeout_ms)
        driver.commit(transactions, fail_on_loss=options.fail_on_data_loss)


def _abort(options: SinkOptions, attempt: Attempt) -> None:
    """Abort after a failure. Log errors here instead of raising them, so that the original failure is reported."""
    try:
        with shared_cluster(options.settings) as cluster:
            BatchCommit(cluster, attempt, options.transaction_timeout_ms).abort()
    except ClientError as error:
        log.warning("Transactions of query %s may stay open: %s", attempt.query, error.message)
