"""State of one partition of an operator, opened for one batch."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from ottla.spark.state.change_files import FORMAT, Entry
from ottla.spark.state.history import History
from ottla.spark.state.local_copy import HEADROOM, DamagedCopy, LocalCopy
from ottla.spark.state.places import LOCAL_DIRECTORY, StateError, StatePlace
from ottla.spark.state.value_codec import BadValue

_OLD = "format-1"


#: Turns all entries of format 1 into entries of the current format.
Upgrade = Callable[[LocalCopy], Iterator[Entry]]


def open_state(
    place: StatePlace, batch: int, *, headroom: int = HEADROOM, upgrade: Upgrade | None = None
) -> KeyedState:
    """Open the state of the previous batch. Use it in a `with` statement, and call `commit` at the end."""
    return KeyedState(place, batch, headroom, upgrade)


class KeyedState:
    """A `State` that is committed as a whole. Without `commit`, all changes are lost."""

    def __init__(self, place: StatePlace, batch: int, headroom: int, upgrade: Upgrade | None) -> None:
        self._batch = batch
        self._headroom = headroom
        self._upgrade = upgrade
        self._old: LocalCopy | None = None
        self._upgraded = False
        self._place = place
        self._history = History(place)
        self._private: Path | None = None
        self._lock: int | None = None
        self._directory = self._locked(place.local_directory())
        try:
            self._copy = LocalCopy(self._directory, headroom)
            if self._copy.version == batch:
                self._copy.back()
            if self._copy.version != batch - 1:
                self._history.restore(batch - 1, self._begin_restoring, self._restore_entries)
                self._finish_old()
                self._copy.made(batch - 1)
            self._copy.begin_batch()
        except BaseException as error:
            self.close()
            raise self._explained(error) from None
        self.get = self._copy.get
        self.put = self._copy.put
        self.delete = self._copy.delete

    def _locked(self, directory: Path) -> Path:
        """Lock the directory. If another attempt of the same task holds it, use a separate copy."""
        self._lock = _lock(directory)
        if self._lock is not None:
            for each in directory.glob("attempt-*"):
                left = _lock(each)
                if left is not None:  # its process was killed
                    shutil.rmtree(each, ignore_errors=True)
                    os.close(left)
            return directory
        self._private = Path(tempfile.mkdtemp(prefix="attempt-", dir=directory))
        self._lock = _lock(self._private)
        return self._private

    # Restoring

    def _begin_restoring(self) -> None:
        self._drop_old()
        self._copy.empty()

    def _restore_entries(self, number: int, entries: Iterator[Entry]) -> None:
        if number == FORMAT:
            self._finish_old()
            self._copy.fill(entries)
            return
        if self._old is None:
            self._old = LocalCopy(self._directory / _OLD, self._headroom)
            self._old.empty()
        self._old.fill(entries)

    def _finish_old(self) -> None:
        """Rewrite the entries of format 1. Files of the current format build on the result."""
        if self._old is None:
            return
        if self._upgrade is None:
            raise StateError(f"The state of {self._place.shown} has an old format that cannot be upgraded.")
        self._copy.fill(self._upgrade(self._old))
        self._drop_old()
        self._upgraded = True

    def _drop_old(self) -> None:
        if self._old is not None:
            self._old.close()
            self._old = None
        shutil.rmtree(self._directory / _OLD, ignore_errors=True)

    # Use by a batch

    def scan(
        self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        return self._copy.scan(prefix, start, stop, limit)

    def commit(self) -> None:
        """Commit the state of this batch, locally and under the checkpoint. Raises StateError."""
        try:
            self._history.write(self._batch, self._copy.changes())
        except OSError as error:
            raise StateError(
                f"The state of {self._place.shown} cannot be written under {self._place.checkpoint}: {error}."
            ) from None
        self._copy.finish_batch()
        if self._upgraded:
            # After this snapshot, nobody needs the files of the old format.
            self._history.snapshot(self._batch, self._copy.everything())
        self._history.tidy(self._batch, self._copy.everything)

    def _explained(self, error: BaseException) -> BaseException:
        import lmdb

        if isinstance(error, BadValue):
            return StateError(
                f"The state of {self._place.shown} under {self._place.checkpoint} cannot be used: {error}."
            )
        if isinstance(error, _damages()):
            return StateError(
                f"The copy of the state of {self._place.shown} in {self._directory} was damaged, and is removed. "
                "Start the query again: it makes the copy anew from its checkpoint."
            )
        if not isinstance(error, lmdb.Error):
            return error
        return StateError(
            f"The copy of the state of {self._place.shown} in {self._directory} cannot be used: {error}. "
            f"{LOCAL_DIRECTORY} names another directory."
        )

    def close(self) -> None:
        copy = getattr(self, "_copy", None)
        if copy is not None:
            copy.close()
            self._drop_old()
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> KeyedState:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        explained = None if error is None else self._explained(error)
        if isinstance(error, _damages()):
            self._copy.empty()
        self.close()
        if explained is not None and explained is not error:
            raise explained from error


def _damages() -> tuple[type[BaseException], ...]:
    import lmdb

    return DamagedCopy, lmdb.CorruptedError, lmdb.PageNotFoundError


def _lock(directory: Path) -> int | None:
    """Lock the directory until the descriptor is closed or the process ends. Return None if another process has it."""
    lock = os.open(directory / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
