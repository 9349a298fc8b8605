"""A cache on disk for parts of remote objects, limited by size."""

from __future__ import annotations

import logging
import os
import shutil
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Lock

logger = logging.getLogger(__name__)

CACHE_DIRECTORY = "remote-log-chunk-cache"


class ChunkCache:
    """Least recently used chunks go first. The files mean nothing after a restart, which starts with an empty cache.

    Several threads may use it. Readers of the same missing chunk wait for one download.
    """

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._loading: dict[str, Future[bytes]] = {}
        self._lock = Lock()
        self.size = 0
        self.hits = self.misses = 0
        self._is_usable = max_bytes > 0
        try:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._without_disk(error)

    def get(self, name: str, load: Callable[[], bytes]) -> bytes:
        """Return a chunk, by `load` if it is not cached. Raises the errors of `load`."""
        with self._lock:
            is_cached = name in self._sizes
            if is_cached:
                self._sizes.move_to_end(name)
                self.hits += 1
            else:
                loading = self._loading.get(name)
                if loading is None:
                    self.misses += 1
                    mine: Future[bytes] = Future()
                    self._loading[name] = mine
        if is_cached:
            try:
                return (self._directory / name).read_bytes()
            except OSError:
                self.forget(name)  # evicted in the meantime, or removed by somebody
                return load()
        if loading is not None:
            return loading.result()
        try:
            data = load()
        except BaseException as error:
            with self._lock:
                del self._loading[name]
            mine.set_exception(error)
            raise
        self._keep(name, data)
        with self._lock:
            del self._loading[name]
        mine.set_result(data)
        return data

    def __contains__(self, name: str) -> bool:
        with self._lock:
            return name in self._sizes or name in self._loading

    def _keep(self, name: str, data: bytes) -> None:
        if not self._is_usable or len(data) > self._max_bytes:
            return
        path = self._directory / name
        temporary = path.with_name(f"{name}.tmp")
        try:
            temporary.write_bytes(data)
            os.replace(temporary, path)
        except OSError as error:
            self._without_disk(error)
            with suppress(OSError):
                temporary.unlink()
            return
        with self._lock:
            self.size += len(data) - self._sizes.pop(name, 0)
            self._sizes[name] = len(data)
            old = []
            while self.size > self._max_bytes:
                oldest, size = self._sizes.popitem(last=False)
                self.size -= size
                old.append(oldest)
        for each in old:
            with suppress(OSError):
                (self._directory / each).unlink()

    def forget(self, name: str) -> None:
        """Drop a chunk, because it is damaged."""
        with self._lock:
            self.size -= self._sizes.pop(name, 0)
        with suppress(OSError):
            (self._directory / name).unlink()

    def _without_disk(self, error: OSError) -> None:
        if self._is_usable:
            logger.warning(
                "%s cannot be written to (%s): remote segments are read without a cache",
                self._directory,
                error.strerror or error,
            )
        self._is_usable = False
