"""Rows of SQL on a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import output

if TYPE_CHECKING:
    from ottla.sql import Result

_NARROWEST = 12


def print_result(result: Result, as_json: bool) -> None:
    if as_json:
        if result.message:
            output.note(result.message)
        for row in result.rows:
            click.echo(_json(dict(zip(result.columns, row, strict=True))))
        return
    if result.columns and result.is_push:
        _print_coming(result.columns, result.rows)
    elif result.columns:
        rows = [[shown(value) for value in row] for row in result.rows]
        output.print_table(result.columns, rows)
    if result.message:
        output.done(result.message)


def _print_coming(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    widths = [max(len(column), _NARROWEST) for column in columns]
    line = "  ".join(column.ljust(width) for column, width in zip(columns, widths, strict=True)).rstrip()
    click.secho(line, bold=output.colour_wanted() or None)
    for row in rows:
        cells = [str(shown(value)) for value in row]
        # Columns grow with their widest value, so that later rows are aligned again.
        widths = [max(width, min(len(cell), 40)) for width, cell in zip(widths, cells, strict=True)]
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def shown(value: Any) -> int | str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return value
    if isinstance(value, list | dict):
        return _json(value)
    return str(_plain(value))


def _json(value: Any) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return float(value)
    return str(value)
