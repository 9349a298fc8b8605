"""Audit metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ottla.client.cluster import Cluster
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC, FollowedTierCounts
from ottla.monitoring.audit.tier_counts import TierCounts
from ottla.monitoring.metrics.text import family, labels

_GRACE_MS = 600_000


class AuditMetrics:
    """Reads new book entries before each rendering. Used by one thread at a time."""

    def __init__(self, cluster: Cluster, topic: str = AUDIT_TOPIC, grace_ms: int = _GRACE_MS) -> None:
        self._tier_counts = FollowedTierCounts(cluster, topic)
        self._grace_ms = grace_ms

    def lines(self) -> list[str]:
        """Return no lines if nothing is counted. Raises ClientError."""
        return list(audit_lines(self._tier_counts.catch_up(), self._grace_ms))


def audit_lines(tier_counts: TierCounts, grace_ms: int) -> Iterator[str]:
    yield from family(
        "ottla_audit_records_total",
        "counter",
        "Records that a tier has counted.",
        (
            (labels(topic=topic, tier=tier), sum(each.count for each in buckets.values()))
            for (topic, tier), buckets in sorted(tier_counts.counts.items())
        ),
    )
    yield from family(
        "ottla_audit_last_count_seconds",
        "gauge",
        "When a tier counted last, in seconds since 1970.",
        (
            (labels(topic=topic, tier=tier), at / 1000)
            for (topic, tier), at in sorted(tier_counts.times.items())
        ),
    )
    records: Counter[str] = Counter()
    buckets: Counter[str] = Counter()
    for topic in tier_counts.topics:
        for finding in tier_counts.balance(topic, grace_ms=grace_ms):
            label = labels(topic=topic, tier=finding.tier, kind=finding.kind)
            records[label] += abs(finding.missing)
            buckets[label] += 1
    yield from family(
        "ottla_audit_unbalanced_buckets",
        "gauge",
        "Buckets in which a tier has something else than the one before it.",
        sorted(buckets.items()),
    )
    yield from family(
        "ottla_audit_missing_records",
        "gauge",
        "Records that are missing, or too many.",
        sorted(records.items()),
    )
