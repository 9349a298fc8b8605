"""How long somebody waits who types `ottla sql` and his first push query: Java, Spark and a query have to start."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from bench.sql.measuring import Bench, Row, named

#: What somebody waits for without going away.
_MOST_SECONDS = 15.0
_REPETITIONS = 3


def first_rows(bench: Bench) -> Row:
    stream = named("first")
    sql = bench.sql()
    sql.execute(
        f"CREATE STREAM {stream} (id INT KEY, x INT) WITH (kafka_topic='{stream}', partitions=1);"
        f"INSERT INTO {stream} (id, x) VALUES (1, 2);"
    )
    return Row(
        "first row of the first push query, with the start of `ottla sql`",
        "s",
        statistics.median(_seconds(bench, stream) for _ in range(_REPETITIONS)),
        _MOST_SECONDS,
        f"{_MOST_SECONDS:.0f} s",
        1.0,
        at_least=False,
    )


def _seconds(bench: Bench, stream: str) -> float:
    statements = f"SET 'auto.offset.reset' = 'earliest'; SELECT * FROM {stream} EMIT CHANGES LIMIT 1;"
    command = [sys.executable, "-m", "ottla.cli", "sql", "--json", "-b", bench.bootstrap_servers]
    cores = set(range(os.cpu_count() or 1))
    began = time.perf_counter()
    with subprocess.Popen(
        [*command, "-e", statements],
        stdout=subprocess.PIPE,
        text=True,
        # The bench itself runs on one core; whoever types this has all of them.
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{") and '"X"' in line:
                return time.perf_counter() - began
    raise RuntimeError("ottla sql ended without a row")
