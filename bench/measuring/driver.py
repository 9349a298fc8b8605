"""What every table has in common: its options, who is measured when, and how the outcome is told."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.measuring.experiment import Experiment, Figures, Row, Scale, matches
from bench.measuring.limit import BareServer
from bench.measuring.table import LIMIT, Measured, render
from bench.peers.apache_kafka import Unavailable
from bench.peers.brokers import Contestant

# Who is measured by what, in this order; None is the machine. `True` ends a contestant's turn.
Turns = Iterator[tuple[Experiment, Contestant | None, bool]]


def parser(prog: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=description)
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
    return parser


def drive(
    options: argparse.Namespace,
    every_experiment: Callable[[Scale], list[Experiment]],
    ottla: Callable[[str | None], Contestant],
    apache_kafka: Callable[[], Contestant],
    notes: str,
    *,
    one_at_a_time: bool = False,
) -> int:
    """Measure the chosen rows on whoever is there and print the table; the exit code."""
    console = Console(stderr=True)
    scale = Scale.quick() if options.quick else Scale()
    chosen = [experiment for experiment in every_experiment(scale) if experiment.wanted(options.only)]
    names = [row.name for experiment in chosen for row in experiment.rows if matches(row.name, options.only)]
    if not names:
        console.print(f"No row is called like {', '.join(options.only)}; --list shows them all.")
        return 2
    if options.list:
        print("\n".join(names))
        return 0
    repeat = options.repeat or (1 if options.quick else 3)
    wanted: list[tuple[str, Callable[[], Contestant]]] = []
    if not options.no_ottla:
        wanted.append(("Ottla", lambda: ottla(options.ottla)))
    if not options.no_kafka:
        wanted.append(("Apache Kafka", apache_kafka))
    entered = contestants(wanted, console)
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # `timeout` must not leave brokers behind either
    began = time.time()
    order = in_whole_turns if one_at_a_time else in_alternation
    try:
        turns = order(chosen, entered, repeat, limit=not options.no_limit)
        rows = run(chosen, turns, scale, console=console)
    finally:
        for contestant in entered:
            contestant.close()
    rows = [measured for measured in rows if measured.row.name in names]
    title = f"{os.cpu_count()} cores, Python {platform.python_version()}, best of {repeat}"
    if options.quick:
        title += " (quick: the figures mean little)"
    tell(rows, title, notes)
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


def contestants(wanted: Sequence[tuple[str, Callable[[], Contestant]]], console: Console) -> list[Contestant]:
    found = []
    for name, make in wanted:
        try:
            found.append(make())
        except Unavailable as missing:
            console.print(f"[yellow]{name} is left out:[/] {missing}", highlight=False, soft_wrap=True)
    return found


def in_alternation(
    experiments: Sequence[Experiment], entered: Sequence[Contestant], repeat: int, *, limit: bool
) -> Turns:
    """Every experiment on everyone in turn, the order turned round with each repetition."""
    for experiment in experiments:
        for number in range(repeat):
            racing = [one for one in entered if experiment.only in (None, one.name)]
            for contestant in racing if number % 2 == 0 else racing[::-1]:
                yield experiment, contestant, False
            if limit and experiment.limit is not None:
                yield experiment, None, False


def in_whole_turns(
    experiments: Sequence[Experiment], entered: Sequence[Contestant], repeat: int, *, limit: bool
) -> Turns:
    """Every experiment on one contestant, then on the next, which alone is running then; and so on."""
    for number in range(repeat):
        for contestant in entered if number % 2 == 0 else entered[::-1]:
            own = [experiment for experiment in experiments if experiment.only in (None, contestant.name)]
            for experiment in own:
                yield experiment, contestant, experiment is own[-1]
        if limit:
            for experiment in experiments:
                if experiment.limit is not None:
                    yield experiment, None, False


def run(experiments: Sequence[Experiment], turns: Turns, scale: Scale, *, console: Console) -> list[Measured]:
    """Measure in this order; what fails on somebody is not tried on them again."""
    rows = {row.name: Measured(row) for experiment in experiments for row in experiment.rows}

    def measure(who: str, of: Sequence[Row], work: Callable[[], Figures]) -> None:
        if any(who in rows[row.name].failures for row in of):
            return
        try:
            figures = work()
        except Exception as error:
            for row in of:
                rows[row.name].failures[who] = str(error) or type(error).__name__
            return
        for name, value in figures.items():
            rows[name].add(who, value)

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    planned = list(turns)
    with BareServer() as bare, Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(planned))
        try:
            for experiment, contestant, is_last in planned:
                who = LIMIT if contestant is None else contestant.name
                progress.update(task, description=f"{experiment.rows[0].name}: {who}")
                if contestant is not None:
                    measure(who, experiment.rows, partial(experiment.measure, contestant, scale))
                    if is_last:
                        contestant.close()
                elif experiment.limit is not None:
                    measure(who, experiment.rows, partial(experiment.limit, bare, scale))
                progress.advance(task)
        except KeyboardInterrupt:
            console.print("Interrupted: the table shows what was measured until now.")
    return list(rows.values())


def tell(rows: list[Measured], title: str, notes: str) -> None:
    out = Console()
    # Piped into a file the table keeps its columns instead of being folded at 80 characters.
    if not out.is_terminal:
        out = Console(width=140)
    out.print(render(rows, title))
    out.print(notes, style="dim", highlight=False)
    for line in failures(rows):
        out.print(line, style="red", highlight=False, markup=False, soft_wrap=True)


def failures(rows: list[Measured]) -> list[str]:
    """Each reason once, with the first row that it spoiled."""
    reasons: dict[tuple[str, str], str] = {}
    for measured in rows:
        for who, reason in measured.failures.items():
            reasons.setdefault((who, reason), measured.row.name)
    return [f"{who}, {row}: {reason}" for (who, reason), row in reasons.items()]
