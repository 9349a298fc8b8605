"""The JSON lines of the verifiable producer and consumer."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable


def say(event: str, **fields: object) -> None:
    line = {"timestamp": round(time.time() * 1000), "name": event, **fields}
    print(json.dumps(line, separators=(",", ":"), ensure_ascii=False), flush=True)


def stop_on_signals(stop: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop())
