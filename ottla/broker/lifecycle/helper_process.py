"""A process beside the broker that does what must not keep its event loop busy; lines of JSON go both ways."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_PACKAGE_ROOT = str(Path(__file__).parents[3])
_END_SECONDS = 5
_LINE_LIMIT = 1 << 22


class HelperProcess:
    """A module of ours, run as a program. It ends by itself when its standard input does. Owner: the event loop."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Raises OSError."""
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.to_thread(self._spawn, theirs)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=_LINE_LIMIT)

    async def send(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # the reader sees the end as well
            self._writer.write(json.dumps(message).encode() + b"\n")
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """What it says next; None if it has ended."""
        try:
            line = await self._reader.readline()
        except OSError:  # it died with something unread
            line = b""
        if not line:
            return None
        event: dict[str, Any] = json.loads(line)
        return event

    async def end(self) -> int:
        """Let it go. Returns its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        self._writer.close()
        return await asyncio.to_thread(_wait, process)

    def _spawn(self, standard_input: socket.socket) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, [_PACKAGE_ROOT, os.environ.get("PYTHONPATH")]))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", self._module],
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
