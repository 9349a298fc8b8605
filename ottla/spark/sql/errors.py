"""What is wrong with a statement, and where."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Counted from 1, as editors do."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class SqlError(Exception):
    """One sentence for the author of the statement."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message if position is None else f"{position}: {message}")
        self.message = message
        self.position = position
