"""Count records that pass a pipeline, and write the counts together with the records.

A pipeline writes its reports to the audit topic of its target cluster, in the same transaction as its records if it has
one. A report therefore exists exactly if the records do.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from itertools import repeat
from typing import Any, NamedTuple

from ottla.monitoring.audit.audit_topic import record_of
from ottla.monitoring.audit.committed import CommittedBatch
from ottla.monitoring.audit.count_reports import NO_PARTITION, CountReport
from ottla.monitoring.audit.counting import Tier, note_batch
from ottla.protocol.batch_header import BatchHeader

ENABLE = "ottla.audit.enable"
_TIER, _KNOWN_AS = "ottla.audit.tier", "ottla.audit.known.as"
_BUCKET, _CHECKSUMS = "ottla.audit.bucket.ms", "ottla.audit.checksums.enable"
#: Audit settings of every kind of pipeline.
AUDIT_OPTIONS = (ENABLE, _TIER, _KNOWN_AS, _BUCKET, _CHECKSUMS)


class BadAuditOption(ValueError):
    """An invalid setting. The message is one sentence that names it."""


def parse_tier(given: Mapping[str, str], default_tier: str) -> Tier | None:
    """Return None unless the audit is on. Raises BadAuditOption."""
    if not _flag(given, ENABLE, False):
        return None
    bucket = given.get(_BUCKET, "600000").strip()
    if not bucket.isdecimal() or not int(bucket):
        raise BadAuditOption(f"{_BUCKET} must be a number of milliseconds, not '{bucket}'.")
    name = given.get(_TIER, default_tier).strip()
    if not name:
        raise BadAuditOption(f"{_TIER} is empty. Set a name for this pipeline.")
    known_as = given.get(_KNOWN_AS, "").strip() or None
    return Tier(name, int(bucket), known_as, has_checksums=_flag(given, _CHECKSUMS, True))


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise BadAuditOption(f"{name} must be true or false, not '{text}'.")
    return text == "true"


class ReportColumns(NamedTuple):
    """Reports as records to write."""

    keys: list[bytes]
    values: list[bytes]


class PipelineCounter:
    """Records that passed since the last reports were taken. Owner: one task, in one thread."""

    def __init__(self, tier: Tier, host: str, without: Collection[str] = ()) -> None:
        """`without`: the pipeline's internal topics, which are not counted."""
        self._tier = tier
        self._host = host
        self._without = frozenset(without)
        self._reports: dict[str, CountReport] = {}

    def note(self, topic: str, keys: Any | None, values: Any, timestamps: Any) -> None:
        """Count Arrow columns: keys and values as text or bytes, timestamps as a numpy array of milliseconds."""
        if topic in self._without:
            return
        report = self._report(topic)
        listed: Iterable[Any] = repeat(None) if keys is None else keys.to_pylist()
        for at, key, value in zip(timestamps.tolist(), listed, values.to_pylist(), strict=False):
            report.note(at, _bytes(key), _bytes(value))

    def note_batch(self, topic: str, batch: Any, header: BatchHeader) -> None:
        note_batch(
            self._report(topic),
            CommittedBatch(True, header, batch, 0, header.base_offset, header.next_offset),
        )

    def _report(self, topic: str) -> CountReport:
        report = self._reports.get(topic)
        if report is None:
            tier = self._tier
            report = self._reports[topic] = CountReport(
                tier.topic(topic),
                tier.name,
                NO_PARTITION,
                -1,
                -1,
                0,
                self._host,
                tier.bucket_ms,
                has_checksums=tier.has_checksums,
            )
        return report

    def take(self) -> list[CountReport]:
        reports, self._reports = list(self._reports.values()), {}
        now_ms = time.time_ns() // 1_000_000
        for report in reports:
            report.time_ms = now_ms
        return [report for report in reports if report.records]

    def take_columns(self) -> ReportColumns:
        records = [record_of(report) for report in self.take()]
        return ReportColumns([each.key or b"" for each in records], [each.value or b"" for each in records])


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
