"""The broker's end of the cleaner's process: started when it is first needed, ended when it is not."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from ottla.log.cleaner.job import CleanJob

_MODULE = "ottla.log.cleaner.worker.main"
_PACKAGE_ROOT = str(Path(__file__).parents[3])
_END_SECONDS = 5
_LINE_LIMIT = 1 << 22


class WorkerDied(Exception):
    """The process ended in the middle of a job; the text says how."""


class WorkerProcess:
    """Invariant: at most one process, and at most one job in it. Owner: the event loop."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def run(self, job: CleanJob) -> AsyncGenerator[dict[str, Any]]:
        """The events of a job, the last one being `done`, `failed` or `cancelled`."""
        if self._process is None:
            await self._start()
        await self._send({"op": "clean", "job": job.to_json()})
        while True:
            try:
                line = await self._reader.readline()
            except OSError:  # it died with something unread
                line = b""
            if not line:
                raise WorkerDied(await self._reap())
            event = json.loads(line)
            yield event
            if event["event"] in ("done", "failed", "cancelled"):
                return

    async def cancel(self) -> None:
        """Ask the running job to stop; its events go on until it says that it has."""
        await self._send({"op": "cancel"})

    async def end(self) -> None:
        """Let the process go. It notices at once when it waits, and after a chunk when it works."""
        if self._process is None:
            return
        await self._reap()

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.to_thread(_spawn, theirs)
        except OSError as error:
            ours.close()
            raise WorkerDied(f"it could not be started: {error.strerror or error}") from None
        finally:
            theirs.close()
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=_LINE_LIMIT)

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            self._writer.write(json.dumps(message).encode() + b"\n")
            await self._writer.drain()
        except OSError:
            pass  # the reader sees the end as well, and says more about it

    async def _reap(self) -> str:
        process, self._process = self._process, None
        assert process is not None
        self._writer.close()
        code = await asyncio.to_thread(_wait, process)
        return f"the cleaner's process ended with {'signal' if code < 0 else 'code'} {abs(code)}"


def _spawn(standard_input: socket.socket) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, [_PACKAGE_ROOT, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _MODULE],
        stdin=standard_input.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # Ctrl-C is for the broker, which then ends it
    )


def _wait(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
