"""A graph as SVG, in columns from left to right: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

_BOX, _HIGH, _GAP_X, _GAP_Y, _MARGIN = 200, 46, 110, 22, 20
_LINE = 12


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
    label: str = ""  # parts with · between them, each on a line of its own
    rate: float | None = None
    lag: int | None = None
    batch_seconds: float | None = None


def columns(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[str, int]:
    """The column of each node: right of all that lead to it. What runs in a circle is cut where it is met again."""
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
    for number, members in rows.items():
        for row, node in enumerate(sorted(members, key=lambda each: each.label)):
            at[node.id] = (_MARGIN + number * (_BOX + _GAP_X), _MARGIN + row * (_HIGH + _GAP_Y))
    width = max((x for x, _ in at.values()), default=0) + _BOX + _MARGIN
    height = max((y for _, y in at.values()), default=0) + _HIGH + _MARGIN
    head = Markup(
        '<svg class="graph" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="group" '
        'aria-label="Graph of {2} nodes and {3} edges">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z"/></marker></defs>'
    ).format(width, height, len(nodes), len(edges))
    body = Markup("").join(_edge(edge, at) for edge in edges if edge.source in at and edge.target in at)
    boxes = Markup("").join(_node(node, *at[node.id]) for node in nodes)
    return head + body + boxes + Markup("</svg>")


def _edge(edge: Edge, at: Mapping[str, tuple[int, int]]) -> Markup:
    (x1, y1), (x2, y2) = at[edge.source], at[edge.target]
    x1, y1, y2 = x1 + _BOX, y1 + _HIGH // 2, y2 + _HIGH // 2
    middle = (x1 + x2) // 2
    line = Markup('<path d="M{} {} C{} {} {} {} {} {}" marker-end="url(#arrow)"/>').format(
        x1, y1, middle, y1, middle, y2, x2, y2
    )
    if not edge.label:
        return line
    parts = edge.label.split(" · ")
    top = (y1 + y2) // 2 - 4 - _LINE * (len(parts) - 1)
    spans = Markup("").join(
        Markup('<tspan x="{}" y="{}">{}</tspan>').format(middle, top + _LINE * number, each)
        for number, each in enumerate(parts)
    )
    return line + Markup('<text class="edge-label" text-anchor="middle">{}</text>').format(spans)


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
