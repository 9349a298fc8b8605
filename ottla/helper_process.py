"""A process beside the broker for work that must not keep its event loop busy. Both sides send lines of JSON."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from contextlib import suppress
from typing import Any

from ottla.python_process import python_command, python_environment

_END_SECONDS = 5
_LINE_LIMIT = 1 << 22


class HelperProcess:
    """A module of ours, run as a program. It ends by itself when its standard input does.

    Invariant: `end` waits for every started process, even if its starter was cancelled.
    Owner: the event loop.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Raises OSError."""
        ours, theirs = socket.socketpair()
        spawning = asyncio.ensure_future(asyncio.to_thread(_spawn, self._module, theirs))
        try:
            self._process = await asyncio.shield(spawning)
            self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=_LINE_LIMIT)
        except BaseException:
            # A thread cannot be cancelled: the process that it starts is there a moment later.
            with suppress(OSError):
                self._process = await spawning
            ours.close()
            raise
        finally:
            theirs.close()

    async def send(self, message: dict[str, Any]) -> None:
        assert self._writer is not None
        with suppress(OSError):  # the reader sees the end as well
            self._writer.write(json.dumps(message).encode() + b"\n")
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return its next message; None if it has ended."""
        try:
            line = await self._reader.readline()
        except OSError:  # it died with something unread
            line = b""
        if not line:
            return None
        event: dict[str, Any] = json.loads(line)
        return event

    async def end(self) -> int:
        """Let it go: it notices at once when it waits. Returns its exit code."""
        process, self._process = self._process, None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        return 0 if process is None else await asyncio.to_thread(_wait, process)


def _spawn(module: str, standard_input: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        python_command("-m", module),
        stdin=standard_input.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=python_environment(),
        start_new_session=True,  # Ctrl-C is for the broker, which then ends it
    )


def _wait(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
