"""Promise: an error is one sentence that names the pipeline, the batch, the records and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark.pipelines.failure import query_failed, records_of_batch, sentence, start_failed

SOURCE = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@47e58f44"
OTHER = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1ba178cc"


def stream_failed(reason: str, committed: str = "", available: str = "") -> str:
    """Return Spark 4.3's message."""
    return (
        "[STREAM_FAILED] Query [id = 0547d850-1786, runId = c1d2e636-b381] terminated with exception: "
        f"{reason} SQLSTATE: XXKST\n"
        "=== Streaming Query ===\nIdentifier: udf [id = 0547d850-1786, runId = c1d2e636-b381]\n"
        f"Current Committed Offsets: {{{committed}}}\nCurrent Available Offsets: {{{available}}}\n\n"
        "Current State: ACTIVE\nThread State: RUNNABLE\n\nLogical Plan:\nWriteToMicroBatchDataSource ottla\n"
    )


FROM_A_WORKER = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "pipeline.py", line 22, in parse
    raise ValueError("seven is bad")
          ^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: seven is bad
and so is eight
 SQLSTATE: 38000"""

FROM_THE_SOURCE = """[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform \
initialOffset: Traceback (most recent call last):
  File "ottla/spark/planning.py", line 40, in all_partitions
    raise MissingPartition("…")
ottla.spark.source.partition_planning.MissingPartition: Topic 'nope' does not exist at 127.0.0.1:9092.
 SQLSTATE: 38000"""

FROM_A_BATCH_WITHIN_A_BATCH = """[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function. \
Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "pyspark/sql/utils.py", line 163, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
pyspark.errors.exceptions.captured.PythonException: [PYTHON_EXCEPTION] An exception was thrown: \
Traceback (most recent call last):
  File "ottla/spark/sink_task.py", line 22, in write
    raise ClientError("…")
ottla.client.errors.ClientError: Topic 'out' takes no record of 2 MB.
 SQLSTATE: 38000

JVM stacktrace:
org.apache.spark.SparkException
	at org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (FROM_A_WORKER, "ValueError: seven is bad and so is eight."),
        (FROM_THE_SOURCE, "Topic 'nope' does not exist at 127.0.0.1:9092."),
        (FROM_A_BATCH_WITHIN_A_BATCH, "Topic 'out' takes no record of 2 MB."),
        ("[USER_RAISED_EXCEPTION] no such region SQLSTATE: P0001", "no such region."),
        (
            "requirement failed: ottla does not support Update mode.",
            "requirement failed: ottla does not support Update mode.",
        ),
    ],
)
def test_the_reason_is_found_inside_of_what_spark_says(reason: str, expected: str) -> None:
    assert sentence(stream_failed(reason)) == expected


def test_it_names_the_pipeline_the_query_the_batch_and_its_records() -> None:
    text = stream_failed(
        FROM_A_WORKER,
        committed=f'{SOURCE}: {{"tweets": {{"0": 5, "1": 3}}}}, {OTHER}: {{"users": {{"0": 1}}}}',
        available=f'{SOURCE}: {{"tweets": {{"0": 10, "1": 3}}}}, {OTHER}: {{"users": {{"0": 2}}}}',
    )
    error = query_failed("trending", "counts", 7, text)
    assert error.message == (
        "Pipeline 'trending' failed in batch 7 of query 'counts': ValueError: seven is bad and so is eight. "
        "The batch had users-0 at offset 1, tweets-0 at offsets 5 to 9."
    )
    assert error.detail == text


def test_a_reason_that_names_the_record_is_enough() -> None:
    reason = "Traceback (most recent call last):\n  File x\nottla.x.Bad: tweets-0 at offset 7 is not JSON."
    text = stream_failed(reason, available=f'{SOURCE}: {{"tweets": {{"0": 10}}}}')
    assert query_failed("trending", "counts", None, text).message == (
        "Pipeline 'trending' failed in query 'counts': tweets-0 at offset 7 is not JSON."
    )


def test_many_partitions_are_not_all_named() -> None:
    partitions = ", ".join(f'"{number}": 10' for number in range(5))
    text = stream_failed("x", available=f'{SOURCE}: {{"tweets": {{{partitions}}}}}')
    assert records_of_batch(text) == (
        "tweets-0 up to offset 9, tweets-1 up to offset 9, tweets-2 up to offset 9 and 2 more"
    )


def test_sources_that_are_no_topics_have_no_records_to_name() -> None:
    assert records_of_batch(stream_failed("x", available="RateStream: 7")) == ""
    assert records_of_batch("anything") == ""


def test_an_error_while_starting_names_the_line() -> None:
    file = Path("trending.py")
    try:
        exec(compile("\n\nint('many')\n", str(file), "exec"))
    except ValueError as error:
        failure = start_failed("trending", file, error)
    assert failure.message == (
        "Pipeline 'trending' could not be started: "
        "ValueError: invalid literal for int() with base 10: 'many' (trending.py, line 3)."
    )
    assert "Traceback" in failure.detail


def test_a_package_that_a_spark_node_lacks() -> None:
    text = (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1, in main\n'
        "    func, profiler, deserializer, serializer = read_command(pickleSer, infile)\n"
        "ModuleNotFoundError: No module named 'ottla'\n\n\tat org.apache.spark.api.python\n"
    )
    assert sentence(text).startswith(
        "A Spark node has no Python package ottla: install it on every node with "
    )
    assert "pip install psycopg," in sentence(text.replace("'ottla'", "'psycopg.pq'"))
    in_the_driver = text.replace("pyspark/worker.py", "my_pipeline.py")
    assert sentence(in_the_driver) == "ModuleNotFoundError: No module named 'ottla'."
