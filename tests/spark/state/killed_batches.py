"""Batches in processes that kill themselves, each slightly later than the previous one. Run by test_keyed_state.py.

Prints the number of kills. Fails unless the next process finds the state before the batch, or after it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import lmdb  # noqa: F401
import pyarrow.fs  # noqa: F401  # once, and not in each process

from ottla.spark.state import StatePlace, local_copy, open_state

local_copy._CHANGES_PER_TRANSACTION = 5
PLACE = StatePlace(f"{sys.argv[1]}/checkpoint", "query", "join", 0)


def forked(work: Callable[[], None]) -> bool:
    """Return True if the process completed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status and not os.WIFSIGNALED(status):
        sys.exit(1)
    return status == 0


def killed_after(calls: int) -> None:
    left = calls

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        if event in ("call", "c_call"):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def run(batch: int, calls: int | None) -> None:
    if calls is not None:
        killed_after(calls)
    with open_state(PLACE, batch) as state:
        for key in range(batch % 3, 12, 2):
            state.put(b"%d" % key, b"%d" % batch)
        state.delete(b"%d" % (batch % 12))
        state.commit()


def expected(last: int) -> dict[bytes, bytes]:
    held: dict[bytes, bytes] = {}
    for batch in range(last + 1):
        held |= {b"%d" % key: b"%d" % batch for key in range(batch % 3, 12, 2)}
        held.pop(b"%d" % (batch % 12), None)
    return held


def check(batch: int) -> None:
    with open_state(PLACE, batch) as state:
        found = dict(state.scan())
    assert found == expected(batch - 1), (batch, found, expected(batch - 1))


killed = 0
for batch in range(18):
    for calls in range(batch * 5, 500, 90):
        if forked(lambda batch=batch, calls=calls: run(batch, calls)):  # type: ignore[misc]
            break
        killed += 1
        if calls % 2:
            forked(lambda batch=batch: check(batch))  # type: ignore[misc]
    forked(lambda batch=batch: run(batch, None))  # type: ignore[misc]
    forked(lambda batch=batch: check(batch + 1))  # type: ignore[misc]
print(killed)
