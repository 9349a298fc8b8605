"""Charts and graphs as SVG."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

# Line charts as SVG: drawn on the server without scripts, and styled with the page's colours.

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


# Graphs as SVG, in columns from left to right. Pure.

_BOX, _HIGH, _GAP_X, _GAP_Y, _MARGIN = 200, 46, 110, 22, 20
_LINE = 12
_LETTER = 6
_WIDTHS = 4
_MOST_STEPS = 60
_Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Node:
    id: str
    label: str
    kind: str  # topic, query, pipeline, connector, mirror, cluster, group
    note: str = ""
    href: str = ""
    is_bad: bool = False


@dataclass(frozen=True)
class Edge:
    source: str
    target: str
    label: str = ""  # parts separated by ·, each on its own line
    rate: float | None = None
    lag: int | None = None
    batch_seconds: float | None = None


def columns(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[str, int]:
    """Return the column of each node, to the right of all its predecessors. Cycles are cut where they close."""
    incoming: dict[str, list[str]] = {node.id: [] for node in nodes}
    for edge in edges:
        if edge.source in incoming and edge.target in incoming and edge.source != edge.target:
            incoming[edge.target].append(edge.source)
    found: dict[str, int] = {}

    def column(node: str, path: frozenset[str]) -> int:
        if node in found:
            return found[node]
        before = [column(each, path | {node}) for each in incoming[node] if each not in path]
        depth = max(before, default=-1) + 1
        if not path:
            found[node] = depth
        return depth

    for node in nodes:
        found[node.id] = column(node.id, frozenset())
    return found


def draw(nodes: Sequence[Node], edges: Sequence[Edge]) -> Markup:
    placed = columns(nodes, edges)
    rows: dict[int, list[Node]] = {}
    for node in nodes:
        rows.setdefault(placed[node.id], []).append(node)
    at: dict[str, tuple[int, int]] = {}
    for number, members in sorted(rows.items()):
        for row, node in enumerate(sorted(members, key=lambda each: (_height(each, edges, at), each.label))):
            at[node.id] = (_MARGIN + number * (_BOX + _GAP_X), _MARGIN + row * (_HIGH + _GAP_Y))
    width = max((x for x, _ in at.values()), default=0) + _BOX + _MARGIN
    height = max((y for _, y in at.values()), default=0) + _HIGH + _MARGIN
    head = Markup(
        '<svg class="graph" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="group" '
        'aria-label="Graph of {2} nodes and {3} edges">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" '
        'markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 0 8 4 0 8z"/></marker></defs>'
    ).format(width, height, len(nodes), len(edges))
    drawn = [edge for edge in edges if edge.source in at and edge.target in at]
    # Labels last, so that no line crosses them.
    bad = {node.id for node in nodes if node.is_bad}
    widest = max((edge.rate or 0.0 for edge in drawn), default=0.0)
    body = Markup("").join([_line(edge, at, bad, widest) for edge in drawn] + _labels(drawn, at))
    boxes = Markup("").join(_node(node, *at[node.id]) for node in nodes)
    return head + body + boxes + Markup("</svg>")


def _height(node: Node, edges: Sequence[Edge], at: Mapping[str, tuple[int, int]]) -> float:
    """Return the average height of a node's predecessors, which reduces line crossings."""
    before = [at[edge.source][1] for edge in edges if edge.target == node.id and edge.source in at]
    return sum(before) / len(before) if before else 0.0


def _line(edge: Edge, at: Mapping[str, tuple[int, int]], bad: Container[str], widest: float) -> Markup:
    """Draw an edge, the wider the more rows flow, and in red beside a node that fails."""
    (x1, y1), (x2, y2) = _ends(edge, at)
    middle = (x1 + x2) // 2
    wide = 0 if not edge.rate else 1 + round((_WIDTHS - 1) * math.sqrt(edge.rate / widest))
    kind = f"w{wide}{' bad' if edge.source in bad or edge.target in bad else ''}"
    return Markup('<path class="{}" d="M{} {} C{} {} {} {} {} {}" marker-end="url(#arrow)"/>').format(
        kind, x1, y1, middle, y1, middle, y2, x2, y2
    )


def _label(edge: Edge, at: Mapping[str, tuple[int, int]], share: float, taken: list[_Box]) -> Markup:
    """Place a label near this share of the way, from 0 to 1, where no other label is."""
    (x1, y1), (x2, y2) = _ends(edge, at)
    middle = (x1 + x2) / 2
    rest = 1 - share
    x = rest**3 * x1 + 3 * rest * share * middle + share**3 * x2  # follows the line's curve
    y = (rest**3 + 3 * rest**2 * share) * y1 + (3 * rest * share**2 + share**3) * y2
    parts = edge.label.split(" · ")
    top = round(y) + 3 - _LINE * (len(parts) - 1) // 2
    half = max(map(len, parts)) * _LETTER // 2
    for step in range(_MOST_STEPS):
        shift = (step + 1) // 2 * _LINE * (1 if step % 2 else -1)
        box = (round(x) - half, top + shift - _LINE, round(x) + half, top + shift + _LINE * (len(parts) - 1))
        if not any(_overlap(box, each) for each in taken):
            break
    taken.append(box)
    top += shift
    spans = Markup("").join(
        Markup('<tspan x="{}" y="{}">{}</tspan>').format(round(x), top + _LINE * number, each)
        for number, each in enumerate(parts)
    )
    return Markup('<text class="edge-label" text-anchor="middle">{}</text>').format(spans)


def _labels(edges: Sequence[Edge], at: Mapping[str, tuple[int, int]]) -> list[Markup]:
    outgoing = Counter(edge.source for edge in edges)
    incoming = Counter(edge.target for edge in edges)
    taken: list[_Box] = [(x, y, x + _BOX, y + _HIGH) for x, y in at.values()]
    return [
        _label(edge, at, 0.35 if outgoing[edge.source] <= incoming[edge.target] else 0.65, taken)
        for edge in edges
        if edge.label
    ]


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _ends(edge: Edge, at: Mapping[str, tuple[int, int]]) -> tuple[tuple[int, int], tuple[int, int]]:
    (x1, y1), (x2, y2) = at[edge.source], at[edge.target]
    return (x1 + _BOX, y1 + _HIGH // 2), (x2, y2 + _HIGH // 2)


def _node(node: Node, x: int, y: int) -> Markup:
    label = node.label if len(node.label) <= 28 else node.label[:27] + "…"
    inner = Markup(
        '<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="7"/><text x="{tx}" y="{ty}">{label}</text>'
        '<text class="kind" x="{tx}" y="{ky}">{note}</text><title>{full}</title>'
    ).format(
        x=x, y=y, w=_BOX, h=_HIGH, tx=x + 10, ty=y + 19, ky=y + 36, label=label,
        note=f"{node.kind}{' · ' if node.note else ''}{node.note}", full=f"{node.kind} {node.label}: {node.note}",
    )  # fmt: skip
    group = Markup('<g class="{}{}">{}</g>').format(node.kind, " bad" if node.is_bad else "", inner)
    return Markup('<a href="{}">{}</a>').format(node.href, group) if node.href else group
