"""The operations of a worker, standalone or distributed, behind the REST API and the command line.

Methods are thread-safe and may wait for the cluster. Rejected requests raise RequestError. Requests for another worker
raise PassOn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.client.errors import ClientError
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.plugins import find
from ottla.connect.runtime.status import State
from ottla.connect.worker import config_state, errors
from ottla.connect.worker.config_state import Config, ConfigState, RestartRequest, TargetState
from ottla.connect.worker.config_store import ConfigStore
from ottla.connect.worker.errors import RequestError
from ottla.connect.worker.local_connectors import LocalConnectors, Wanted
from ottla.connect.worker.loggers import Loggers
from ottla.connect.worker.offset_requests import OffsetRequests
from ottla.connect.worker.status_state import Status, StatusState
from ottla.connect.worker.status_store import StatusStore
from ottla.connect.worker.validation.connector_configs import ConfigInfos, refuse_invalid, validate

_log = logging.getLogger(__name__)

Json = dict[str, Any]


class Created(NamedTuple):
    is_new: bool
    info: Json


class Herder:
    """The common part of standalone and distributed workers."""

    def __init__(
        self,
        worker: WorkerConfig,
        configs: ConfigStore,
        statuses: StatusStore,
        connectors: LocalConnectors,
        offsets: OffsetRequests,
    ) -> None:
        self.worker = worker
        self.configs = configs
        self.statuses = statuses
        self.connectors = connectors
        self.offsets = offsets
        self.loggers = Loggers()
        self.cluster_id = ""
        self.is_ready = False
        self._writing = threading.RLock()

    def start(self, url: str, worker_id: str) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    # Defined by subclasses

    def require_leader(self) -> None:
        """Raises PassOn, or RequestError while the group has no leader."""

    def require_owner(self, connector: str) -> None:
        """Raises PassOn if another worker runs the connector."""

    def wanted(self, state: ConfigState) -> dict[str, Wanted]:
        raise NotImplementedError

    # Reading

    def names(self) -> list[str]:
        return list(self.configs.state().connectors)

    def info(self, name: str) -> Json:
        state = self.configs.state()
        config = self._config(name, state)
        tasks = [{"connector": name, "task": number} for number in range(len(state.tasks(name)))]
        return {"name": name, "config": config, "tasks": tasks, "type": type_of(config)}

    def config(self, name: str) -> Config:
        return self._config(name, self.configs.state())

    def task_infos(self, name: str) -> list[Json]:
        state = self.configs.state()
        self._config(name, state)
        return [
            {"id": {"connector": name, "task": number}, "config": config}
            for number, config in enumerate(state.tasks(name))
        ]

    def status(self, name: str) -> Json:
        statuses = self.statuses.state()
        connector = statuses.connectors.get(name)
        if connector is None:
            raise RequestError(404, f"No status found for connector {name}")
        tasks = sorted(statuses.tasks.get(name, {}).items())
        config = self.configs.state().connectors.get(name)
        return {
            "name": name,
            "connector": _shown(connector),
            "tasks": [{"id": number, **_shown(each)} for number, each in tasks],
            "type": "unknown" if config is None else type_of(config),
        }

    def task_status(self, name: str, task: int) -> Json:
        found = self.statuses.state().tasks.get(name, {}).get(task)
        if found is None:
            raise RequestError(404, f"No status found for task {name}-{task}")
        return {"id": task, **_shown(found)}

    def topics(self, name: str) -> list[str]:
        return self.statuses.state().topics_of(name)

    def reset_topics(self, name: str) -> None:
        for topic in self.topics(name):
            self.statuses.delete_topic(name, topic)

    # Changing configs

    def create(
        self,
        name: str,
        config: Mapping[str, str],
        target: TargetState | None = None,
        *,
        from_operator: bool = False,
    ) -> Created:
        """`from_operator` means that the config comes from the worker's command line and may use any local file."""
        self.require_leader()
        refuse_invalid(self.validate(config, from_operator=from_operator))
        with self._writing:
            state = self.configs.state()
            if name in state.connectors:
                raise RequestError(409, f"Connector {name} already exists")
            return self._put(name, config, state, target)

    def put_config(self, name: str, config: Mapping[str, str]) -> Created:
        self.require_leader()
        # Validate outside the lock, because a connector may contact a server.
        refuse_invalid(self.validate(config))
        with self._writing:
            return self._put(name, config, self.configs.state())

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Created:
        with self._writing:
            self.require_leader()
            state = self.configs.state()
            merged: dict[str, str | None] = {**self._config(name, state), **patch}
            config = {key: value for key, value in merged.items() if value is not None}
            refuse_invalid(self.validate(config))
            return self._put(name, config, state)

    def _put(
        self, name: str, config: Mapping[str, str], state: ConfigState, target: TargetState | None = None
    ) -> Created:
        self.require_leader()
        entries = [] if target is None else [config_state.target_entry(name, target)]
        self.configs.put([*entries, config_state.connector_entry(name, config)])
        _log.info("Connector %s has %s config.", name, "another" if name in state.connectors else "a")
        tasks = [{"connector": name, "task": number} for number in range(len(state.tasks(name)))]
        info = {"name": name, "config": dict(config), "tasks": tasks, "type": type_of(config)}
        return Created(name not in state.connectors, info)

    def delete(self, name: str) -> None:
        with self._writing:
            self.require_leader()
            self._config(name, self.configs.state())
            self.configs.put(
                [config_state.connector_entry(name, None), config_state.target_entry(name, None)]
            )
            self._forget(name, self.statuses.state())
        _log.info("Connector %s was deleted.", name)

    def _forget(self, name: str, statuses: StatusState) -> None:
        self.statuses.put_connector(name, None)
        for task in statuses.tasks.get(name, {}):
            self.statuses.put_task(name, task, None)
        for topic in statuses.topics_of(name):
            self.statuses.delete_topic(name, topic)

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        with self._writing:
            self.require_leader()
            state = self.configs.state()
            self._config(name, state)
            if state.target(name) is not TargetState.STOPPED and state.tasks(name) != list(configs):
                self.configs.put(config_state.task_entries(name, configs))

    # Control

    def pause(self, name: str) -> None:
        self._aim(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        self._aim(name, TargetState.STARTED)

    def _aim(self, name: str, target: TargetState) -> None:
        if name not in self.configs.state().connectors:
            raise errors.unknown_connector(name)
        self.configs.put_as_worker(config_state.target_entry(name, target))

    def stop_connector(self, name: str) -> None:
        if name not in self.configs.state().connectors:
            raise errors.unknown_connector(name)
        with self._writing:
            self.require_leader()
            # Remove the tasks, so that readers of the topic know that no offset is in use.
            entries = config_state.task_entries(name, [])
            self.configs.put([*entries, config_state.target_entry(name, TargetState.STOPPED)])

    def restart_connector(self, name: str) -> None:
        self._require_known(name)
        self.require_owner(name)
        self.connectors.restart(RestartRequest(name, include_tasks=False, only_failed=False))

    def restart_task(self, name: str, task: int) -> None:
        self._require_known(name)
        if task >= len(self.configs.state().tasks(name)):
            raise RequestError(404, f"Unknown task: {name}-{task}")
        self.require_owner(name)
        self.connectors.restart_task(name, task)

    def restart(self, request: RestartRequest) -> Json:
        """Restart the connector and its tasks on any worker. Return the expected status."""
        self._require_known(request.connector)
        with self._writing:
            self.require_leader()
            status = self.status(request.connector)
            self.configs.put_as_worker(config_state.restart_entry(request))
        connector = status["connector"]
        if not request.only_failed or connector["state"] == State.FAILED:
            connector["state"] = State.RESTARTING.value
            connector.pop("trace", None)
        for task in status["tasks"] if request.include_tasks else ():
            if not request.only_failed or task["state"] == State.FAILED:
                task["state"] = State.RESTARTING.value
                task.pop("trace", None)
        return status

    # Offsets

    def get_offsets(self, name: str) -> Json:
        return self.offsets.get(name, self.config(name))

    def alter_offsets(self, name: str, offsets: Sequence[tuple[Json, Json | None]]) -> str:
        config = self._stopped(name)
        return self.offsets.alter(name, config, offsets)

    def reset_offsets(self, name: str) -> str:
        config = self._stopped(name)
        return self.offsets.reset(name, config)

    def _stopped(self, name: str) -> Config:
        """Raises RequestError unless the connector and all its tasks are stopped."""
        with self._writing:
            self.require_leader()
        state = self.configs.state()
        config = self._config(name, state)
        if state.target(name) is not TargetState.STOPPED or state.tasks(name):
            raise errors.bad_request(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )
        status = self.statuses.state().connectors.get(name)
        if status is not None and status.state not in (State.STOPPED, State.UNASSIGNED, State.FAILED):
            raise errors.rebalance_expected()  # still stopping
        return config

    # Validation

    def validate(self, config: Mapping[str, str], *, from_operator: bool = False) -> ConfigInfos:
        return validate(config, self.worker, self.connectors.providers, from_operator=from_operator)

    # Loggers

    def set_logger(self, namespace: str, level: str, *, everywhere: bool) -> list[str]:
        changed = self.loggers.set(namespace, level)
        if everywhere:
            self.configs.put_as_worker(config_state.logger_entry(namespace, level))
        return changed

    # Helpers

    def _config(self, name: str, state: ConfigState) -> Config:
        if name not in state.connectors:
            raise errors.connector_not_found(name)
        return state.connectors[name]

    def _require_known(self, name: str) -> None:
        if name not in self.configs.state().connectors:
            raise RequestError(404, f"Unknown connector: {name}")

    def apply(self) -> None:
        self.connectors.want(self.wanted(self.configs.state()))


def type_of(config: Mapping[str, str]) -> str:
    try:
        return find(config.get("connector.class", "")).type
    except ClientError:
        return "unknown"


def with_task_class(config: Mapping[str, str], tasks: Sequence[Mapping[str, str]]) -> list[Config]:
    """Add the task class to task configs, so that Kafka's worker can take over."""
    try:
        name = find(config.get("connector.class", "")).class_name
    except ClientError:
        name = config.get("connector.class", "")
    task_class = name.removesuffix("Connector") + "Task"
    return [{**each, "task.class": each.get("task.class", task_class)} for each in tasks]


def _shown(status: Status) -> Json:
    found = {"state": status.state, "worker_id": status.worker_id}
    if status.trace is not None:
        found["trace"] = status.trace
    if status.version is not None:
        found["version"] = status.version
    return found
