"""The JDBC source connector: finds the tables and distributes them over tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla import __version__
from ottla.connect.api import Config, SourceConnector, SourceOffset, SourcePartition
from ottla.connect.connectors.jdbc.dialects import dialect_for, refusals
from ottla.connect.connectors.jdbc.dialects.dialect import TableId
from ottla.connect.connectors.jdbc.source_config import SOURCE_CONFIG
from ottla.connect.connectors.jdbc.source_task import JdbcSourceTask, connect
from ottla.connect.connectors.jdbc.urls import database_file
from ottla.connect.errors import ConnectError


class JdbcSourceConnector(SourceConnector):
    config_def = SOURCE_CONFIG
    version: ClassVar[str] = __version__
    summary = "Rows of tables or of a query in PostgreSQL, MariaDB, MySQL and SQLite"
    task_class = JdbcSourceTask

    def local_paths(self, config: Config) -> Mapping[str, str]:
        return database_file(config)

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        settings = SOURCE_CONFIG.parse(config)
        wrong: dict[str, list[str]] = {}
        lists = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")
        if settings["query"] and any(settings[name] for name in lists):
            wrong["query"] = ["Do not specify table filtering configs with 'query'."]
        if settings["table.whitelist"] and settings["table.blacklist"]:
            wrong["table.whitelist"] = ["Cannot specify both table.whitelist and table.blacklist."]
        if settings["query"] and not settings["topic.prefix"]:
            wrong["topic.prefix"] = ["With query, topic.prefix is the topic's name and must not be empty."]
        if "timestamp" in settings["mode"] and not settings["timestamp.column.name"]:
            wrong["timestamp.column.name"] = [
                f"Query mode {settings['mode']} must specify: timestamp.column.name"
            ]
        if (
            settings["query"]
            and "incrementing" in settings["mode"]
            and not settings["incrementing.column.name"]
        ):
            wrong["incrementing.column.name"] = ["With query, name the column in incrementing.column.name."]
        return wrong or refusals(config, settings["dialect.name"])

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        settings = SOURCE_CONFIG.parse(self.config)
        if settings["query"]:
            return [dict(self.config)]
        tables = self._tables(settings)
        groups = [tables[number::max_tasks] for number in range(min(max_tasks, len(tables)))]
        return [
            {**self.config, "tables": json.dumps([[t.name, t.schema, t.catalog] for t in group])}
            for group in groups
        ]

    def _tables(self, settings: Mapping[str, Any]) -> list[TableId]:
        dialect = dialect_for(self.config, settings["dialect.name"])
        try:
            connect(dialect, settings)
            there = dialect.tables(
                settings["table.types"], settings["catalog.pattern"], settings["schema.pattern"]
            )
        except dialect.driver_error as error:
            raise dialect.explained(error, "list tables") from error
        finally:
            dialect.close()
        wanted = chosen(there, settings)
        if not wanted:
            names = ", ".join(str(table) for table in there[:20]) or "none"
            raise ConnectError(
                f"No table of {dialect.target} is to be read. Tables there: {names}. Check table.whitelist, "
                "table.include.list, schema.pattern and the rights of the user."
            )
        return wanted

    def check_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        for partition, offset in offsets:
            if set(partition) not in ({"protocol", "table"}, {"table"}, {"query"}):
                raise ConnectError(
                    f'Not a source partition of this connector: {dict(partition)}. Write {{"protocol":"1","table":'
                    '"database.schema.table"} or {"query":"query"}.'
                )
            for name, value in (offset or {}).items():
                known = name in ("incrementing", "timestamp", "timestamp_nanos")
                if not known or isinstance(value, bool) or not isinstance(value, int):
                    raise ConnectError(
                        f"Not an offset of this connector: {name}={value!r}. There are incrementing, timestamp and "
                        "timestamp_nanos, all whole numbers."
                    )


def chosen(tables: Sequence[TableId], settings: Mapping[str, Any]) -> list[TableId]:
    """Select tables by name, qualified or not, and by patterns for whole names."""
    white, black = set(settings["table.whitelist"]), set(settings["table.blacklist"])
    include, exclude = settings["table.include.list"], settings["table.exclude.list"]
    found = []
    for table in tables:
        names = {str(table), table.name, ".".join(filter(None, (table.schema, table.name)))}
        if white and not names & white:
            continue
        if names & black or any(_matches(each, names) for each in exclude):
            continue
        if include and not any(_matches(each, names) for each in include):
            continue
        found.append(table)
    return found


def _matches(pattern: str, names: set[str]) -> bool:
    try:
        return any(re.fullmatch(pattern, name) for name in names)
    except re.error as error:
        raise ConnectError(f"{pattern} is not a regular expression: {error}.") from None
