"""Display of pipelines: a live line per query on a terminal, a plain line per batch elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ottla.cli import output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ottla.spark.pipelines.query_progress import QueryProgress
    from ottla.spark.pipelines.state import PipelineState

LIST_COLUMNS = ("NAME", "STATE", "PID", "QUERIES", "SINCE", "MASTER", "FILE")
QUERY_COLUMNS = (
    "QUERY", "BATCH", "ROWS", "ROWS/S IN", "ROWS/S OUT", "BATCH TIME", "LAG", "STATE ROWS", "STATE SIZE",
)  # fmt: skip


def list_row(state: PipelineState) -> tuple[object, ...]:
    return (
        state.name,
        str(state.phase),
        state.pid if state.is_alive else None,
        len(state.queries),
        moment(state.started_at if state.is_alive else state.ended_at or state.started_at),
        state.master,
        state.file,
    )


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(" ", "seconds")


def query_row(query: QueryProgress) -> tuple[str, ...]:
    return (
        query.name if query.is_active else f"{query.name} (ended)",
        _number(query.batch),
        _number(query.rows_total),
        _number(query.rows_in_per_second),
        _number(query.rows_out_per_second),
        "-" if query.batch_seconds is None else f"{query.batch_seconds:.2f} s",
        _number(query.lag),
        _number(query.state_rows),
        "-" if query.state_bytes is None else output.human_bytes(query.state_bytes),
    )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def batch_line(pipeline: str, query: QueryProgress) -> str:
    parts = [f"{pipeline}/{query.name}: batch {query.batch}", f"{query.rows_in} rows"]
    if query.batch_seconds is not None:
        parts.append(f"{query.batch_seconds:.2f} s")
    parts.append(f"{_number(query.rows_in_per_second)} rows/s in")
    parts.append(f"{_number(query.rows_out_per_second)} rows/s out")
    parts.append(f"lag {_number(query.lag)}")
    if query.state_rows is not None:
        parts.append(f"state {_number(query.state_rows)} rows")
    return ", ".join(parts)


def total_line(pipeline: str, query: QueryProgress) -> str:
    rows = "1 row" if query.rows_total == 1 else f"{_number(query.rows_total)} rows"
    return f"{pipeline}/{query.name}: {rows} processed"


def print_status(state: PipelineState) -> None:
    for label, text in (
        ("Pipeline", f"{state.name} ({state.phase})"),
        ("File", state.file),
        ("Process", f"{state.pid} since {moment(state.started_at)}"),
        ("Spark", state.master),
        ("Cluster", state.bootstrap_servers),
        ("Checkpoints", state.checkpoints),
        ("Log", state.log),
    ):
        click.echo(f"{label:<12} {text}")
    click.echo()
    output.print_table(QUERY_COLUMNS, map(query_row, state.queries))


@contextlib.contextmanager
def progress_printer() -> Iterator[Callable[[PipelineState], None]]:
    if not sys.stdout.isatty():
        yield _PlainLines().show
        return
    with output.live_view() as draw:
        yield lambda state: draw(drawn(state))


def drawn(state: PipelineState) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if not state.queries:
        words = "Spark is starting…" if state.is_alive else str(state.phase)
        return Text(f"{state.name}: {words}", style="dim")
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for number, column in enumerate(QUERY_COLUMNS):
        table.add_column(column.lower(), justify="right" if number else "left", no_wrap=True)
    for query in state.queries:
        table.add_row(*query_row(query), style=None if query.is_active else "dim")
    return table


class _PlainLines:
    def __init__(self) -> None:
        self._phase = ""
        self._batches: dict[str, int | None] = {}

    def show(self, state: PipelineState) -> None:
        if state.phase != self._phase:
            self._phase = state.phase
            click.echo(f"{state.name}: {'Spark is starting…' if state.phase == 'starting' else state.phase}")
        for query in state.queries:
            # A query without new data repeats its number with no rows.
            if query.batch is not None and query.batch != self._batches.get(query.name) and query.rows_in:
                self._batches[query.name] = query.batch
                click.echo(batch_line(state.name, query))
        sys.stdout.flush()
