"""Storage for connector configs: Kafka's config topic, or the memory of a standalone worker."""

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
    """Any thread may call `on_change`, once for each record read after the start."""

    on_change: OnChange

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def state(self) -> ConfigState:
        """Return an immutable copy."""

    def put(self, entries: Sequence[Entry]) -> None:
        """Write entries as the leader, and wait until they are part of the state. Raises Fenced, ClientError."""

    def put_as_worker(self, entry: Entry) -> None:
        """Write an entry as any worker, and wait until it is part of the state."""


class _State:
    """The state, and a copy for readers that is renewed only after a change."""

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
            # The id of Kafka's leaders, so that leaders of both kinds fence each other.
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
        # Older records are no news: restart requests in them were executed long ago.
        if self._is_started:
            self.on_change(change)

    def wait_for(self, offset: int, seconds: float) -> None:
        """Wait until all records before this offset are part of the state. Raises RetriableError."""
        self._storage.wait_for(offset - 1, seconds)

    def take_over(self) -> None:
        """Fence the previous leader with the next `put`."""
        self._storage.take_over()

    def put(self, entries: Sequence[Entry]) -> None:
        self._storage.wait_for(self._storage.append(entries, _WRITE_SECONDS), _WRITE_SECONDS)

    def put_as_worker(self, entry: Entry) -> None:
        _, offset = self._storage.write(*entry, _WRITE_SECONDS)
        self._storage.wait_for(offset, _WRITE_SECONDS)
