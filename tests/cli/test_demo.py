"""Promise: one command demonstrates the whole system and ends without leaving a process behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


def start(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    pytest.importorskip("pyspark")
    environment = {**os.environ, "OTTLA_STATE_DIR": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-m", "ottla", "demo", "--master", "local[2]", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONUNBUFFERED": "1"},
    )


def descendants(pid: int) -> set[int]:
    """Return all descendants of a process."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found.update(children)
        waiting += children
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_shows_what_is_trending_and_ends_with_all_that_it_started(tmp_path: Path, number: int) -> None:
    with start(tmp_path, "--listen", "127.0.0.1:0") as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if re.search(r"^\d\d:\d\d  #\w+ \d+", line):
                break
        started = descendants(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, ""), said
    assert "Ottla is ready." in said
    assert "ottla consume tweets -b 127.0.0.1:" in said
    assert re.search(r"^Console +http://127.0.0.1:\d+$", said, re.MULTILINE)
    assert out.splitlines()[-1] == "Stopped cleanly."
    assert len(started) >= 4  # the broker, the feed, the pipeline and its JVM
    deadline = time.monotonic() + 60
    while any(map(is_alive, started)):
        assert time.monotonic() < deadline, "processes are left"
        time.sleep(0.05)
    assert not list(tmp_path.glob("ottla-demo-*"))


def test_a_port_that_is_taken_is_said_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with start(tmp_path, "--listen", f"127.0.0.1:{port}") as process:
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("Error: The broker did not start: ")
    assert str(port) in err
    assert len(err.splitlines()) == 1
