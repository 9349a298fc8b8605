from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from ottla.spark import workers

_LOADS = """
import os
import ottla.records.kernels, ottla.spark.sink.partitioner
from ottla.spark.workers import load_kernels
from ottla.records.kernels import decoding, encoding

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


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "_settled", False)
    before = gc.get_freeze_count()
    yield
    if gc.get_freeze_count() != before:
        gc.unfreeze()


@pytest.mark.usefixtures("nothing_kept")
def test_outside_of_tasks_nothing_is_kept_from_the_garbage_collector() -> None:
    before = gc.get_freeze_count()
    workers.settle()
    assert gc.get_freeze_count() == before


@pytest.mark.usefixtures("nothing_kept")
def test_a_worker_keeps_what_is_loaded_after_its_first_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_is_worker", lambda: True)
    workers.settle()
    kept = gc.get_freeze_count()
    assert kept > 1000
    more = [[] for _ in range(1000)]
    workers.settle()
    assert gc.get_freeze_count() <= kept, f"and not the {len(more)} that came later"


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
            assert workers.without_reader(answer)(ours, True) == 0
            with pytest.raises(ConnectionResetError):  # other errors are reported
                workers.without_reader(answer)(ours, False)
        assert workers.without_reader(answer)(ours, True) == 1
