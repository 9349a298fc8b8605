"""The JDBC sink connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ottla import __version__
from ottla.connect.api import Config, SinkConnector
from ottla.connect.connectors.jdbc.dialects import refusals
from ottla.connect.connectors.jdbc.sink_config import SINK_CONFIG
from ottla.connect.connectors.jdbc.sink_task import JdbcSinkTask
from ottla.connect.connectors.jdbc.urls import database_file


class JdbcSinkConnector(SinkConnector):
    config_def = SINK_CONFIG
    version: ClassVar[str] = __version__
    summary = "Records into tables of PostgreSQL, MariaDB, MySQL and SQLite: insert, upsert, update, delete"
    task_class = JdbcSinkTask
    delivery = "exactly once by upsert on a key, by Kafka's coordinates as primary key, or by offsets.table"

    def local_paths(self, config: Config) -> Mapping[str, str]:
        return database_file(config)

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        settings = SINK_CONFIG.parse(config)
        wrong: dict[str, list[str]] = {}
        if settings["delete.enabled"] and settings["pk.mode"] != "record_key":
            wrong["delete.enabled"] = ["Deletes are only supported for pk.mode record_key"]
        if settings["insert.mode"] in ("upsert", "update") and settings["pk.mode"] == "none":
            mode = settings["insert.mode"]
            wrong["pk.mode"] = [f"insert.mode={mode} needs a primary key: record_key, record_value or kafka."]
        return wrong or refusals(config, settings["dialect.name"])
