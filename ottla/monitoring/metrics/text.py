"""Prometheus' text format 0.0.4: samples of a metric, preceded by help and type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from ottla.monitoring.metrics.histogram import Histogram

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
