"""Audit balance as a continuous query that writes its findings to a topic.

The findings topic is compacted. A key is a bucket of a topic in a tier, and the value is the discrepancy. When late
reports resolve a bucket, its key gets a tombstone.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.produce import produce
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC
from ottla.monitoring.audit.committed import committed_batches
from ottla.monitoring.audit.tier_counts import Finding
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_format import Record
from ottla.spark.audit.balance import Terms, balance, read_tier_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

FINDINGS_TOPIC = "__ottla_audit_findings"

Key = tuple[str, int, str, str]


class FindingsTopic:
    """Findings topic, kept in sync with the counts. Used by one thread at a time."""

    def __init__(self, cluster: Cluster, topic: str = FINDINGS_TOPIC) -> None:
        self._cluster = cluster
        self._topic = topic
        self._known: dict[Key, Finding] | None = None

    def prepare(self) -> None:
        """Raises ClientError."""
        try:
            replicas = min(3, max(1, len(self._cluster.nodes())))
            configs = {"cleanup.policy": "compact"}
            create_topic(
                self._cluster, self._topic, partitions=1, replication_factor=replicas, configs=configs
            )
        except ClientError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        partition = TopicPartition(self._topic, 0)
        self._cluster.retrying(lambda: self._cluster.leader(partition), [self._topic])

    def read(self) -> dict[Key, Finding]:
        """Raises ClientError."""
        found: dict[Key, Finding] = {}
        for batch in committed_batches(self._cluster, TopicPartition(self._topic, 0), None):
            for record in batch.records():
                key = json.loads(record.key or b"null")
                if record.value is None:
                    found.pop(tuple(key), None)
                else:
                    found[tuple(key)] = Finding(**json.loads(record.value))
        return found

    def update(self, findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
        """Write the changes. Return new or changed findings, and resolved findings. Raises ClientError."""
        known = self.read() if self._known is None else self._known
        now = {_key(each): each for each in findings}
        changed = [each for key, each in now.items() if known.get(key) != each]
        settled = [each for key, each in known.items() if key not in now]
        at = time.time_ns() // 1_000_000
        records = [Record(0, at, _name(each), json.dumps(each._asdict()).encode()) for each in changed]
        records += [Record(0, at, _name(each), None) for each in settled]
        if records:
            produce(self._cluster, self._topic, records, 0)
        self._known = now
        return changed, settled


def _key(finding: Finding) -> Key:
    return finding.topic, finding.bucket_ms, finding.tier, finding.before


def _name(finding: Finding) -> bytes:
    return json.dumps(_key(finding)).encode()


def watch(
    spark: SparkSession,
    clusters: Sequence[Mapping[str, str]],
    findings: FindingsTopic,
    terms: Terms,
    *,
    interval: float = 60.0,
    topic: str = AUDIT_TOPIC,
    on_change: Callable[[list[Finding], list[Finding]], None] | None = None,
) -> Watching:
    """Compare the counts of clusters when they change, at most every `interval` seconds.

    Each cluster is given as options for `format("ottla")`.
    """
    checkpoint = tempfile.mkdtemp(prefix="ottla-audit-")

    def look(_: DataFrame, __: int) -> None:
        changed, settled = findings.update(balance(read_tier_counts(spark, clusters, topic), terms))
        if on_change is not None and (changed or settled):
            on_change(changed, settled)

    new = (
        spark.readStream.format("ottla")
        .options(**clusters[0], subscribe=topic, startingOffsets="earliest")
        .load()
    )
    for options in clusters[1:]:
        more = spark.readStream.format("ottla").options(
            **options, subscribe=topic, startingOffsets="earliest"
        )
        new = new.unionAll(more.load())
    query = (
        new.writeStream.foreachBatch(look)
        .queryName("ottla audit")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{int(interval * 1000)} milliseconds")
        .start()
    )
    return Watching(query, checkpoint)


class Watching:
    """Running audit query. Every check reads all counts, so the checkpoint is disposable."""

    def __init__(self, query: StreamingQuery, checkpoint: str) -> None:
        self.query = query
        self._checkpoint = checkpoint

    def stop(self) -> None:
        self.query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)
