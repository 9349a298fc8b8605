"""From measured values to the figures of the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Literal

Better = Literal["higher", "lower"]
Summary = Literal["best", "median", "worst"]


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that `percent` of all values do not exceed."""
    if not values:
        raise ValueError("no values to take a percentile of")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def percentiles_us(nanoseconds: Sequence[int]) -> dict[str, float]:
    return {f"p{percent}_us": percentile(nanoseconds, percent) / 1e3 for percent in (50, 99)}


def best(values: Sequence[float], better: Better) -> float | None:
    if not values:
        return None
    return max(values) if better == "higher" else min(values)


def summary(values: Sequence[float], better: Better, of: Summary) -> float | None:
    """The best, the median or the worst of all repetitions."""
    if of == "median":
        return median(values) if values else None
    return best(values, better if of == "best" else "lower" if better == "higher" else "higher")


def advantage(ottla: float | None, kafka: float | None, better: Better) -> float | None:
    """How many times as good as Kafka: above 1 is better than Kafka, whichever way the unit points."""
    if not ottla or not kafka:
        return None
    return ottla / kafka if better == "higher" else kafka / ottla


def readable(value: float | None) -> str:
    """Three significant digits, thousands apart: 0.0123, 1.23, 12.3, 123, 12,345."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(size))
    return f"{value:.{digits}f}"
