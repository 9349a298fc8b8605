"""The contents of the status topic: states of connectors and tasks, and the topics they use. Pure."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_log = logging.getLogger(__name__)

_CONNECTOR, _TASK, _TOPIC = "status-connector-", "status-task-", "status-topic-"
#: Separates the topic name, which has no colon, from the connector name.
_OF_CONNECTOR = ":connector-"


class Status(NamedTuple):
    state: str
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "trace": self.trace,
            "worker_id": self.worker_id,
            "generation": self.generation,
            "version": self.version,
        }


class TopicUse(NamedTuple):
    topic: str
    connector: str
    task: int
    discovered_ms: int


@dataclass
class StatusState:
    connectors: dict[str, Status] = field(default_factory=dict)
    tasks: dict[str, dict[int, Status]] = field(default_factory=dict)
    topics: dict[str, dict[str, TopicUse]] = field(default_factory=dict)

    def copy(self) -> StatusState:
        return StatusState(
            dict(self.connectors),
            {name: dict(each) for name, each in self.tasks.items()},
            {name: dict(each) for name, each in self.topics.items()},
        )

    def topics_of(self, connector: str) -> list[str]:
        return list(self.topics.get(connector, {}))

    def apply(self, key: bytes, value: bytes | None) -> None:
        try:
            name = key.decode()
            found = None if value is None else json.loads(value)
            if name.startswith(_CONNECTOR):
                _set(self.connectors, name.removeprefix(_CONNECTOR), _status(found))
            elif name.startswith(_TASK):
                connector, _, task = name.removeprefix(_TASK).rpartition("-")
                _set(self.tasks.setdefault(connector, {}), int(task), _status(found))
            elif name.startswith(_TOPIC):
                topic, _, connector = name.removeprefix(_TOPIC).partition(_OF_CONNECTOR)
                _set(self.topics.setdefault(connector, {}), topic, _topic_use(found))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("A record of the status topic cannot be read: %s", error)

    def may_replace(self, current: Status | None, wanted: Status) -> bool:
        """Return False if a worker that has lost a connector would overwrite its successor's status."""
        return (
            current is None
            or current.worker_id == wanted.worker_id
            or current.generation <= wanted.generation
        )


def connector_key(connector: str) -> bytes:
    return f"{_CONNECTOR}{connector}".encode()


def task_key(connector: str, task: int) -> bytes:
    return f"{_TASK}{connector}-{task}".encode()


def topic_key(topic: str, connector: str) -> bytes:
    return f"{_TOPIC}{topic}{_OF_CONNECTOR}{connector}".encode()


def topic_value(use: TopicUse) -> bytes:
    value = {
        "name": use.topic,
        "connector": use.connector,
        "task": use.task,
        "discoverTimestamp": use.discovered_ms,
    }
    return encoded({"topic": value})


def encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _set(values: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _status(found: Any) -> Status | None:
    if found is None:
        return None
    return Status(
        str(found["state"]),
        str(found["worker_id"]),
        int(found["generation"]),
        found.get("trace"),
        found.get("version"),
    )


def _topic_use(found: Any) -> TopicUse | None:
    if found is None:
        return None
    about = found["topic"]
    return TopicUse(
        str(about["name"]), str(about["connector"]), int(about["task"]), int(about["discoverTimestamp"])
    )
