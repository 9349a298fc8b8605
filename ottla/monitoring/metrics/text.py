"""Prometheus' text format 0.0.4, distributions, and process metrics."""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

# Distribution of values: a count per bucket, four buckets per doubling.

# Values above 2^40 share the last bucket: in microseconds that is twelve days.
_BITS = 40
_BUCKETS = (_BITS - 1) * 4


class Histogram:
    """Counts and sums all values; quantiles cover the values since the last two calls of `rotate`.

    A quantile is off by an eighth at most. There is no lock: one thread adds.
    """

    __slots__ = ("_before", "_now", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self._now = [0] * _BUCKETS
        self._before = [0] * _BUCKETS

    def add(self, value: int, weight: int = 1) -> None:
        """`weight`: number of values that this one represents."""
        if value < 4:
            place = value if value > 0 else 0
        else:
            bits = value.bit_length()
            place = ((bits - 2) << 2) | ((value >> (bits - 3)) & 3) if bits <= _BITS else _BUCKETS - 1
        self._now[place] += weight
        self.count += weight
        self.total += value * weight

    def rotate(self) -> None:
        """Drop values from before the last call from the quantiles."""
        self._before, self._now = self._now, [0] * _BUCKETS

    def quantile(self, quantile: float) -> float:
        """Return the value below which this share of all values lies; 0 without values."""
        buckets = [now + before for now, before in zip(self._now, self._before, strict=True)]
        wanted = quantile * sum(buckets)
        seen = 0
        for place, count in enumerate(buckets):
            if count and seen + count >= wanted:
                low, high = _bounds(place)
                return low + (high - low) * max(0.0, wanted - seen) / count if high - low > 1 else float(low)
            seen += count
        return 0.0


def _bounds(place: int) -> tuple[int, int]:
    if place < 4:
        return place, place + 1
    shift = (place >> 2) - 1
    low = (4 | (place & 3)) << shift
    return low, low + (1 << shift)


# Prometheus' text format 0.0.4: samples of a metric, preceded by help and type.

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Quantiles that the usual exporter shows for Kafka's timers.
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)

_QUANTILE_LABELS = tuple(
    (quantile, f'quantile="{text}"')
    for quantile, text in zip(QUANTILES, ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999"), strict=True)
)

Number = int | float
Samples = Iterable[tuple[str, Number]]


def labels(**values: object) -> str:
    """Return `topic="a",partition="0"`, to be put between braces. A trailing _ avoids Python keywords."""
    return ",".join(f'{name.rstrip("_")}="{_escaped(str(value))}"' for name, value in values.items())


def header(name: str, kind: str, about: str) -> str:
    about = about.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


def line(name: str, value: Number, label: str = "") -> str:
    return f"{name}{{{label}}} {number(value)}\n" if label else f"{name} {number(value)}\n"


def gauge(name: str, about: str, value: Number, label: str = "") -> str:
    return header(name, "gauge", about) + line(name, value, label)


def counter(name: str, about: str, value: Number, label: str = "") -> str:
    return header(name, "counter", about) + line(name, value, label)


def family(name: str, kind: str, about: str, samples: Samples) -> Iterator[str]:
    """Render a metric with many label sets; nothing without samples."""
    first = True
    for label, value in samples:
        if first:
            yield header(name, kind, about)
            first = False
        yield line(name, value, label)


def summary(
    name: str,
    about: str,
    histograms: Mapping[str, Histogram],
    *,
    scale: float = 1.0,
    counts: Mapping[str, int] | None = None,
) -> Iterator[str]:
    """Render quantiles of the last minutes, with total count and sum. `scale` is the unit of a value.

    `counts` are exact counts by label for sampled histograms; the sum is scaled accordingly.
    """
    if histograms:
        yield header(name, "summary", about)
    for label, histogram in histograms.items():
        before = f"{label}," if label else ""
        for quantile, text in _QUANTILE_LABELS:
            yield line(name, histogram.quantile(quantile) * scale, before + text)
        count, total = histogram.count, histogram.total * scale
        if counts is not None and label in counts and count:
            count, total = counts[label], total * counts[label] / count
        yield line(f"{name}_count", count, label)
        yield line(f"{name}_sum", total, label)


def number(value: Number) -> str:
    if isinstance(value, int):  # includes bool
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


# Process metrics of the operating system, under the names of Prometheus' own clients.

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
