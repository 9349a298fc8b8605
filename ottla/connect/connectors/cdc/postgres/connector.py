"""Debezium's PostgresConnector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.connect.api import SourceOffset
from ottla.connect.connectors.cdc.capture import Capture
from ottla.connect.connectors.cdc.connector import CdcConnector
from ottla.connect.connectors.cdc.postgres.capture import PostgresCapture
from ottla.connect.connectors.cdc.postgres.config import POSTGRES_CONFIG
from ottla.connect.connectors.cdc.postgres.connection import Server
from ottla.connect.connectors.cdc.task import CdcTask


class PostgresTask(CdcTask):
    capture_class: ClassVar[type[Capture]] = PostgresCapture
    connector_name = "postgresql"


class PostgresConnector(CdcConnector):
    config_def = POSTGRES_CONFIG
    summary = "Changes of PostgreSQL's tables, with Debezium's settings and envelope"
    task_class = PostgresTask
    schemas = "schema"
    publishes_transactions = True
    offset_needs = 'the number "lsn"'

    def try_connection(self, settings: Mapping[str, Any]) -> None:
        Server(settings).connect().close()

    @staticmethod
    def is_offset(offset: SourceOffset) -> bool:
        return isinstance(offset.get("lsn"), int)
