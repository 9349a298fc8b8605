"""EXPLAIN: the graph of a query, from its target topic down to its source topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ottla.sql.parsing.statements import Join, Window
from ottla.sql.planning.plan import Plan
from ottla.sql.pull.key_bounds import bounds
from ottla.sql.sources import Source

_UNITS = ((86_400_000, "DAY"), (3_600_000, "HOUR"), (60_000, "MINUTE"), (1000, "SECOND"), (1, "MILLISECOND"))
_MOST_COLUMNS = 8


@dataclass(frozen=True)
class Node:
    text: str
    inputs: tuple[Node, ...] = ()


def graph(plan: Plan, target: Source | None = None) -> str:
    node = _operators(plan)
    if target is not None:
        node = Node(f"write {target.kind} {target.name} to topic '{target.topic}'", (node,))
    return "\n".join(_drawn(node))


def _operators(plan: Plan) -> Node:
    select = plan.select
    node = _source(plan, select.source.alias)
    for join in select.joins:
        node = Node(_join(join), (node, _source(plan, join.right.alias)))
    if select.where is not None and not _is_lookup(plan):
        node = Node(f"filter {_sql(select.where)}", (node,))
    if select.partition_by:
        node = Node(f"repartition by {_list(select.partition_by)}", (node,))
    if select.group_by or plan.aggregation is not None:
        window = "" if select.window is None else f" in windows {_window(select.window)}"
        by = f" by {_list(select.group_by)}" if select.group_by else ""
        node = Node(f"aggregate{by}{window}", (node,))
    if select.having is not None:
        node = Node(f"filter groups {_sql(select.having)}", (node,))
    names = [f"{output.name} (key)" if output.is_key else output.name for output in plan.outputs]
    shown = names if len(names) <= _MOST_COLUMNS else [*names[: _MOST_COLUMNS - 1], "…"]
    node = Node(f"select {', '.join(shown)}", (node,))
    if select.limit is not None:
        node = Node(f"limit {select.limit}", (node,))
    return node


def _source(plan: Plan, alias: str) -> Node:
    source = plan.sources[alias]
    named = source.name if alias == source.name else f"{source.name} {alias}"
    formats = f"key {source.key_format}, value {source.value_format}"
    reads = "look up keys in the index of" if _is_lookup(plan) else "read"
    return Node(f"{reads} {source.kind} {named} from topic '{source.topic}' ({formats})")


def _is_lookup(plan: Plan) -> bool:
    return bounds(plan) is not None


def _join(join: Join) -> str:
    within = ""
    if join.before_ms is not None:
        times = dict.fromkeys((join.before_ms, join.after_ms or 0))
        within = f" within {', '.join(map(duration, times))}"
    return f"join {join.kind}{within} on {_sql(join.on)}"


def _window(window: Window) -> str:
    parts = [duration(window.size_ms)]
    if window.advance_ms is not None:
        parts.append(f"advance by {duration(window.advance_ms)}")
    if window.grace_ms is not None:
        parts.append(f"grace period {duration(window.grace_ms)}")
    return f"{window.kind} ({', '.join(parts)})"


def duration(milliseconds: int) -> str:
    for size, name in _UNITS:
        if milliseconds >= size and milliseconds % size == 0:
            count = milliseconds // size
            return f"{count} {name}{'' if count == 1 else 'S'}"
    return "0 SECONDS"


def _list(trees: Sequence[exp.Expr]) -> str:
    return ", ".join(map(_sql, trees))


def _sql(tree: exp.Expr) -> str:
    return str(tree.sql())


def _drawn(node: Node) -> list[str]:
    lines = [node.text]
    for number, each in enumerate(node.inputs, 1):
        last = number == len(node.inputs)
        first, *rest = _drawn(each)
        lines.append(f"{'└─' if last else '├─'} {first}")
        lines += [f"{'   ' if last else '│  '}{line}" for line in rest]
    return lines
