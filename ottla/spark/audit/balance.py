"""Audit balance as a pipeline over the records of audit topics.

Spark groups the reports of each place in write order. `Accepted` decides which reports count, as in
`ottla.monitoring.audit.tier_counts`. The rest are sums and joins. Checksum totals are decimals modulo 2^64.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.monitoring.audit.count_reports import CountReport, Round, entry_of
from ottla.monitoring.audit.tier_counts import DUPLICATION, LOSS, SUBSTITUTION, Accepted, Finding
from ottla.spark.arrow_map import map_in_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_MODULUS = 1 << 64
#: Columns that identify a place; `line` keeps the write order.
_LINES = (
    "topic string, tier string, partition int, topic_id string, cluster int, line bigint, time_ms bigint, "
    "bucket_ms bigint, checksums boolean, report string"
)
_CHANGES = "topic string, tier string, bucket bigint, count bigint, bytes bigint, checksum decimal(38,0)"


class Terms(NamedTuple):
    """Rules for comparing counts. `known_as` maps names of topics in these counts to their common names."""

    tiers: Sequence[str] = ()  # in the order in which records pass them; by first count if empty
    grace_ms: int = 600_000
    counts_only: bool = False
    known_as: Mapping[str, str] = MappingProxyType({})
    now_ms: int | None = None  # compare up to this time, even if a tier has been silent since


def balance(tier_counts: DataFrame, terms: Terms) -> list[Finding]:
    """Compare counts with the columns cluster (a number), offset and value.

    Return findings sorted by topic, bucket and tier.
    """
    lines = map_in_arrow(
        tier_counts.select("cluster", "offset", "value"), _lines(dict(terms.known_as)), _LINES
    )
    lines.persist()
    try:
        return sorted(
            Finding(*(row[name] for name in Finding._fields)) for row in _findings(lines, terms).collect()
        )
    finally:
        lines.unpersist()


def read_tier_counts(spark: SparkSession, clusters: Sequence[Mapping[str, str]], topic: str) -> DataFrame:
    """Read the counts of all clusters. Each cluster is given as options for `format("ottla")`."""
    from pyspark.sql import functions as f

    frames = [
        spark.read.format("ottla")
        .options(**options, subscribe=topic, **{"kafka.isolation.level": "read_committed"})
        .load()
        .select(f.lit(number).alias("cluster"), "offset", "value")
        for number, options in enumerate(clusters)
    ]
    return reduce(lambda some, more: some.unionAll(more), frames)


def _findings(lines: DataFrame, terms: Terms) -> DataFrame:
    from pyspark.sql import functions as f

    counts = _counts(lines)
    pairs = _pairs(lines, terms)
    theirs = counts.select(
        "topic",
        f.col("tier").alias("before"),
        "bucket",
        f.col("count").alias("expected"),
        f.col("checksum").alias("their_checksum"),
    )
    ours = counts.select("topic", "tier", "bucket", "count", "checksum")
    wanted = (
        pairs.join(counts.select("topic", f.col("tier").alias("either"), "bucket"), "topic")
        .where("either = tier OR either = before")
        .select("topic", "before", "tier", "bucket", "until", "length", "without")
        .distinct()
        .where("bucket + length <= until")
    )
    compared = (
        wanted.join(theirs, ["topic", "before", "bucket"], "left")
        .join(ours, ["topic", "tier", "bucket"], "left")
        .fillna(0, ["expected", "count"])
        .withColumn("missing", f.expr("expected - count"))
        .withColumn(
            "kind",
            f.expr(
                f"CASE WHEN missing > 0 THEN '{LOSS}' WHEN missing < 0 THEN '{DUPLICATION}' "
                f"WHEN NOT without AND coalesce(checksum, 0) <> coalesce(their_checksum, 0) THEN '{SUBSTITUTION}' END"
            ),
        )
        .where("kind IS NOT NULL")
    )
    return compared.select("topic", f.col("bucket").alias("bucket_ms"), *Finding._fields[2:])


def _counts(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    reports = lines.where("report IS NOT NULL")
    in_order = reports.repartition("topic", "tier", "partition", "topic_id").sortWithinPartitions(
        "cluster", "line"
    )
    changes = map_in_arrow(in_order, _accepted, _CHANGES)
    return changes.groupBy("topic", "tier", "bucket").agg(
        f.sum("count").alias("count"),
        f.sum("bytes").alias("bytes"),
        f.expr(f"sum(checksum) % {_MODULUS}BD").alias("checksum"),
    )


def _pairs(lines: DataFrame, terms: Terms) -> DataFrame:
    """Return the pairs of tiers to compare per topic, with end time, bucket length and checksum availability."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    tiers = list(terms.tiers)
    known = (
        lines.groupBy("topic", "tier", "partition")
        .agg(
            f.max("time_ms").alias("until"),
            f.min("time_ms").alias("began"),
            f.min(f.struct("cluster", "line")).alias("first"),
            f.min("checksums").alias("checksums"),
        )
        .groupBy("topic", "tier")
        .agg(
            f.min("until").alias("until"),
            f.min("began").alias("began"),
            f.min("first").alias("first"),
            f.min("checksums").alias("checksums"),
        )
    )
    lengths = (
        lines.where("report IS NOT NULL")
        .groupBy("topic")
        .agg(f.min_by("bucket_ms", f.struct("cluster", "line")).alias("length"))
    )
    if tiers:
        spark = lines.sparkSession
        given = spark.createDataFrame(
            [(place, *pair) for place, pair in enumerate(pairwise(tiers))],
            "place int, before string, tier string",
        )
        of_topic = known.groupBy("topic").agg(
            f.min(f.when(f.col("tier").isin(tiers), f.col("until"))).alias("until"),
            f.count(f.when(f.col("tier").isin(tiers), 1)).alias("found"),
        )
        if terms.now_ms is None:  # skip topics in which a tier has never counted
            of_topic = of_topic.where(f.col("found") == len(set(tiers)))
        pairs = of_topic.drop("found").crossJoin(given)
    else:
        order = Window.partitionBy("topic").orderBy("began", "first")
        pairs = known.select(
            "topic",
            "tier",
            f.lag("tier").over(order).alias("before"),
            f.min("until").over(Window.partitionBy("topic")).alias("until"),
        ).where("before IS NOT NULL")
    checks = known.select("topic", "tier", "checksums")
    return (
        pairs.join(lengths, "topic")
        .join(checks, ["topic", "tier"], "left")
        .join(checks.toDF("topic", "before", "checksums_before"), ["topic", "before"], "left")
        .fillna(True, ["checksums", "checksums_before"])
        .select(
            "topic",
            "before",
            "tier",
            ((f.col("until") if terms.now_ms is None else f.lit(terms.now_ms)) - terms.grace_ms).alias(
                "until"
            ),
            "length",
            (f.lit(terms.counts_only) | ~f.col("checksums") | ~f.col("checksums_before")).alias("without"),
        )
    )


