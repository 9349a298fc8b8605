"""The graph under construction: nodes by id, and edges with their rates."""

from __future__ import annotations

from ottla.console.web.charts import compact
from ottla.console.web.graph import Edge, Node
from ottla.console.web.visit import Visit

_MOST_PARTITIONS = 1000


class Flow:
    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self.nodes: dict[str, Node] = {}
        self.edges: list[Edge] = []
        self.problems: list[str] = []

    def topic(self, name: str) -> str:
        rate = self.rate(name)
        note = "" if rate is None else f"{compact(rate)}/s"
        href = self._visit.url("topics", name, "partitions")
        return self.add(Node(f"topic:{name}", name, "topic", note, href))

    def rate(self, topic: str) -> float | None:
        return self._visit.site.rates.of_topic(topic, _MOST_PARTITIONS) if topic else None

    def add(self, node: Node) -> str:
        self.nodes.setdefault(node.id, node)
        return node.id

    def link(
        self,
        source: str,
        target: str,
        *,
        rate: float | None = None,
        lag: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Add an edge. `rate` is in rows per second; `seconds` is the duration of a micro-batch."""
        parts = [] if rate is None else [f"{compact(rate)} rows/s"]
        parts += [] if lag is None else [f"lag {compact(lag)}"]
        parts += [] if seconds is None else [f"{seconds:.1f} s a batch"]
        self.edges.append(Edge(source, target, " · ".join(parts), rate, lag, seconds))
