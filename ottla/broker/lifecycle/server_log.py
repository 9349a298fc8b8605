"""The broker's log for its operator: one format for every line, configured in one place.

A text line has the fields of Kafka's log: time, level, message and logger. A prefix in Kafka's style identifies the
broker; the table below supplies prefixes for modules that write none. A JSON line is one object. State changes of
partitions, brokers and sessions are INFO. Requests are never logged individually.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TextIO

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)

# Kafka logger names that operators search for.
KAFKA_SERVER = logging.getLogger("kafka.server.KafkaServer")

_LEVELS = {
    logging.CRITICAL: "FATAL",
    logging.ERROR: "ERROR",
    logging.WARNING: "WARN",
    logging.INFO: "INFO",
    logging.DEBUG: "DEBUG",
}
_PREFIXES = (
    ("ottla.broker.network.", "SocketServer brokerId={}"),
    ("ottla.cluster.controller.", "Controller id={}"),
    ("ottla.cluster.elections.", "Controller id={}"),
    ("ottla.cluster.reassignment.", "Controller id={}"),
    ("ottla.cluster.replication.", "ReplicaFetcher replicaId={}"),
    ("ottla.cluster.", "ReplicaManager broker={}"),
    ("ottla.coordinator.groups.", "GroupCoordinator id={}"),
    ("ottla.coordinator.share.", "ShareCoordinator id={}"),
    ("ottla.coordinator.transactions.", "TransactionCoordinator id={}"),
    ("ottla.broker.share.", "ShareCoordinator id={}"),
    ("ottla.broker.coordinators.", "TransactionCoordinator id={}"),
    ("ottla.log.cleaner.", "LogCleaner broker={}"),
    ("ottla.log.", "LogManager broker={}"),
    ("kazoo", "ZooKeeperClient broker={}"),
    ("", "KafkaServer id={}"),
)


class _Identity:
    """Broker id of this process, one per process with an operator."""

    broker_id: int | None = None


def set_broker_id(broker_id: int) -> None:
    _Identity.broker_id = broker_id


def configure(level: str, stream: TextIO, form: str = TEXT) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == JSON else KafkaFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level.lower() != "debug":
        # The broker logs an unreachable ZooKeeper once; kazoo would log every attempt.
        logging.getLogger("kazoo").setLevel(logging.ERROR)


class KafkaFormatter(logging.Formatter):
    """`[2026-11-16 06:00:00,123] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)`"""

    def __init__(self) -> None:
        super().__init__()
        self._second = -1
        self._shown = ""
        self._labels: dict[str, str] = {}

    def format(self, record: logging.LogRecord) -> str:
        second = int(record.created)
        if second != self._second:  # a second may have thousands of lines
            self._second, self._shown = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        message = record.getMessage()
        if not message.startswith("["):
            message = f"{self._prefix(record.name)}{message}"
        level = _LEVELS.get(record.levelno, record.levelname)
        millis = int((record.created - second) * 1000)
        line = f"[{self._shown},{millis:03d}] {level} {message} ({record.name})"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line

    def _prefix(self, name: str) -> str:
        if _Identity.broker_id is None:
            return ""
        label = self._labels.get(name)
        if label is None:
            label = next(label for start, label in _PREFIXES if name.startswith(start))
            self._labels[name] = label
        return f"[{label.format(_Identity.broker_id)}] "


class JsonFormatter(logging.Formatter):
    """`{"time":"2026-11-16T06:00:00.123Z","level":"INFO","broker":1,"logger":"…","message":"…"}`"""

    def format(self, record: logging.LogRecord) -> str:
        second = int(record.created)
        millis = int((record.created - second) * 1000)
        fields: dict[str, object] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(second))}.{millis:03d}Z",
            "level": _LEVELS.get(record.levelno, record.levelname),
            "broker": _Identity.broker_id,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
