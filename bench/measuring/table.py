"""The one table: a row per figure, Ottla beside Apache Kafka and beside what the machine allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from bench.measuring.experiment import Row
from bench.measuring.figures import advantage, readable, summary

OTTLA, KAFKA, LIMIT = "Ottla", "Apache Kafka", "limit"


@dataclass
class Measured:
    """All repetitions of one row, by who was measured; and why something could not be."""

    row: Row
    values: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, who: str, value: float) -> None:
        self.values.setdefault(who, []).append(value)

    def figure(self, who: str) -> float | None:
        return summary(self.values.get(who, []), self.row.better, self.row.of)

    @property
    def ratio(self) -> float | None:
        """Above 1 is better than Kafka, whichever way the unit points."""
        return advantage(self.figure(OTTLA), self.figure(KAFKA), self.row.better)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.row.name,
            "unit": self.row.unit,
            "better": self.row.better,
            "of": self.row.of,
            "figures": {who: self.figure(who) for who in self.values},
            "ratio": self.ratio,
            "values": self.values,
            "failures": self.failures,
        }


def render(rows: list[Measured], title: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("unit")
    table.add_column("Ottla", justify="right")
    table.add_column("Apache Kafka", justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("limit", justify="right")
    for measured in rows:
        table.add_row(
            measured.row.name,
            measured.row.unit,
            _cell(measured, OTTLA),
            _cell(measured, KAFKA),
            _ratio(measured.ratio),
            _cell(measured, LIMIT),
        )
    return table


def _cell(measured: Measured, who: str) -> Text:
    value = measured.figure(who)
    if value is None and who in measured.failures:
        return Text("failed", style="red")
    return Text(readable(value))


def _ratio(ratio: float | None) -> Text:
    if ratio is None:
        return Text(readable(None))
    return Text(f"{ratio:.2f}", style="green" if ratio >= 1 else "yellow")
