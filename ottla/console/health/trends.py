"""Trends of measurements over time. Pure."""

from __future__ import annotations

from itertools import pairwise

from ottla.console.health.facts import Points

#: Number of last measurements that have to agree.
WINDOW = 6
#: A smaller lag is noise: it comes and goes between two commits.
LEAST_LAG = 100


def is_rising(points: Points) -> bool:
    """Return True if a lag rises steadily, above everything seen before.

    A working consumer commits every few seconds, so its lag goes up and down. It rarely reaches a new maximum in
    several measurements in a row.
    """
    window = points[-WINDOW:]
    if len(window) < WINDOW or window[-1][1] - window[0][1] < LEAST_LAG:
        return False
    if any(later <= earlier for (_, earlier), (_, later) in pairwise(window)):
        return False
    return window[-1][1] > max((value for _, value in points[:-WINDOW]), default=0)


def is_stuck(points: Points) -> bool:
    """Return True if a large lag has not moved for twice the window."""
    window = points[-2 * WINDOW :]
    return (
        len(window) == 2 * WINDOW and window[0][1] >= LEAST_LAG and len({value for _, value in window}) == 1
    )


def was_rising(points: Points) -> bool:
    """Return True if a lag has risen steadily and not begun to fall since."""
    if not points or points[-1][1] < LEAST_LAG:
        return False
    for last in range(len(points), WINDOW - 1, -1):
        if is_rising(points[:last]):
            return True
        if points[last - 1][1] < points[last - 2][1]:
            return False
    return False


def grown(points: Points, since: float) -> float:
    """Return the growth since a time."""
    recent = [value for when, value in points if when >= since]
    return recent[-1] - recent[0] if recent else 0.0


def per_second(points: Points) -> float:
    """Return the slope over the last measurements."""
    window = points[-WINDOW:]
    if len(window) < 2 or window[-1][0] <= window[0][0]:
        return 0.0
    return (window[-1][1] - window[0][1]) / (window[-1][0] - window[0][0])
