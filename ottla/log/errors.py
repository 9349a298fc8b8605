"""Storage errors: clients get KAFKA_STORAGE_ERROR, operators one sentence. Also batches refused for single records."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ottla.protocol.errors import ErrorCode, KafkaError

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
