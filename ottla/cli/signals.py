"""Ctrl-C and SIGTERM as the normal end of a long-running command."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn


class StopRequest:
    """Not a threading.Event, whose lock the main thread may hold when its own signal handler sets it."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        if not self._is_set:
            time.sleep(seconds)
        return self._is_set


def ending_signals(*others: signal.Signals) -> tuple[signal.Signals, ...]:
    """SIGTERM; Ctrl-C and `others` unless this process was started with them ignored.

    A shell ignores SIGINT in what a script runs in the background, `nohup` ignores SIGHUP. A Ctrl-C is meant for the
    script then, and Java leaves the signal ignored too.
    """
    heeded = (number for number in (signal.SIGINT, *others) if signal.getsignal(number) is not signal.SIG_IGN)
    return (signal.SIGTERM, *heeded)


def end_at_once(code: int) -> NoReturn:
    """End this process and all that it has started, without waiting for a thread that cannot be interrupted."""
    from ottla.spark.interruptible import descendants, kill

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    kill(descendants())
    os._exit(code)


@contextmanager
def stop_requested(*others: signal.Signals) -> Iterator[StopRequest]:
    """Set by the first signal, including `others`. A second signal has its original effect."""
    stop = StopRequest()
    before = {number: signal.getsignal(number) for number in ending_signals(*others)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        restore()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        restore()
