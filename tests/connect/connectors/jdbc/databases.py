"""The three kinds of databases behind one interface."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any


class SqliteDatabase:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.jdbc = {"connection.url": f"jdbc:sqlite:{path}"}

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path)
        try:
            rows: list[tuple[Any, ...]] = []
            for statement in statements:
                rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows
        finally:
            connection.close()
