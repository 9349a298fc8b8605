"""Log and log cleaner settings, derived from topic and broker configurations."""

from __future__ import annotations

from dataclasses import dataclass

# Kafka's default: the largest array in Java.
NO_RECORD_LIMIT = 2**31 - 9
LONG_MAX = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Topic configs under Kafka's names (dots become underscores), with Kafka's defaults."""

    segment_bytes: int = 1024**3
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    max_message_bytes: int = 1024**2 + 12
    max_decompressed_message_bytes: int = NO_RECORD_LIMIT
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5
    min_insync_replicas: int = 1
    ottla_mirror_link: str = ""
    ottla_mirror_promoted: str = ""

    @property
    def is_mirror(self) -> bool:
        """True for a mirror topic. Only the mirror link writes, deletes and compacts its records."""
        return self.ottla_mirror_link != ""

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy and not self.is_mirror

    @property
    def max_segment_ms(self) -> int:
        """Limit of a segment's active time: only sealed segments are compacted, within max.compaction.lag.ms."""
        if self.compacted and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy and not self.is_mirror


@dataclass(slots=True)
class CleanerConfig:
    """The log.cleaner.* settings of a broker, under Kafka's names."""

    threads: int = 1
    backoff_ms: int = 15_000
    dedupe_buffer_size: int = 128 * 1024**2
    io_buffer_size: int = 512 * 1024
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = float("inf")
    idle_seconds: float = 60.0
