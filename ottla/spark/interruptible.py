"""Ctrl-C and SIGTERM while Spark starts: nothing can be lost yet, so the start ends at once instead of after it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interruptible_start(told: int = 2) -> Iterator[None]:
    """Kill the starting JVM on a signal, and raise KeyboardInterrupt, or SystemExit for SIGTERM.

    `told` is the descriptor of the stream for the answer. Only the main thread can do all this; another thread starts
    Spark as before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in heeded}
    known, terminal = descendants(), os.dup(told)  # the stream may be redirected meanwhile

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in heeded:
            signal.signal(each, signal.SIG_IGN)
        os.write(terminal, "Stopping…\n".encode())
        kill(descendants() - known)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    for number in heeded:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(terminal)


def descendants() -> set[int]:
    """Return the processes that this one has started, and theirs."""
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{waiting.pop()}/task").iterdir():
                children = {int(each) for each in (task / "children").read_text().split()}
                waiting += children - found
                found |= children
    return found


def kill(processes: set[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
