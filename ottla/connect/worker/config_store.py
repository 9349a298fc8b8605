"""Where configs are kept: in Kafka's config topic for all workers, or in the memory of a standalone one."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.worker.config_state import Change, ConfigState, Entry
from ottla.connect.worker.internal_topics import internal_topic
from ottla.connect.worker.topic_storage import TopicStorage

_WRITE_SECONDS = 30.0
_START_SECONDS = 60.0

OnChange = Callable[[Change], None]


class ConfigStore(Protocol):
    """`on_change` is called for each record that is read after the start, by any thread."""

    on_change: OnChange

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def state(self) -> ConfigState:
        """A copy that does not change."""

    def put(self, entries: Sequence[Entry]) -> None:
        """By the leader. Returns when they are part of the state. Raises Fenced, ClientError."""

    def put_as_worker(self, entry: Entry) -> None:
        """By any worker. Returns when it is part of the state."""


class _State:
    """The state and a copy of it for readers, which is made anew only when something has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = ConfigState()
        self._copy: ConfigState | None = None

    def apply(self, key: bytes, value: bytes | None, offset: int) -> Change:
        with self._lock:
            self._copy = None
            return self._state.apply(key, value, offset)

    def clear(self) -> None:
        with self._lock:
            self._state, self._copy = ConfigState(), None

    def copy(self) -> ConfigState:
        with self._lock:
            if self._copy is None:
                self._copy = copy.deepcopy(self._state)
            return self._copy


class MemoryConfigStore:
    def __init__(self) -> None:
        self._state = _State()
        self._lock = threading.Lock()
        self._next = 0
        self.on_change: OnChange = lambda change: None

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def state(self) -> ConfigState:
        return self._state.copy()

    def put(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.put_as_worker(entry)

    def put_as_worker(self, entry: Entry) -> None:
        with self._lock:
            change = self._state.apply(*entry, self._next)
            self._next += 1
        self.on_change(change)


class KafkaConfigStore:
    def __init__(self, worker: WorkerConfig) -> None:
        self._state = _State()
        self._is_started = False
        self.on_change: OnChange = lambda change: None
        self._storage = TopicStorage(
            worker.client_settings,
            internal_topic(worker, "config"),
            self._read,
            # That of Kafka's leaders, so that those of both kinds fence each other.
            fencing_id=f"connect-cluster-{worker.group_id}",
            on_restart=self._state.clear,
        )

    def start(self) -> None:
        self._storage.start(_START_SECONDS)
        self._is_started = True

    def stop(self) -> None:
        self._storage.stop()

    def state(self) -> ConfigState:
        return self._state.copy()

    def _read(self, key: bytes, value: bytes | None, offset: int) -> None:
        change = self._state.apply(key, value, offset)
        # What was there before is no news: a request to restart was carried out long ago.
        if self._is_started:
            self.on_change(change)

    def wait_for(self, offset: int, seconds: float) -> None:
        """All before this offset is part of the state. Raises RetriableError."""
        self._storage.wait_for(offset - 1, seconds)

    def take_over(self) -> None:
        """Fences who led before us, with the next `put`."""
        self._storage.take_over()

    def put(self, entries: Sequence[Entry]) -> None:
        self._storage.wait_for(self._storage.append(entries, _WRITE_SECONDS), _WRITE_SECONDS)

    def put_as_worker(self, entry: Entry) -> None:
        _, offset = self._storage.write(*entry, _WRITE_SECONDS)
        self._storage.wait_for(offset, _WRITE_SECONDS)
