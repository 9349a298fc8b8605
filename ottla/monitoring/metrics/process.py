"""Process metrics of the operating system, under the names of Prometheus' own clients."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from ottla.monitoring.metrics.text import counter, gauge

_STARTED = time.time()
_PAGE = resource.getpagesize()


def process_metrics() -> Iterator[str]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    yield counter("process_cpu_seconds_total", "CPU time of the process.", seconds)
    yield gauge("process_start_time_seconds", "When the process started.", _STARTED)
    yield gauge("process_max_fds", "File descriptors that it may have.", _most_descriptors())
    try:
        yield gauge("process_open_fds", "File descriptors that it has.", len(os.listdir("/proc/self/fd")))
        virtual, resident = Path("/proc/self/statm").read_text().split()[:2]
    except OSError:
        return  # not Linux
    yield gauge("process_virtual_memory_bytes", "Address space.", int(virtual) * _PAGE)
    yield gauge("process_resident_memory_bytes", "Memory in use.", int(resident) * _PAGE)


def _most_descriptors() -> float:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf") if limit == resource.RLIM_INFINITY else limit
