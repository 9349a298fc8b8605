"""Debezium's MySqlConnector and MariaDbConnector."""

from __future__ import annotations

from typing import ClassVar

from ottla.connect.api import SourceOffset, SourceTask
from ottla.connect.connectors.cdc.connector import CdcConnector
from ottla.connect.connectors.cdc.mysql.capture import MariaDbCapture, MySqlCapture
from ottla.connect.connectors.cdc.mysql.config import MYSQL_CONFIG
from ottla.connect.connectors.cdc.task import CdcTask


class MySqlTask(CdcTask):
    capture_class = MySqlCapture


class MariaDbTask(CdcTask):
    capture_class = MariaDbCapture


class MySqlConnector(CdcConnector):
    config_def = MYSQL_CONFIG
    summary = "Changes of MySQL's tables, with Debezium's settings and envelope"
    task_class: ClassVar[type[SourceTask]] = MySqlTask
    schemas = "database"
    offset_needs = '"file" and the number "pos"'

    @staticmethod
    def is_offset(offset: SourceOffset) -> bool:
        return isinstance(offset.get("file"), str) and isinstance(offset.get("pos"), int)


class MariaDbConnector(MySqlConnector):
    summary = "Changes of MariaDB's tables, with Debezium's settings and envelope"
    task_class = MariaDbTask
