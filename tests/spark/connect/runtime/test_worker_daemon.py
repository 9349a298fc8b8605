"""Promise: what forks the processes of tasks has the compiled loops loaded, and starts no thread by that."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
