"""The soak's plot: memory and open files of each process over time, and the faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from pathlib import Path

from tests.soak.resources import Sample

_COLOURS = (
    "#2563eb",
    "#dc2626",
    "#059669",
    "#d97706",
    "#7c3aed",
    "#0891b2",
    "#be185d",
    "#4d7c0f",
    "#475569",
    "#a16207",
)
_WIDTH, _LEFT, _PANEL, _GAP, _LEGEND = 900, 70, 230, 60, 190


def write_plot(
    path: Path, samples: Mapping[str, Sequence[Sample]], faults: Sequence[tuple[float, str]], title: str
) -> None:
    span = max((each.at for series in samples.values() for each in series), default=1.0)
    height = 2 * (_PANEL + _GAP) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + _LEGEND} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH + _LEGEND}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    for number, (name, unit) in enumerate((("mb", "memory (RSS), MB"), ("files", "open files"))):
        top = 44 + number * (_PANEL + _GAP)
        series = {
            role: [(each.at, float(getattr(each, name))) for each in held] for role, held in samples.items()
        }
        parts += _panel(top, span, series, faults, unit)
    parts.append("</svg>")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n")


def _panel(
    top: int,
    span: float,
    series: Mapping[str, Sequence[tuple[float, float]]],
    faults: Sequence[tuple[float, str]],
    unit: str,
) -> list[str]:
    highest = max((value for held in series.values() for _, value in held), default=1.0) * 1.05 or 1.0
    right = _WIDTH - 10

    def x(at: float) -> float:
        return _LEFT + (right - _LEFT) * at / span

    def y(value: float) -> float:
        return top + _PANEL * (1 - value / highest)

    parts = [f'<text x="{_LEFT}" y="{top - 6}" fill="#475569">{unit}</text>']
    for step in range(5):
        value = highest * step / 4
        parts.append(
            f'<line x1="{_LEFT}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e2e8f0"/>'
            f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#475569">{value:,.0f}</text>'
        )
    for at, kind in faults:
        parts.append(
            f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top + _PANEL}" y2="{top + _PANEL + 6}" '
            f'stroke="#94a3b8"><title>{escape(kind)}</title></line>'
        )
    for step in range(7):
        at = span * step / 6
        parts.append(
            f'<text x="{x(at):.1f}" y="{top + _PANEL + 20}" text-anchor="middle" fill="#475569">'
            f"{at / 60:.0f} min</text>"
        )
    for number, ((role, held), colour) in enumerate(
        zip(sorted(series.items()), cycle(_COLOURS), strict=False)
    ):
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in held)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        line = top + 12 + number * 17
        parts.append(
            f'<rect x="{_WIDTH + 6}" y="{line - 9}" width="10" height="10" fill="{colour}"/>'
            f'<text x="{_WIDTH + 22}" y="{line}">{escape(role)}</text>'
        )
    return parts
