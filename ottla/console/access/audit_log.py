"""Audit log of changes: user, address, action and outcome, as JSON lines in a file. The last ones stay in memory.

A change that cannot be logged is not made. A second file therefore reserves disk space: a change requires it, and if
the disk fills up in the meantime, the reserve makes room for the line.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

logger = logging.getLogger("ottla.console.audit")

_KEPT = 500
#: Room for the lines of all concurrent changes.
_ROOM = 64 << 10
_CHECK_SECONDS = 5.0


class CannotLog(Exception):
    """The change cannot be logged. The message gives the reason."""


class AuditLog:
    """Owner: the event loop. Changes are logged after they were attempted."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._reserve = None if file is None else file.with_name(f"{file.name}.reserve")
        self._last: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._writing = asyncio.Lock()
        #: Why the file cannot be written, as of the last attempt.
        self.problem: str | None = None
        self._checked = float("-inf")  # monotonic

    async def write(
        self,
        *,
        user: str,
        address: str,
        cluster: str,
        action: str,
        target: str,
        outcome: str,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "user": user,
            "address": address,
            "cluster": cluster,
            "action": action,
            "target": target,
            "outcome": outcome,
            "details": dict(details or {}),
        }
        self._last.append(entry)
        logger.info("%s: %s %s on %s by %s from %s", outcome, action, target, cluster, user, address)
        if self._file is None:
            return
        line = (json.dumps(entry, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        async with self._writing:
            try:
                await asyncio.to_thread(self._append, self._file, line)
                self.problem = None
            except OSError as error:
                self.problem = f"The audit log {self._file} cannot be written ({error.strerror})."
                logger.error("The audit log %s cannot be written: %s", self._file, error.strerror)

    async def ensure_room(self) -> None:
        """Check before a change. Raises CannotLog."""
        if self._file is None:
            return
        async with self._writing:
            self._checked = time.monotonic()
            try:
                await asyncio.to_thread(self._hold_room, self._file)
                self.problem = None
            except OSError as error:
                self.problem = f"The audit log {self._file} cannot be written ({error.strerror})."
                raise CannotLog(
                    f"The audit log {self._file} cannot be written ({error.strerror}). Every change is "
                    "logged first, so nothing was changed."
                ) from None

    async def check(self) -> str | None:
        """Return why changes are refused, checking the file at most every few seconds."""
        if self._file is not None and time.monotonic() - self._checked > _CHECK_SECONDS:
            with suppress(CannotLog):
                await self.ensure_room()
        return self.problem

    def last(self) -> list[dict[str, Any]]:
        return list(reversed(self._last))

    # In threads, one at a time

    def _hold_room(self, file: Path) -> None:
        os.close(_open(file))
        assert self._reserve is not None
        if not self._reserve.exists() or self._reserve.stat().st_size < _ROOM:
            try:
                self._reserve.write_bytes(bytes(_ROOM))
            except OSError:
                self._reserve.unlink(missing_ok=True)
                raise

    def _append(self, file: Path, line: bytes) -> None:
        try:
            _append_whole(file, line)
        except OSError:
            assert self._reserve is not None
            self._reserve.unlink()
            _append_whole(file, line)


def _open(file: Path) -> int:
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)


def _append_whole(file: Path, line: bytes) -> None:
    descriptor = _open(file)
    try:
        size = os.fstat(descriptor).st_size
        try:
            written = os.write(descriptor, line)
            while written < len(line):
                written += os.write(descriptor, line[written:])
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
