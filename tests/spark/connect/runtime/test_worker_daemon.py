"""Promise: what forks the processes of tasks has the compiled loops loaded, and starts no thread by that."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from ottla.spark.connect.runtime.spark.worker_daemon import without_reader

_LOADS = """
import os
import ottla.spark.kernels, ottla.spark.sink.partitioner
from ottla.spark.connect.runtime.spark.worker_daemon import load_kernels
from ottla.spark.kernels import decoding, encoding

before = os.listdir("/proc/self/task")
load_kernels()
assert os.listdir("/proc/self/task") == before, "threads do not survive a fork"
loaded = [
    name
    for module in (decoding, encoding)
    for name, each in vars(module).items()
    if getattr(each, "signatures", None)
]
print(len(loaded))
"""


def test_kernels_are_loaded_before_tasks_are_forked() -> None:
    pytest.importorskip("numba")
    done = subprocess.run([sys.executable, "-c", _LOADS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3


def test_a_task_that_ends_after_spark_leaves_no_traceback() -> None:
    def answer(connection: socket.socket, authenticated: bool) -> int:
        with os.fdopen(os.dup(connection.fileno()), "wb", 0) as stream:
            stream.write(b"result")
            if not authenticated:
                raise ConnectionResetError
        return 0

    ours, sparks = socket.socketpair()
    with ours:
        with sparks:
            assert without_reader(answer)(ours, True) == 0
            with pytest.raises(ConnectionResetError):  # whatever else goes wrong is told
                without_reader(answer)(ours, False)
        assert without_reader(answer)(ours, True) == 1
