"""The cleaner process: `python -m ottla.log.cleaner.worker.main`, with a socket to the broker as standard input.

It runs one job at a time, and ends when the socket closes, however the broker itself ended.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from select import select
from typing import Any

from ottla.log.cleaner.job import CleanJob, Progress
from ottla.log.cleaner.walk.walk import ENTRY_BYTES as REFERENCE_ENTRY_BYTES
from ottla.log.cleaner.walk.walk import MalformedRecords, ReferenceWalk, Walk
from ottla.log.cleaner.worker.compaction import CannotClean, Compaction
from ottla.log.config import is_temporary
from ottla.protocol.errors import KafkaError

_NICENESS = 15
_REPORT_SECONDS = 0.5
#: Smaller jobs finish in plain Python before the compiled code would be loaded.
_COMPILED_FROM_BYTES = 2 << 20


class Cancelled(Exception):
    """The log has changed during the job, or the broker is gone."""


class Connection:
    """Exchanges JSON lines with the broker. Owner: the process."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = b""

    def send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None when the broker has closed the socket."""
        while b"\n" not in self._buffer:
            data = self._socket.recv(1 << 16)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def pause(self, seconds: float) -> None:
        """Wait. A message arriving in the meantime cancels the job."""
        if select([self._socket], [], [], seconds)[0]:
            self.receive()
            raise Cancelled


class Reporter:
    """Sends progress at intervals. Owner: one job."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._next = time.monotonic() + _REPORT_SECONDS

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() >= self._next:
            self._connection.send({"event": "progress", **asdict(progress)})
            self._next = time.monotonic() + _REPORT_SECONDS


def walk_for(job: CleanJob, uncompiled: Callable[[str], None]) -> Walk:
    """Return the compiled walk for large jobs. If it cannot be loaded, call `uncompiled` with the reason."""
    offsets = job.first_uncleanable_offset - job.first_dirty_offset
    if sum(segment.size for segment in job.segments) >= _COMPILED_FROM_BYTES:
        try:
            from ottla.log.cleaner.walk.compiled import ENTRY_BYTES, CompiledWalk
        except (ImportError, OSError, SystemError) as error:
            uncompiled(str(error))
        else:
            most = job.dedupe_buffer_size // ENTRY_BYTES
            slots = max(16, min(most, 2 * offsets))
            return CompiledWalk(min(int(most * job.load_factor), slots - 1), slots)
    return ReferenceWalk(int(job.dedupe_buffer_size // REFERENCE_ENTRY_BYTES * job.load_factor))


def run(job: CleanJob, connection: Connection) -> dict[str, Any]:
    """Run a job and report each finished group. Return its outcome."""
    try:
        walk = walk_for(job, lambda reason: connection.send({"event": "uncompiled", "reason": reason}))
        compaction = Compaction(job, walk, connection.pause, Reporter(connection))
        for group in compaction.run():
            connection.send({"event": "group", **asdict(group)})
        return {"event": "done", **asdict(compaction.progress)}
    except Cancelled:
        return {"event": "cancelled"}
    except KafkaError as error:
        return {"event": "failed", "reason": error.message or str(error)}
    except MalformedRecords as error:
        return {"event": "failed", "reason": f"its records cannot be read: {error}"}
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return {
            "event": "failed",
            "reason": f"{error.strerror or error}{where}",
            "temporary": is_temporary(error),
            "errno": error.errno,
        }
    except (CannotClean, OverflowError, MemoryError) as error:
        return {"event": "failed", "reason": str(error) or type(error).__name__}


def main() -> None:
    os.nice(_NICENESS)
    connection = Connection(socket.socket(fileno=os.dup(sys.stdin.fileno())))
    try:
        while (message := connection.receive()) is not None:
            if message.get("op") == "clean":
                connection.send(run(CleanJob.from_json(message["job"]), connection))
    except (OSError, KeyboardInterrupt):
        pass  # the broker is gone


if __name__ == "__main__":
    main()
