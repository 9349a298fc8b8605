"""``python -m bench``: Ottla beside Apache Kafka and beside what the machine allows, in one table."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.apache_kafka import Unavailable
from bench.brokers import Contestant, apache_kafka, ottla
from bench.experiment import Experiment, Figures, Scale, matches
from bench.limit import BareServer
from bench.plan import chosen_experiments
from bench.table import LIMIT, Measured, render

NOTES = (
    "Every figure is the best of its repetitions. MB are 10^6 bytes of record values. "
    "Ratio: how many times as good as Apache Kafka (Ottla ÷ Kafka where more is better, Kafka ÷ Ottla "
    "where less is). Limit: the same bytes through bare loopback sockets and files, without a broker."
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="little work per row: shows that it works, no more"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="rows whose name has this in it (repeatable)",
    )
    parser.add_argument("--repeat", type=int, metavar="N", help="repetitions (default 3, with --quick 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single value to this file")
    parser.add_argument("--no-kafka", action="store_true", help="leave Apache Kafka out")
    parser.add_argument("--no-ottla", action="store_true", help="leave Ottla out")
    parser.add_argument("--no-limit", action="store_true", help="leave the machine's limit out")
    parser.add_argument("--ottla", metavar="COMMAND", help="the ottla command (default: this environment's)")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    return parser.parse_args()


def contestants(options: argparse.Namespace, console: Console) -> list[Contestant]:
    wanted: list[tuple[str, Callable[[], Contestant]]] = []
    if not options.no_ottla:
        wanted.append(("Ottla", lambda: ottla(options.ottla)))
    if not options.no_kafka:
        wanted.append(("Apache Kafka", apache_kafka))
    found = []
    for name, make in wanted:
        try:
            found.append(make())
        except Unavailable as missing:
            console.print(f"[yellow]{name} is left out:[/] {missing}", highlight=False, soft_wrap=True)
    return found


def main() -> int:
    options = arguments()
    console = Console(stderr=True)
    scale = Scale.quick() if options.quick else Scale()
    chosen = chosen_experiments(scale, options.only)
    names = [row.name for experiment in chosen for row in experiment.rows if matches(row.name, options.only)]
    if not names:
        console.print(f"No row is called like {', '.join(options.only)}; --list shows them all.")
        return 2
    if options.list:
        print("\n".join(names))
        return 0
    repeat = options.repeat or (1 if options.quick else 3)
    entered = contestants(options, console)
    began = time.time()
    try:
        rows = run(chosen, entered, scale, repeat, limit=not options.no_limit, console=console)
    finally:
        for contestant in entered:
            contestant.close()
    rows = [measured for measured in rows if measured.row.name in names]
    title = f"{os.cpu_count()} cores, Python {platform.python_version()}, best of {repeat}"
    if options.quick:
        title += " (quick: the figures mean little)"
    out = Console()
    # Piped into a file the table keeps its columns instead of being folded at 80 characters.
    if not out.is_terminal:
        out = Console(width=140)
    out.print(render(rows, title))
    out.print(NOTES, style="dim", highlight=False)
    for line in failures(rows):
        out.print(line, style="red", highlight=False, markup=False, soft_wrap=True)
    if options.json:
        report = {
            "began": began,
            "seconds": time.time() - began,
            "cores": os.cpu_count(),
            "quick": options.quick,
            "repeat": repeat,
            "rows": [measured.as_json() for measured in rows],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    return 0


def failures(rows: list[Measured]) -> list[str]:
    """Each reason once, with the first row that it spoiled."""
    reasons: dict[tuple[str, str], str] = {}
    for measured in rows:
        for who, reason in measured.failures.items():
            reasons.setdefault((who, reason), measured.row.name)
    return [f"{who}, {row}: {reason}" for (who, reason), row in reasons.items()]


def run(
    experiments: list[Experiment],
    entered: list[Contestant],
    scale: Scale,
    repeat: int,
    *,
    limit: bool,
    console: Console,
) -> list[Measured]:
    """Measure every experiment on everyone in turn, the order turned round with each repetition."""
    rows = {row.name: Measured(row) for experiment in experiments for row in experiment.rows}

    def measure(who: str, experiment: Experiment, work: Callable[[], Figures]) -> None:
        names = [row.name for row in experiment.rows]
        if any(who in rows[name].failures for name in names):
            return
        try:
            figures = work()
        except Exception as error:
            for name in names:
                rows[name].failures[who] = str(error) or type(error).__name__
            return
        for name, value in figures.items():
            rows[name].add(who, value)

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with BareServer() as bare, Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(experiments) * repeat)
        turns = ((experiment, number) for experiment in experiments for number in range(repeat))
        try:
            for experiment, number in turns:
                racing = [one for one in entered if experiment.only in (None, one.name)]
                for contestant in racing if number % 2 == 0 else racing[::-1]:
                    progress.update(task, description=f"{experiment.rows[0].name}: {contestant.name}")
                    measure(contestant.name, experiment, partial(experiment.measure, contestant, scale))
                if limit and experiment.limit is not None:
                    measure(LIMIT, experiment, partial(experiment.limit, bare, scale))
                progress.advance(task)
        except KeyboardInterrupt:
            console.print("Interrupted: the table shows what was measured until now.")
    return list(rows.values())


if __name__ == "__main__":
    sys.exit(main())
