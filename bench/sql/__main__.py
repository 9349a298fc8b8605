"""``python -m bench.sql``: SQL as tables grow, beside DataFrames and beside Kafka Streams, in one table."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from json import dumps
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.measuring.figures import readable
from bench.peers.apache_kafka import Unavailable
from bench.peers.brokers import OttlaBroker, ottla_command
from bench.sql.counts import counts
from bench.sql.first_rows import first_rows
from bench.sql.measuring import Bench, Row, Scale, pin_to_one_core
from bench.sql.tables import join, pull

NOTES = (
    "Ratio: the figure of SQL to the one beside it. Everything but the broker runs on one core; the first row is "
    "waited for on all of them. The time of a micro-batch is Spark's triggerExecution, from the second one on; that of "
    "Kafka Streams is from its first record to its last. All of them write exactly once."
)

EXPERIMENTS: dict[str, Callable[[Bench], list[Row]]] = {
    "join": lambda bench: [join(bench)],
    "first": lambda bench: [first_rows(bench)],
    "pull": lambda bench: [pull(bench)],
    "counts": counts,
}


def render(rows: list[Row], title: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("unit")
    for heading in ("SQL", "beside it", "", "ratio", "target"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        sign = "≥" if row.at_least else "≤"
        table.add_row(
            row.name,
            row.unit,
            readable(row.ours),
            readable(row.other),
            row.beside,
            Text(f"{row.ratio:.2f}", style="green" if row.is_met else "red"),
            f"{sign} {row.target:g}",
        )
    return table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.sql", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little work: shows that it works, no more")
    parser.add_argument(
        "--only", action="append", default=[], choices=EXPERIMENTS, help="may be given several times"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to this file")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    console = Console(stderr=True)
    try:
        broker = OttlaBroker(ottla_command())
    except Unavailable as missing:
        console.print(str(missing))
        return 1
    rows: list[Row] = []
    failures: dict[str, str] = {}
    try:
        broker.start()
        pin_to_one_core()
        from ottla.spark import session

        spark = session(
            "bench", "local[1]", {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
        )
        bench = Bench(spark, broker.bootstrap_servers, Scale.quick() if options.quick else Scale())
        try:
            for name in options.only or EXPERIMENTS:
                console.print(name, style="dim")
                try:
                    rows += EXPERIMENTS[name](bench)
                except Exception as error:
                    failures[name] = (str(error).splitlines() or [type(error).__name__])[0]
        finally:
            spark.stop()
            shutil.rmtree(bench.directory, ignore_errors=True)
    finally:
        broker.stop()
        broker.remove()
    out = Console()
    if not out.is_terminal:  # in a file the table keeps its columns instead of being folded
        out = Console(width=150)
    out.print(render(rows, "quick: the figures mean little" if options.quick else ""))
    out.print(NOTES, style="dim", highlight=False)
    for name, reason in failures.items():
        out.print(f"{name}: {reason}", style="red", highlight=False, markup=False)
    if options.json:
        options.json.write_text(dumps([{**asdict(row), "ratio": row.ratio} for row in rows], indent=2))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
