"""The tables in docs/reference/sql-functions.md: `python -m tests.sql.expressions.page` writes them from the cases."""

from __future__ import annotations

from pathlib import Path

from tests.sql.expressions import (
    aggregates,
    collections,
    conditions,
    json_texts,
    numbers,
    refused,
    texts,
    times,
)

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sql-functions.md"
BEGIN, END = "<!-- functions:begin -->\n", "<!-- functions:end -->\n"

FAMILIES = [texts, numbers, conditions, times, collections, json_texts, aggregates]


def tables() -> str:
    """Return a table per family: function, number of cases, differences and refusals."""
    parts = []
    for family in FAMILIES:
        title = (family.__doc__ or "").strip().rstrip(".")
        rows = [f"**{title}**\n", "| function | cases | as in ksqlDB |", "|---|---|---|"]
        for function in dict.fromkeys(case.function for case in family.CASES):
            own = [case for case in family.CASES if case.function == function]
            notes = [f"`{case.expression}`: {case.different}" for case in own if case.different]
            notes += [f"refused: `{case.expression}`" for case in refused.CASES if case.function == function]
            result = "same" if not any(case.different for case in own) else "different"
            rows.append(f"| {function} | {len(own)} | {'; '.join([result, *notes])} |")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def page() -> str:
    """Return the expected page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    return before + BEGIN + tables() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page())
