"""The table in docs/reference/sql-and-ksqldb.md: `python -m tests.sql.cases.page` writes it and counts the cases.

Nothing here needs Spark.
"""

from __future__ import annotations

from pathlib import Path

from tests.sql.cases.case import Case
from tests.sql.cases.modules import all_cases

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sql-and-ksqldb.md"
BEGIN, END = "<!-- cases:begin -->\n", "<!-- cases:end -->\n"


def table() -> str:
    """Return the table: cases, differences and refusals per statement or feature."""
    cases = all_cases()
    rows = ["| feature | cases | as in ksqlDB |", "|---|---|---|"]
    for feature in dict.fromkeys(case.grouped for case in cases):
        rows.append(_row(feature, [case for case in cases if case.grouped == feature]))
    return "\n".join(rows) + "\n"


def _row(feature: str, own: list[Case]) -> str:
    said = ["different" if any(case.different for case in own) else "same"]
    said += [f"{case.name}: {case.different}" for case in own if case.different]
    refused = [case.name for case in own if case.refused is not None]
    if refused:
        said.append(f"refused: {', '.join(refused)}")
    return f"| {feature} | {len(own)} | {'; '.join(said).replace('|', chr(92) + '|')} |"


def counts() -> str:
    """Return the number of cases, in one line."""
    cases = all_cases()
    refused = sum(case.refused is not None for case in cases)
    different = sum(bool(case.different) for case in cases)
    runs = sum(len(case.ways) for case in cases if case.refused is None) + refused
    return f"{len(cases)} cases in {runs} runs: {refused} refused, {different} different from ksqlDB"


def page() -> str:
    """Return the expected page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page())
    print(counts())
