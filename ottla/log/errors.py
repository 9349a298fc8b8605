"""What goes wrong with files: clients get KAFKA_STORAGE_ERROR, operators one sentence. And batches that are refused
because of single records."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ottla.protocol.errors import ErrorCode, KafkaError

# What goes away by itself or by an operator's hand, and says nothing of the disk.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PASSING = _FULL | {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN}
# What only a disk or a file system that fails can say.
_DISK = {errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.EUCLEAN, errno.ENOTCONN}


class CorruptSegmentError(KafkaError):
    """Bytes that are not what was written, with valid data behind them; the file is left as it is."""

    def __init__(self, file: str, position: int, reason: str) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{file} is corrupt at byte {position}: {reason}; it is not served"
        )
        self.file = file
        self.position = position


class DamagedLogError(KafkaError):
    """A file of a log is missing, shorter than it was, or another one. All files are left as they are."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{file} {reason}. Nothing was changed: restore the file from a copy and restart the broker, "
            "or see 'Damage on disk' in docs/durability.md",
        )
        self.file = file


class StorageError(KafkaError):
    """A file could not be read or written; `cause` is what the system said."""

    def __init__(self, message: str, cause: OSError) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self.cause = cause


class RefusedRecordsError(KafkaError):
    """A batch that is not appended because of some of its records, named by their places in it."""

    def __init__(self, code: ErrorCode, message: str, places: Sequence[int]) -> None:
        super().__init__(code, message)
        self.places = places


class LogDirectoryError(Exception):
    """A log directory that cannot be used; the text says why and what to do."""


class UnusableDirectoryError(LogDirectoryError):
    """A log directory whose disk is to blame: a broker that has others can do without it."""


def storage_error(action: str, error: OSError) -> StorageError:
    return StorageError(f"{action}: {error.strerror or error}", error)


def is_passing(error: OSError) -> bool:
    """Whether trying again later makes sense: a full disk, above all."""
    return error.errno in _PASSING


def is_of_disk(error: OSError) -> bool:
    """Whether the whole disk is to blame, and not the one file."""
    return error.errno in _DISK
