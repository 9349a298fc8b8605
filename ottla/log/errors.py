"""What goes wrong with files: told to clients as KAFKA_STORAGE_ERROR, to operators as one sentence."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode, KafkaError


class CorruptSegmentError(KafkaError):
    """Bytes that are not what was written, with valid data behind them; the file is left as it is."""

    def __init__(self, file: str, position: int, reason: str) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{file} is corrupt at byte {position}: {reason}; it is not served"
        )
        self.file = file
        self.position = position


class LogDirectoryError(Exception):
    """A log directory that cannot be used; the text says why and what to do."""


def storage_error(action: str, error: OSError) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{action}: {error.strerror or error}")
