"""Settings of a log, and its errors."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.protocol.errors import ErrorCode, KafkaError

# Log and log cleaner settings, derived from topic and broker configurations.

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
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    ottla_mirror_link: str = ""
    ottla_mirror_promoted: str = ""

    @property
    def is_mirror(self) -> bool:
        """True for a mirror topic. Only the mirror link writes, deletes and compacts its records."""
        return self.ottla_mirror_link != ""

    @property
    def is_tiered(self) -> bool:
        """True if older segments are, or were, copied to remote storage (KIP-405)."""
        return self.remote_storage_enable and not self.compacted and not self.is_mirror

    @property
    def copies_segments(self) -> bool:
        return self.is_tiered and not self.remote_log_copy_disable

    @property
    def kept_locally_ms(self) -> int:
        has_own = self.copies_segments and self.local_retention_ms != -2
        return self.local_retention_ms if has_own else self.retention_ms

    @property
    def kept_locally_bytes(self) -> int:
        has_own = self.copies_segments and self.local_retention_bytes != -2
        return self.local_retention_bytes if has_own else self.retention_bytes

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


# Storage errors: clients get KAFKA_STORAGE_ERROR, operators one sentence. Also batches refused for single records.

# Errors that pass or that an operator can fix, and that do not indicate a bad disk.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PASSING = _FULL | {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN}
# Errors that only a failing disk or file system reports.
_DISK = {errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.EUCLEAN, errno.ENOTCONN}


class CorruptSegmentError(KafkaError):
    """Corrupt bytes followed by valid data. The file stays unchanged."""

    def __init__(self, file: str, position: int, reason: str) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{file} is corrupt at byte {position}: {reason}; it is not served"
        )
        self.file = file
        self.position = position


class DamagedLogError(KafkaError):
    """A log file is missing, truncated, or replaced by another. All files stay unchanged."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{file} {reason}. Nothing was changed: restore the file from a copy and restart the broker, "
            "or see 'Damage on disk' in docs/explanation/durability.md",
        )
        self.file = file


class StorageError(KafkaError):
    """A file could not be read or written; `cause` is the system's error."""

    def __init__(self, message: str, cause: OSError) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self.cause = cause


class RefusedRecordsError(KafkaError):
    """A batch refused because of some records, named by their index."""

    def __init__(self, code: ErrorCode, message: str, places: Sequence[int]) -> None:
        super().__init__(code, message)
        self.places = places


class LogDirectoryError(Exception):
    """An unusable log directory. The message gives reason and fix."""


class UnusableDirectoryError(LogDirectoryError):
    """A log directory on a failed disk. A broker with other directories can continue without it."""


def storage_error(action: str, error: OSError) -> StorageError:
    return StorageError(f"{action}: {error.strerror or error}", error)


def is_temporary(error: OSError) -> bool:
    """Return True if a retry makes sense, above all for a full disk."""
    return error.errno in _PASSING


def is_of_disk(error: OSError) -> bool:
    """Return True if the whole disk has failed, rather than a single file."""
    return error.errno in _DISK
