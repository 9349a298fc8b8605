"""Debezium's MySqlConnector and MariaDbConnector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.connect.api import SourceOffset, SourceTask
from ottla.connect.connectors.cdc.capture import Capture
from ottla.connect.connectors.cdc.connector import CdcConnector
from ottla.connect.connectors.cdc.mysql.capture import MariaDbCapture, MySqlCapture
from ottla.connect.connectors.cdc.mysql.config import MYSQL_CONFIG
from ottla.connect.connectors.cdc.mysql.connection import Server
from ottla.connect.connectors.cdc.task import CdcTask


class MySqlTask(CdcTask):
    capture_class: ClassVar[type[Capture]] = MySqlCapture
    connector_name = "mysql"


class MariaDbTask(CdcTask):
    capture_class: ClassVar[type[Capture]] = MariaDbCapture
    connector_name = "mariadb"


class MySqlConnector(CdcConnector):
    config_def = MYSQL_CONFIG
    summary = "Changes of MySQL's tables, with Debezium's settings and envelope"
    task_class: ClassVar[type[SourceTask]] = MySqlTask
    schemas = "database"
    product: ClassVar[str] = MySqlCapture.product
    offset_needs = '"file" and the number "pos"'

    def try_connection(self, settings: Mapping[str, Any]) -> None:
        Server(settings, self.product).connect().close()

    @staticmethod
    def is_offset(offset: SourceOffset) -> bool:
        return isinstance(offset.get("file"), str) and isinstance(offset.get("pos"), int)


class MariaDbConnector(MySqlConnector):
    summary = "Changes of MariaDB's tables, with Debezium's settings and envelope"
    task_class = MariaDbTask
    product = MariaDbCapture.product
