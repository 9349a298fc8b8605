"""Polling for effects that a broker promises soon rather than immediately."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], Any], what: str, timeout: float = 60.0) -> Any:
    """Repeat the call until the result is true, and return it."""
    deadline = time.monotonic() + timeout
    pause = 0.01
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        time.sleep(pause)
        pause = min(pause * 2, 0.25)
    return answer
