"""Storage for statuses: Kafka's status topic, or the memory of a standalone worker.

A separate thread writes statuses, so reporting never blocks. Only the latest pending status of each connector, task or
topic is written.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from ottla.client.errors import ClientError
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.worker import status_state
from ottla.connect.worker.internal_topics import internal_topic
from ottla.connect.worker.status_state import Status, StatusState, TopicUse
from ottla.connect.worker.topic_storage import TopicStorage

_log = logging.getLogger(__name__)

_WRITE_SECONDS = 10.0
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0


#: A value, and whether it may still be written.
_Write = tuple[bytes | None, Callable[[], bool] | None]


class StatusStore(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...

    def state(self) -> StatusState:
        """Return an immutable copy."""

    def put_connector(self, connector: str, status: Status | None, *, safely: bool = False) -> None:
        """Write a status. None deletes it. `safely` skips the write if another worker has reported since."""

    def put_task(self, connector: str, task: int, status: Status | None, *, safely: bool = False) -> None: ...

    def put_topic(self, use: TopicUse) -> None: ...

    def delete_topic(self, connector: str, topic: str) -> None: ...


class _Base:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = StatusState()

    def state(self) -> StatusState:
        with self._lock:
            return self._state.copy()

    def _apply(self, key: bytes, value: bytes | None) -> None:
        with self._lock:
            self._state.apply(key, value)

    def put_connector(self, connector: str, status: Status | None, *, safely: bool = False) -> None:
        def is_allowed() -> bool:
            return status is None or self._state.may_replace(self._state.connectors.get(connector), status)

        self._put(status_state.connector_key(connector), _value(status), is_allowed if safely else None)

    def put_task(self, connector: str, task: int, status: Status | None, *, safely: bool = False) -> None:
        def is_allowed() -> bool:
            current = self._state.tasks.get(connector, {}).get(task)
            return status is None or self._state.may_replace(current, status)

        self._put(status_state.task_key(connector, task), _value(status), is_allowed if safely else None)

    def put_topic(self, use: TopicUse) -> None:
        self._put(status_state.topic_key(use.topic, use.connector), status_state.topic_value(use), None)

    def delete_topic(self, connector: str, topic: str) -> None:
        self._put(status_state.topic_key(topic, connector), None, None)

    def _put(self, key: bytes, value: bytes | None, is_allowed: Callable[[], bool] | None) -> None:
        raise NotImplementedError


def _value(status: Status | None) -> bytes | None:
    return None if status is None else status_state.encoded(status.to_json())


class MemoryStatusStore(_Base):
    def start(self) -> None: ...

    def stop(self) -> None: ...

    def _put(self, key: bytes, value: bytes | None, is_allowed: Callable[[], bool] | None) -> None:
        self._apply(key, value)


class KafkaStatusStore(_Base):
    def __init__(self, worker: WorkerConfig) -> None:
        super().__init__()
        self._storage = TopicStorage(
            worker.client_settings,
            internal_topic(worker, "status"),
            lambda key, value, _offset: self._apply(key, value),
        )
        self._backoff = worker.client_settings.retry_backoff
        self._waiting: dict[bytes, _Write] = {}
        self._writing: dict[bytes, _Write] = {}
        #: True after a failed write. Then this worker shows what it could not write.
        self._is_cut_off = False
        self._changed = threading.Condition()
        self._deadline: float | None = None
        self._writer = threading.Thread(target=self._run, name="connect-status", daemon=True)

    def state(self) -> StatusState:
        found = super().state()
        with self._changed:
            unwritten = {**self._writing, **self._waiting} if self._is_cut_off else {}
        for key, (value, is_allowed) in unwritten.items():
            if is_allowed is None or is_allowed():
                found.apply(key, value)
        return found

    def start(self) -> None:
        self._storage.start(_START_SECONDS)
        self._writer.start()

    def stop(self) -> None:
        """Write the pending statuses if the cluster is reachable, then stop."""
        with self._changed:
            self._deadline = time.monotonic() + _STOP_SECONDS
            self._changed.notify_all()
        if self._writer.ident is not None:
            self._writer.join()
        self._storage.stop()

    def _put(self, key: bytes, value: bytes | None, is_allowed: Callable[[], bool] | None) -> None:
        with self._changed:
            self._waiting.pop(key, None)
            self._waiting[key] = value, is_allowed
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._deadline is not None)
                if not self._waiting:
                    return
                key = next(iter(self._waiting))
                value, is_allowed = self._waiting.pop(key)
                self._writing = {key: (value, is_allowed)}
            if is_allowed is not None:
                with self._lock:
                    if not is_allowed():
                        self._writing = {}
                        continue
            try:
                self._storage.write(key, value, _WRITE_SECONDS if self._deadline is None else _STOP_SECONDS)
                self._writing, self._is_cut_off = {}, False
            except ClientError as error:
                _log.warning("A status could not be written: %s", error)
                with self._changed:
                    self._is_cut_off, self._writing = True, {}
                    self._waiting.setdefault(key, (value, is_allowed))
                    if self._deadline is not None and time.monotonic() > self._deadline:
                        return
                    self._changed.wait(self._backoff)
