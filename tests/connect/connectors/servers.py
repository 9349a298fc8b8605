"""Debian's servers, started on demand in a temporary directory and on a free port."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_SECONDS = 20


def program(name: str, package: str) -> str:
    """Return the program's path, or skip the test and name the package to install."""
    found = shutil.which(name) or shutil.which(f"/usr/sbin/{name}")
    if found is None:
        pytest.skip(f"needs {name}: apt install {package}")
    return found


@contextlib.contextmanager
def running(command: Sequence[str], port: int, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the server and wait until it accepts connections."""
    with (
        open(directory / "server.log", "wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=directory) as process,
    ):
        try:
            _wait_for(port, process, directory)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for(port: int, process: subprocess.Popen[bytes], directory: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((directory / "server.log").read_text()) from None
            time.sleep(0.02)
