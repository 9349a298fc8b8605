"""A stream that is joined with tables of different sizes, and a table that is asked for single keys."""

from __future__ import annotations

import random
import statistics
import time

from bench.sql.measuring import PARTITIONS, Bench, Row, named, seconds_of_batches, text_key, wait

#: What ksqlDB's users would notice.
_MOST_MS = 50.0


def join(bench: Bench) -> Row:
    small, large = (
        _seconds_per_batch(bench, keys) for keys in (bench.scale.small_table, bench.scale.large_table)
    )
    return Row(
        f"stream-table join, {bench.scale.large_table:,} keys beside {bench.scale.small_table:,}",
        "s per batch",
        large,
        small,
        "the smaller table",
        1.5,
        at_least=False,
    )


def _seconds_per_batch(bench: Bench, keys: int) -> float:
    """The median of batches of the same number of records, once the table is there."""
    scale = bench.scale
    table, stream, joined = named("users"), named("clicks"), named("joined")
    sql = bench.sql()
    sql.execute(
        f"CREATE TABLE {table} (name STRING PRIMARY KEY, city STRING) "
        f"WITH (kafka_topic='{table}', partitions={PARTITIONS});"
        f"CREATE STREAM {stream} (who STRING KEY, page INT) WITH (kafka_topic='{stream}', partitions={PARTITIONS});"
    )
    bench.write(table, keys, text_key("user-", "id"), "concat('{\"CITY\":\"city ', id % 1000, '\"}')")
    created = sql.execute(
        f"CREATE STREAM {joined} AS SELECT c.who AS who, c.page AS page, u.city AS city "
        f"FROM {stream} c LEFT JOIN {table} u ON c.who = u.name;"
    )
    query = created[-1].query
    assert query is not None
    query.processAllAvailable()
    before = len(seconds_of_batches(query))
    for number in range(scale.batches + 1):
        key = text_key("user-", f"CAST(rand() * {keys} AS BIGINT)")
        bench.write(stream, scale.batch, key, "concat('{\"PAGE\":', id, '}')")
        wait(query, before + number + 1)
        query.processAllAvailable()
    batches = seconds_of_batches(query)[before + 1 :]  # the first one warms up
    sql.stop()
    # A micro-batch may have begun before all of its records were written.
    return statistics.median(seconds / rows for rows, seconds in batches) * scale.batch


def pull(bench: Bench) -> Row:
    scale = bench.scale
    table = named("pulled")
    sql = bench.sql()
    sql.execute(
        f"CREATE TABLE {table} (name STRING PRIMARY KEY, city STRING, age INT) "
        f"WITH (kafka_topic='{table}', partitions={PARTITIONS});"
    )
    value = "concat('{\"CITY\":\"city ', id % 1000, '\",\"AGE\":', id % 100, '}')"
    bench.write(table, scale.pulled_keys, text_key("user-", "id"), value)
    times = []
    for number in range(scale.pulls + 1):
        key = random.randrange(scale.pulled_keys)
        began = time.perf_counter()
        [row] = sql.execute(f"SELECT * FROM {table} WHERE name = 'user-{key}';")[0].rows
        if number:  # the first one makes the index
            times.append((time.perf_counter() - began) * 1000)
        assert row == (f"user-{key}", f"city {key % 1000}", key % 100)
    return Row(
        f"pull query by key, {scale.pulled_keys:,} keys, p50",
        "ms",
        statistics.median(times),
        _MOST_MS,
        f"{_MOST_MS:.0f} ms",
        1.0,
        at_least=False,
    )
