"""The contents of the config topic: connectors, task configs, and target states. Pure.

Keys and values follow Kafka's KafkaConfigBackingStore, as JSON without schemas:

| key | value |
|---|---|
| `connector-NAME` | `{"properties": {…}}`; null deletes it |
| `task-NAME-0` … and then `commit-NAME` | `{"properties": {…}}`, `{"tasks": n}`: counted only when complete |
| `target-state-NAME` | `{"state": "STARTED" or "PAUSED", "state.v2": also "STOPPED"}` |
| `tasks-fencing-NAME` | `{"task-count": n}`, only for Kafka's workers: transactional ids fence ours |
| `restart-connector-NAME` | `{"include-tasks": bool, "only-failed": bool}` |
| `session-key` | `{"key", "algorithm", "creation-timestamp"}` |
| `logger-cluster-NAMESPACE` | `{"level"}` |
"""

from __future__ import annotations

import enum
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_log = logging.getLogger(__name__)

Entry = tuple[bytes, bytes | None]
Config = dict[str, str]

_CONNECTOR, _TASK, _COMMIT, _TARGET = "connector-", "task-", "commit-", "target-state-"
_FENCING, _RESTART, _LOGGER = "tasks-fencing-", "restart-connector-", "logger-cluster-"
_SESSION_KEY = "session-key"


class TargetState(enum.StrEnum):
    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True)
class SessionKey:
    """The key with which workers sign requests to each other."""

    key: str
    algorithm: str
    created_ms: int


@dataclass(frozen=True)
class RestartRequest:
    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True)
class Change:
    """The effect of a record. `connectors` is set if a connector was added or removed."""

    connectors: bool = False
    restart: RestartRequest | None = None
    logger: tuple[str, str] | None = None


@dataclass
class ConfigState:
    """Only `apply` changes the state, record by record in log order."""

    connectors: dict[str, Config] = field(default_factory=dict)
    task_configs: dict[str, list[Config]] = field(default_factory=dict)
    targets: dict[str, TargetState] = field(default_factory=dict)
    session_key: SessionKey | None = None
    #: Offset after the last applied record, as Kafka's workers count, or -1.
    offset: int = -1
    _deferred: dict[str, dict[int, Config]] = field(default_factory=dict)

    def target(self, connector: str) -> TargetState:
        return self.targets.get(connector, TargetState.STARTED)

    def tasks(self, connector: str) -> list[Config]:
        return self.task_configs.get(connector, [])

    def apply(self, key: bytes, value: bytes | None, offset: int) -> Change:
        """Apply a record. Malformed records are logged and skipped, as in Kafka."""
        self.offset = offset + 1
        try:
            name = key.decode()
            found = None if value is None else json.loads(value)
            return self._apply(name, found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.error("The record at offset %d of the config topic cannot be read: %s", offset, error)
            return Change()

    def _apply(self, key: str, value: Any) -> Change:
        if key.startswith(_TARGET):
            return self._apply_target(key.removeprefix(_TARGET), value)
        if key.startswith(_CONNECTOR):
            return self._apply_connector(key.removeprefix(_CONNECTOR), value)
        if key.startswith(_FENCING):
            return Change()
        if key.startswith(_TASK):
            name, _, task = key.removeprefix(_TASK).rpartition("-")
            if value is not None:
                self._deferred.setdefault(name, {})[int(task)] = _properties(value)
            return Change()
        if key.startswith(_COMMIT):
            return self._apply_commit(key.removeprefix(_COMMIT), value)
        if key.startswith(_RESTART):
            return self._apply_restart(key.removeprefix(_RESTART), value)
        if key == _SESSION_KEY and value is not None:
            self.session_key = SessionKey(value["key"], value["algorithm"], int(value["creation-timestamp"]))
            return Change()
        if key.startswith(_LOGGER) and value is not None:
            return Change(logger=(key.removeprefix(_LOGGER), str(value["level"])))
        return Change()

    def _apply_connector(self, name: str, value: Any) -> Change:
        if value is None:
            self.task_configs.pop(name, None)
            self._deferred.pop(name, None)
            self.targets.pop(name, None)
            return Change(connectors=self.connectors.pop(name, None) is not None)
        is_new = name not in self.connectors
        self.connectors[name] = _properties(value)
        return Change(connectors=is_new)

    def _apply_target(self, name: str, value: Any) -> Change:
        if value is None:
            self.targets.pop(name, None)
        else:
            # Workers before 3.5 write only `state`.
            self.targets[name] = TargetState(value.get("state.v2") or value["state"])
        return Change()

    def _apply_commit(self, name: str, value: Any) -> Change:
        if value is None:
            return Change()
        count = int(value["tasks"])
        deferred = self._deferred.pop(name, {})
        if all(task in deferred for task in range(count)):
            self.task_configs[name] = [deferred[task] for task in range(count)]
        else:
            # Compaction removed some records, or the writer died. The task configs will be written again.
            self.task_configs.pop(name, None)
        return Change()

    def _apply_restart(self, name: str, value: Any) -> Change:
        if value is None or name not in self.connectors:
            return Change()
        return Change(
            restart=RestartRequest(name, bool(value.get("include-tasks")), bool(value.get("only-failed")))
        )


def _properties(value: Any) -> Config:
    return {str(name): _text(each) for name, each in value["properties"].items()}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)


# Entries to write


def connector_entry(name: str, config: Mapping[str, str] | None) -> Entry:
    return _entry(_CONNECTOR + name, None if config is None else {"properties": dict(config)})


def task_entries(name: str, configs: Sequence[Mapping[str, str]]) -> list[Entry]:
    tasks = [
        _entry(f"{_TASK}{name}-{number}", {"properties": dict(each)}) for number, each in enumerate(configs)
    ]
    return [*tasks, _entry(_COMMIT + name, {"tasks": len(configs)})]


def target_entry(name: str, target: TargetState | None) -> Entry:
    if target is None:
        return _entry(_TARGET + name, None)
    # Workers before 3.5 do not know STOPPED and treat the connector as paused.
    known = TargetState.PAUSED if target is TargetState.STOPPED else target
    return _entry(_TARGET + name, {"state": known.value, "state.v2": target.value})


def restart_entry(request: RestartRequest) -> Entry:
    value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return _entry(_RESTART + request.connector, value)


def session_key_entry(key: SessionKey) -> Entry:
    value = {"key": key.key, "algorithm": key.algorithm, "creation-timestamp": key.created_ms}
    return _entry(_SESSION_KEY, value)


def logger_entry(namespace: str, level: str) -> Entry:
    return _entry(_LOGGER + namespace, {"level": level})


def _entry(key: str, value: Any) -> Entry:
    if value is None:
        return key.encode(), None
    return key.encode(), json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
