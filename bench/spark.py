"""``python -m bench.spark``: `format("ottla")` beside Spark's own Kafka connector, in one table.

Both read from and write to the same broker, which is Ottla in a process of its own, in one Spark session, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.measuring.experiment import matches
from bench.measuring.figures import advantage, best, readable
from bench.peers.apache_kafka import Unavailable, spark_connector_jars, spark_format_jars
from bench.peers.brokers import OttlaBroker, ottla_command
from bench.rows.spark_rows import OURS, THEIRS, Bench, Experiment, Figure, Scale, every_experiment
from bench.spark_formats import format_experiments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTES = (
    "Every figure is the best of its repetitions, after one that does not count. Ratio: how many times as good as "
    "Spark's connector (more rows, or less time). Both use the settings of ottla.spark.session(); sinks are noop "
    "where nothing is written. A small batch is what arrives meanwhile of 20 rows every 20 ms."
)


@dataclass
class Measured:
    figure: Figure
    values: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def best(self, connector: str) -> float | None:
        return best(self.values.get(connector, []), self.figure.better)

    @property
    def ratio(self) -> float | None:
        return advantage(self.best(OURS), self.best(THEIRS), self.figure.better)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.figure.name,
            "unit": self.figure.unit,
            "values": self.values,
            "ratio": self.ratio,
            "target": self.figure.target,
            "failures": self.failures,
        }


def render(rows: list[Measured], title: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("unit")
    for heading in ('format("ottla")', 'format("kafka")', "ratio", "target"):
        table.add_column(heading, justify="right")
    for measured in rows:
        target = measured.figure.target
        table.add_row(
            measured.figure.name,
            measured.figure.unit,
            *(_cell(measured, connector) for connector in (OURS, THEIRS)),
            _ratio(measured.ratio, target),
            readable(None) if target is None else f"{target:g}",
        )
    return table


def _cell(measured: Measured, connector: str) -> Text:
    value = measured.best(connector)
    if value is None and connector in measured.failures:
        return Text("failed", style="red")
    return Text(readable(value))


def _ratio(ratio: float | None, target: float | None) -> Text:
    if ratio is None:
        return Text(readable(None))
    return Text(f"{ratio:.2f}", style="green" if ratio >= (target or 0) else "yellow")


def run(experiments: list[Experiment], bench: Bench, repeat: int, console: Console) -> list[Measured]:
    """Every experiment through both connectors in turn, the order turned round with each repetition."""
    rows: list[Measured] = []
    for experiment in experiments:
        measured = {figure.name: Measured(figure) for figure in experiment.figures}
        rows += measured.values()
        reason = experiment.missing()
        if reason is not None:
            for row in measured.values():
                row.failures[OURS] = reason
        for number in range(repeat + 1):
            for connector in (OURS, THEIRS) if number % 2 else (THEIRS, OURS):
                if any(connector in row.failures for row in measured.values()):
                    continue
                console.print(f"{experiment.figures[0].name}: {connector}, {number} of {repeat}", style="dim")
                try:
                    figures = experiment.measure(bench, connector)
                except Exception as error:
                    for row in measured.values():
                        row.failures[connector] = last_line(error)
                    continue
                if number:  # the first one warms up
                    for name, value in figures.items():
                        measured[name].values.setdefault(connector, []).append(value)
    return rows


def last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("ottla.")), (lines or [type(error).__name__])[0])


def session(jars: str) -> SparkSession:
    from ottla.spark import session

    return session("bench", config={"spark.jars": jars, "spark.driver.memory": "2g"})


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="little work per row: shows that it works, no more"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="rows whose name has this in it"
    )
    parser.add_argument("--repeat", type=int, metavar="N", help="repetitions (default 3, with --quick 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single value to this file")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    console = Console(stderr=True)
    chosen = [
        experiment
        for experiment in (*every_experiment(), *format_experiments())
        if any(matches(figure.name, options.only) for figure in experiment.figures)
    ]
    if options.list:
        print("\n".join(figure.name for experiment in chosen for figure in experiment.figures))
        return 0
    if not chosen:
        console.print(f"No row is called like {', '.join(options.only)}; --list shows them all.")
        return 2
    try:
        jars = ",".join(filter(None, (spark_connector_jars(), spark_format_jars())))
        broker = OttlaBroker(ottla_command())
    except Unavailable as missing:
        console.print(str(missing))
        return 1
    repeat = options.repeat or (1 if options.quick else 3)
    scale = Scale.quick() if options.quick else Scale()
    try:
        broker.start()
        spark = session(jars)
        try:
            rows = run(chosen, Bench(spark, broker.bootstrap_servers, scale), repeat, console)
        finally:
            spark.stop()
    finally:
        broker.stop()
        broker.remove()
    title = f"{os.cpu_count()} cores, Spark's connector = 1, best of {repeat}"
    if options.quick:
        title += " (quick: the figures mean little)"
    out = Console()
    # Piped into a file the table keeps its columns instead of being folded at 80 characters.
    if not out.is_terminal:
        out = Console(width=140)
    out.print(render(rows, title))
    out.print(NOTES, style="dim", highlight=False)
    for measured in rows:
        for connector, reason in measured.failures.items():
            out.print(
                f"{connector}, {measured.figure.name}: {reason}", style="red", highlight=False, markup=False
            )
    if options.json:
        report = {"quick": options.quick, "repeat": repeat, "rows": [row.as_json() for row in rows]}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
