"""`.lock`: one broker per log directory, whether Ottla or Apache Kafka."""

from __future__ import annotations

import fcntl
import os
from threading import Lock

from ottla.log.errors import LogDirectoryError

LOCK_FILE = ".lock"

# These locks belong to the process, so two brokers in one process would not exclude each other.
_held: set[str] = set()
_guard = Lock()


class DirectoryLock:
    """Lock held from construction to `release`. Owner: the log directory."""

    def __init__(self, directory: str) -> None:
        self._key = os.path.realpath(directory)
        with _guard:
            if self._key in _held:
                raise _in_use(directory)
            self._fd = os.open(
                os.path.join(directory, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._fd)
                raise _in_use(directory) from None
            _held.add(self._key)

    def release(self) -> None:
        with _guard:
            if self._key in _held:
                _held.discard(self._key)
                os.close(self._fd)


def _in_use(directory: str) -> LogDirectoryError:
    return LogDirectoryError(
        f"{directory} is in use by another broker: stop that one or choose another directory"
    )
