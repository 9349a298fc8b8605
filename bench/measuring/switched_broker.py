"""A broker whose metrics are switched on and off several times a second, and which measures itself meanwhile.

    python -m bench.measuring.switched_broker FIGURES start --metrics …

Two processes differ by several percent for no reason that anybody could name, and so does one process from minute to
minute. Two quarters of a second beside each other differ by what is switched. When the broker gets SIGUSR1, it writes
to FIGURES, as JSON, the CPU time per Produce request of each window, in microseconds: `{"off": […], "on": […]}`.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

from ottla.broker.metrics.broker_metrics import BrokerMetrics
from ottla.cli.main import main

#: Metrics do something ten times a second.
WINDOW_SECONDS = 0.25
#: A window with fewer requests was not busy.
_LEAST_REQUESTS = 100
_PRODUCE = 0


class Switch:
    def __init__(self, metrics: BrokerMetrics, file: Path) -> None:
        self._metrics = metrics
        self._file = file
        self._loop = metrics.broker.loop
        self._is_on = True
        self._windows: dict[str, list[float]] = {"off": [], "on": []}
        self._before = self._now()
        self._loop.add_signal_handler(signal.SIGUSR1, self._write)
        self._loop.call_later(WINDOW_SECONDS, self._switch)

    def _now(self) -> tuple[float, int]:
        served = self._metrics.broker.dispatcher.served()
        return time.thread_time(), sum(each.requests for each in served if each.api.key == _PRODUCE)

    def _switch(self) -> None:
        (began, before), (ended, after) = self._before, self._now()
        if after - before >= _LEAST_REQUESTS:
            found = self._windows["on" if self._is_on else "off"]
            found.append((ended - began) / (after - before) * 1e6)
        self._is_on = not self._is_on
        if self._is_on:
            self._metrics.start()
        else:
            self._metrics.stop()
        self._before = self._now()
        self._loop.call_later(WINDOW_SECONDS, self._switch)

    def _write(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self._windows))
        fresh.rename(self._file)
        self._windows = {"off": [], "on": []}


def _with_switch(file: Path) -> None:
    start = BrokerMetrics.start

    def start_switched(metrics: BrokerMetrics) -> None:
        BrokerMetrics.start = start  # type: ignore[method-assign]
        start(metrics)
        Switch(metrics, file)

    BrokerMetrics.start = start_switched  # type: ignore[method-assign]


if __name__ == "__main__":
    _with_switch(Path(sys.argv.pop(1)))
    sys.exit(main())
