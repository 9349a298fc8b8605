"""Debezium's PostgresConnector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ottla import __version__
from ottla.spark.connect.api import Config, SourceConnector, SourceOffset, SourcePartition
from ottla.spark.connect.connectors.cdc.postgres.config import POSTGRES_CONFIG
from ottla.spark.connect.connectors.cdc.postgres.task import PostgresTask
from ottla.spark.connect.errors import ConnectError


class PostgresConnector(SourceConnector):
    config_def = POSTGRES_CONFIG
    version: ClassVar[str] = __version__
    summary = "Changes of PostgreSQL's tables, with Debezium's settings and envelope"
    task_class = PostgresTask

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        settings = POSTGRES_CONFIG.parse(config)
        wrong: dict[str, list[str]] = {}
        for kind in ("table", "schema", "column"):
            if settings[f"{kind}.include.list"] and settings[f"{kind}.exclude.list"]:
                wrong[f"{kind}.include.list"] = [
                    f'"{kind}.include.list" and "{kind}.exclude.list" cannot be set at the same time.'
                ]
        if settings["provide.transaction.metadata"]:
            wrong["provide.transaction.metadata"] = [
                "Metadata of transactions is not published yet: set it to false."
            ]
        return wrong

    def check_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        for partition, offset in offsets:
            if set(partition) != {"server"}:
                raise ConnectError(
                    f'Not a source partition of this connector: {dict(partition)}. Write {{"server":"topic.prefix"}}.'
                )
            if offset is not None and not isinstance(offset.get("lsn"), int):
                raise ConnectError('An offset of this connector needs the number "lsn"; null resets it.')
