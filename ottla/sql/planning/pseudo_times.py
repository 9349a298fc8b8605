"""Comparison of ROWTIME, WINDOWSTART and WINDOWEND with times written as text."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlglot import exp

from ottla.sql.parsing.dialect import identifier_name
from ottla.sql.sources import WINDOW_COLUMNS

_COLUMNS = ("ROWTIME", *WINDOW_COLUMNS)


def milliseconds(text: str) -> int:
    """Parse ksqlDB's format: a year, a month, or a date with an optional partial time. The default zone is UTC."""
    if len(text) in (4, 7) and text.replace("-", "").isdigit():
        text = f"{text}-01-01"[:10]
    found = datetime.fromisoformat(text if "T" not in text or text[-1] != "T" else text[:-1])
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)


def with_milliseconds(node: exp.Expr) -> exp.Expr:
    """Replace text by milliseconds in a comparison or BETWEEN with such a column."""
    sides = list(node.iter_expressions())
    if any(_is_time(each) for each in sides):
        for each in sides:
            if isinstance(each, exp.Literal) and each.is_string:
                try:
                    each.replace(exp.Literal.number(milliseconds(each.name)))
                except ValueError:
                    continue  # stays text and is refused later
    return node


def _is_time(side: exp.Expr) -> bool:
    return (
        isinstance(side, exp.Column) and identifier_name(side.parts[-1]) in _COLUMNS and len(side.parts) < 3
    )
