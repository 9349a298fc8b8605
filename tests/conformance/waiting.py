"""Waiting for what a broker promises soon but not at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], Any], what: str, timeout: float = 60.0) -> Any:
    """Ask again until the answer is true, and give that answer."""
    deadline = time.monotonic() + timeout
    pause = 0.01
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        time.sleep(pause)
        pause = min(pause * 2, 0.25)
    return answer
