"""Expiry of snapshots and compaction of files, by the settings of the topic."""

from __future__ import annotations

import time

from ottla.spark.tables.lakes.catalogs import Lake
from ottla.spark.tables.lakes.lake import Conflict
from ottla.table_settings import TableSettings

_SECONDS_BETWEEN_EXPIRIES = 3600.0


class Maintenance:
    """Owner: the table job, in the thread that has just committed to the table."""

    def __init__(self, lake: Lake, settings: TableSettings) -> None:
        self._lake = lake
        self._settings = settings
        self._expired_at = time.monotonic()
        self._commits = 0

    def after_commit(self) -> None:
        """Compact after as many commits as files make compaction worthwhile, and expire now and then."""
        self._commits += 1
        least = self._settings.compaction_min_files
        if least and self._commits >= least:
            self._commits = 0
            self.compact()
        if time.monotonic() - self._expired_at >= _SECONDS_BETWEEN_EXPIRIES:
            self._expired_at = time.monotonic()
            self.expire()

    def compact(self, *, least: int | None = None) -> int:
        """Merge small files, and return their number. A conflict leaves the work to the next time."""
        table = self._lake.load(self._settings)
        if table is None:
            return 0
        wanted = self._settings.compaction_min_files if least is None else least
        try:
            return table.compact(self._settings.target_file_bytes, wanted)
        except Conflict:
            return 0

    def expire(self, *, older_than_ms: int | None = None) -> int:
        """Remove snapshots beyond the retention, and return their number."""
        retention = self._settings.snapshot_retention_ms
        if older_than_ms is None:
            if retention < 0:
                return 0
            older_than_ms = time.time_ns() // 1_000_000 - retention
        removed = 0
        for table in (self._lake.load(self._settings), self._lake.load_dead_letters(self._settings)):
            if table is not None:
                removed += table.expire(older_than_ms, self._settings.snapshots_kept)
        return removed
