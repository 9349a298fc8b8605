"""Line charts as SVG: drawn on the server without scripts, and styled with the page's colours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 640, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 8, 10, 22
_COLOURS = 8


def compact(value: float) -> str:
    """Format 1234567 as 1.2M."""
    for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e3 if suffix == "k" else limit)
            return f"{scaled:.1f}".rstrip("0").rstrip(".") + suffix
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"


def line_chart(series: Sequence[tuple[str, Points]], label: str, unit: str = "") -> Markup:
    """Draw series with shared axes. Fewer than two points draw nothing."""
    drawn = [(name, points) for name, points in series if len(points) > 1]
    if not drawn:
        return Markup('<p class="muted">The graph begins with the next measurements.</p>')
    first = min(points[0][0] for _, points in drawn)
    last = max(points[-1][0] for _, points in drawn)
    top = _round_up(max(max(value for _, value in points) for _, points in drawn))
    span = (last - first) or 1.0
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(when: float, value: float) -> str:
        x = _LEFT + inner_width * (when - first) / span
        y = _TOP + inner_height * (1 - value / top)
        return f"{x:.1f},{y:.1f}"

    parts: list[Any] = []
    for share in (0.0, 0.5, 1.0):
        y = _TOP + inner_height * (1 - share)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{compact(top * share)}</text>'
        )
    for when, x, anchor in ((first, _LEFT, "start"), (last, _WIDTH - _RIGHT, "end")):
        clock = time.strftime("%H:%M:%S", time.localtime(when))
        parts.append(f'<text class="tick" x="{x}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{clock}</text>')
    for index, (name, points) in enumerate(drawn):
        path = " ".join(place(when, value) for when, value in points)
        colour = index % _COLOURS
        now = compact(points[-1][1])
        if len(drawn) == 1:
            area = f"{_LEFT},{_TOP + inner_height} {path} {place(points[-1][0], 0)}"
            parts.append(f'<polygon class="area c{colour}" points="{area}"/>')
        parts.append(
            Markup('<polyline class="line c{}" points="{}"><title>{}: {} {}</title></polyline>').format(
                colour, path, name, now, unit
            )
        )
    now = ", ".join(f"{name} {compact(points[-1][1])}" for name, points in drawn[:8])
    described = f"{label}; now: {now} {unit}".strip()
    head = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
        _WIDTH, _HEIGHT, described
    )
    body = Markup("").join(part if isinstance(part, Markup) else Markup(part) for part in parts)
    return head + body + Markup("</svg>") + _legend(drawn)


def _legend(drawn: Sequence[tuple[str, Points]]) -> Markup:
    if len(drawn) < 2:
        return Markup("")
    items = Markup("").join(
        Markup('<li><span class="swatch c{}"></span>{}</li>').format(index % _COLOURS, escape(name))
        for index, (name, _) in enumerate(drawn)
    )
    return Markup('<ul class="legend">') + items + Markup("</ul>")


def _round_up(value: float) -> float:
    """Round up to 1, 2, 5, 10, 20, …"""
    if value <= 0:
        return 1.0
    scale = 1.0
    while scale * 10 <= value:
        scale *= 10
    while scale > value:
        scale /= 10
    return next(scale * step for step in (1, 2, 5, 10) if scale * step >= value)
