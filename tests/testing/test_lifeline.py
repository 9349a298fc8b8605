"""Children do not outlive their parent, even if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.python_process import start_child

_DIES_AT_ONCE = """
import os, signal, sys
from pathlib import Path
from ottla.python_process import start_child
with Path(sys.argv[1]).open("wb") as log:
    child = start_child([sys.executable, "-c", "import time; print('there', flush=True); time.sleep(600)"], log)
print(child.pid, flush=True)
if sys.argv[2] == "later":
    while not Path(sys.argv[1]).read_text():
        pass
os.kill(os.getpid(), signal.SIGKILL)
"""

_LEAVES_A_CLUSTER = """
import os, signal
from ottla.testing import Cluster
cluster = Cluster(2).start()
servers = [each.process.pid for each in cluster.zookeeper.servers.values()]
print(cluster.pid(0), cluster.pid(1), *servers, flush=True)
cluster.pause(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_running(pid: int) -> bool:
    """Return True if the process runs; a zombie has ended."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip() != "" and not found.stdout.startswith("Z")


def wait_until_gone(pid: int, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


def killed(program: str, *arguments: str) -> list[int]:
    """Return the children of a process that kills itself."""
    command = [sys.executable, "-c", program, *arguments]
    parent = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=90, check=False)
    assert parent.returncode == -signal.SIGKILL
    return [int(pid) for pid in parent.stdout.split()]


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_child_ends_with_its_parent(tmp_path: Path, when: str) -> None:
    [child] = killed(_DIES_AT_ONCE, str(tmp_path / "log"), when)
    wait_until_gone(child)


def test_a_child_has_the_id_the_words_and_the_exit_code_of_its_program(tmp_path: Path) -> None:
    program = "import os, sys; print(os.getpid(), os.environ['MOOD'], sys.stdin.read() == ''); sys.exit(7)"
    with (tmp_path / "log").open("wb") as log:
        child = start_child([sys.executable, "-c", program], log, env={**os.environ, "MOOD": "mild"})
    assert child.wait(60) == 7
    assert (tmp_path / "log").read_text() == f"{child.pid} mild True\n"


def test_a_program_that_is_not_there_is_told_in_the_log(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        child = start_child([str(tmp_path / "nothing")], log)
    assert child.wait(60) != 0
    assert "FileNotFoundError" in (tmp_path / "log").read_text()


@pytest.mark.cluster
def test_a_cluster_ends_with_its_test() -> None:
    """This includes ZooKeeper, and a paused broker."""
    for each in killed(_LEAVES_A_CLUSTER):
        wait_until_gone(each)