def _lines(known_as: dict[str, str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Parse the records of an audit topic. Unknown records are skipped."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows: list[tuple[Any, ...]] = []
            for each in batch.to_pylist():
                rows += _read(each["cluster"], each["offset"], each["value"], known_as)
            yield _batch(rows, _LINES)

    return run


def _read(
    cluster: int, line: int, value: bytes | None, known_as: dict[str, str]
) -> Iterator[tuple[Any, ...]]:
    try:
        entry = entry_of(json.loads(value or b""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    if isinstance(entry, Round):
        for topic, partitions in entry.counted.items():
            known = known_as.get(topic, topic)
            for partition in partitions:
                yield known, entry.tier, partition, "", cluster, line, entry.time_ms, 0, True, None
        return
    entry.topic = known_as.get(entry.topic, entry.topic)
    yield (
        entry.topic, entry.tier, entry.partition, entry.topic_id, cluster, line, entry.time_ms, entry.bucket_ms,
        entry.has_checksums, json.dumps(entry.to_json()),
    )  # fmt: skip


def _accepted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the contribution of each report in write order. Replaced reports are subtracted."""
    places: dict[tuple[Any, ...], Accepted] = {}
    for batch in batches:
        rows: list[tuple[Any, ...]] = []
        for each in batch.to_pylist():
            report = CountReport.from_json(json.loads(each["report"]))
            if report.has_offsets:
                place = (report.topic, report.tier, report.partition, report.topic_id)
                counts, replaced = places.setdefault(place, Accepted()).take(report)
                if not counts:
                    continue
                for gone in replaced:
                    rows += _changes(gone, -1)
            rows += _changes(report, 1)
        yield _batch(rows, _CHANGES)


def _changes(report: CountReport, sign: int) -> Iterator[tuple[Any, ...]]:
    from decimal import Decimal

    for at, each in report.buckets.items():
        checksum = sign * each.checksum % _MODULUS
        yield report.topic, report.tier, at, sign * each.count, sign * each.bytes, Decimal(checksum)


def _batch(rows: list[tuple[Any, ...]], schema: str) -> pa.RecordBatch:
    import pyarrow as pa

    types = {
        "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(),
        "decimal(38,0)": pa.decimal128(38, 0),
    }  # fmt: skip
    fields = [each.strip().split(" ") for each in schema.split(", ")]
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, types[kind]) for column, (_, kind) in zip(columns, fields, strict=True)],
        names=[name for name, _ in fields],
    )
