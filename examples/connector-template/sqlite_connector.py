"""A source and a sink for SQLite: copy this file and replace the parts for SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from ottla.connect import ConfigDef, ConfigType, ConnectError, Importance, SinkRecord
from ottla.connect.simple import SimpleSink, SimpleSource

SETTINGS = [
    ("database", ConfigType.STRING, "The file of the database."),
    ("table", ConfigType.STRING, "The table."),
]


def definition() -> ConfigDef:
    found = ConfigDef()
    for name, type, about in SETTINGS:
        found.define(name, type, importance=Importance.HIGH, documentation=about)
    return found


class SqliteSource(SimpleSource):
    config_def = definition()
    version = "0.1.0"
    summary = "Rows that are added to a SQLite table"

    def read(self, offset: int | None) -> Iterator[tuple[dict[str, Any], int]]:
        with closing(connect(self.settings["database"])) as database:
            database.row_factory = sqlite3.Row
            rows = database.execute(
                f"SELECT rowid AS offset_, * FROM {quoted(self.settings['table'])} WHERE rowid > ? ORDER BY rowid",
                [offset or 0],
            )
            for row in rows:
                value = dict(row)
                yield value, value.pop("offset_")


class SqliteSink(SimpleSink):
    config_def = definition()
    version = "0.1.0"
    summary = "Records into a SQLite table, as JSON"
    delivery = "exactly once by topic, partition and offset as primary key"

    def write(self, records: Sequence[SinkRecord]) -> None:
        table = quoted(self.settings["table"])
        with closing(connect(self.settings["database"])) as database, database:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {table} "
                "(topic TEXT, part INTEGER, offset_ INTEGER, value TEXT, PRIMARY KEY (topic, part, offset_))"
            )
            database.executemany(
                f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?)",
                [
                    (each.original_topic, each.original_partition, each.offset, json.dumps(each.value))
                    for each in records
                ],
            )


def connect(path: str) -> sqlite3.Connection:
    try:
        return sqlite3.connect(path)
    except sqlite3.OperationalError as error:
        raise ConnectError(
            f"Cannot open the database {path}: {error}. Check the setting 'database'."
        ) from None


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
