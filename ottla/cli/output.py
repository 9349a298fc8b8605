"""Output of commands: tables for people, aligned columns for pipes, JSON for programs."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

# Output of commands: tables for people, aligned columns for pipes, JSON for programs.


def colour_wanted(stream: IO[str] | None = None) -> bool:
    is_terminal = (stream or sys.stdout).isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_json(value: Any) -> None:
    import dataclasses
    import json

    def plain(item: Any) -> Any:
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            return dataclasses.asdict(item)
        raise TypeError(f"cannot print {type(item).__name__} as JSON")

    click.echo(json.dumps(value, default=plain, indent=2, ensure_ascii=False))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], styles: Sequence[str | None] | None = None
) -> None:
    """Print a table with rich on a terminal, else one complete line per row. None is a dash."""
    table = [list(row) for row in rows]
    numeric = [
        any(isinstance(row[i], int) for row in table)
        and all(isinstance(row[i], int) or row[i] is None for row in table)
        for i in range(len(columns))
    ]
    if sys.stdout.isatty():
        _print_rich(columns, table, numeric, styles)
    else:
        _print_plain(columns, table, numeric)


def cell(value: object) -> str:
    return "-" if value is None else str(value)


def _print_plain(columns: Sequence[str], table: list[list[object]], numeric: list[bool]) -> None:
    lines = [list(columns), *([cell(value) for value in row] for row in table)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def _print_rich(
    columns: Sequence[str],
    table: list[list[object]],
    numeric: list[bool],
    styles: Sequence[str | None] | None,
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for i, column in enumerate(columns):
        style = styles[i] if styles else None
        drawn.add_column(column, justify="right" if numeric[i] else "left", style=style, overflow="fold")
    for row in table:
        drawn.add_row(*(value if isinstance(value, Text) else Text(cell(value)) for value in row))
    Console(highlight=False, no_color=not colour_wanted()).print(drawn)


@contextlib.contextmanager
def live_view() -> Iterator[Callable[[RenderableType], None]]:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False, no_color=not colour_wanted())
    with Live(console=console, auto_refresh=False) as live:
        yield lambda drawn: live.update(drawn, refresh=True)


def done(message: str) -> None:
    click.secho(message, fg="green" if colour_wanted() else None)


def note(message: str) -> None:
    click.secho(message, err=True, dim=colour_wanted(sys.stderr) or None)


def warn(message: str) -> None:
    click.secho(f"Warning: {message}", err=True, fg="yellow" if colour_wanted(sys.stderr) else None)


def fail(message: str) -> None:
    click.secho(f"Error: {message}", err=True, fg="red" if colour_wanted(sys.stderr) else None)


def human_bytes(size: int) -> str:
    amount = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


# Unwritable stdout and stderr: closed streams, readers that have left, full disks.


def ensure_open() -> None:
    """Replace streams that were closed before the start, which are None in Python."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def discard_output() -> None:
    """Discard further output, so that the interpreter's final flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def unwritable(error: OSError) -> str | None:
    """Return a sentence about unwritable output, such as a full disk, or None for another error."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return None
    return f"The output cannot be written: {error.strerror}."
