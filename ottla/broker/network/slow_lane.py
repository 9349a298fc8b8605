"""Slices of work for large requests, so that no request blocks the event loop.

Generators decode, handle and encode a request with hundreds of entries. The lane runs one slice of one generator in
each turn of the loop. Ten clients with large requests therefore slow others down no more than one does.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from functools import cache
from itertools import islice
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

from ottla.protocol.codec import Struct

T = TypeVar("T")

#: A generator that yields None between slices, or an awaitable and receives its result.
Work: TypeAlias = Generator[Awaitable[Any] | None, Any, T]

#: Entries to process before a handler yields. Most take ten microseconds.
SLICE = 64

# A slice may take as long as all other work since the last slice, within these bounds.
_SHORTEST_SECONDS = 0.0005
_LONGEST_SECONDS = 0.002

# Limits on requests in progress, in received bytes: their objects take twenty times as much memory.
_SMALL = 1024 * 1024
_SMALL_TOGETHER = 8 * 1024 * 1024
_LARGE_TOGETHER = 16 * 1024 * 1024

# After this time without a pause, no new request is admitted until the garbage collector has run.
_UNCOLLECTED_SECONDS = 30.0
_NEVER = 1 << 30


class Job:
    """A generator in the lane. Owner: the event loop."""

    __slots__ = ("_done", "_is_running", "_lane", "_waits", "_work", "is_over", "seconds")

    def __init__(
        self, lane: SlowLane, work: Work[Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        self._lane = lane
        self._work = work
        self._done = done
        self._waits: asyncio.Future[Any] | None = None
        self._is_running = False
        self.is_over = False
        self.seconds = 0.0  # time spent in slices

    def stop(self) -> None:
        """Stop the job without calling `done`."""
        if not self.is_over:
            self.is_over = True
            if self._waits is not None:
                self._waits.cancel()
            if not self._is_running:
                self._work.close()

    def run(self, until: float) -> bool:
        """Run until the given time or the end. Return True if the job needs another slice now."""
        if self.is_over:
            return False
        waits, self._waits = self._waits, None
        began = perf_counter()
        self._is_running = True
        try:
            asked = self._work.send(None) if waits is None else self._resume(waits)
            while asked is None:
                if self.is_over or perf_counter() >= until:
                    break
                asked = self._work.send(None)
        except StopIteration as stop:
            self._end(stop.value, None)
        except Exception as error:
            self._end(None, error)
        else:
            if asked is not None and not self.is_over:
                self._waits = asyncio.ensure_future(asked)
                self._waits.add_done_callback(self._continue)
        finally:
            self._is_running = False
            self.seconds += perf_counter() - began
        if self.is_over:
            self._work.close()
            return False
        return self._waits is None

    def _resume(self, waits: asyncio.Future[Any]) -> Awaitable[Any] | None:
        if waits.cancelled():
            return self._work.throw(asyncio.CancelledError())
        error = waits.exception()
        return self._work.send(waits.result()) if error is None else self._work.throw(error)

    def _continue(self, _: object) -> None:
        if not self.is_over:
            self._lane.queue(self)

    def _end(self, result: Any, error: BaseException | None) -> None:
        if not self.is_over:
            self.is_over = True
            self._done(result, error)


class SlowLane:
    """Invariant: each turn of the loop runs one slice, and jobs alternate within and across slices.

    Owner: the event loop.
    """

    def __init__(self) -> None:
        self._queue: deque[Job | asyncio.Future[None]] = deque()
        self._is_scheduled = False
        self._slice_ended = 0.0
        self._small = _Admissions(_SMALL_TOGETHER)
        self._large = _Admissions(_LARGE_TOGETHER)
        # Start of the garbage collector's restriction to young objects
        self._uncollected_since: float | None = None
        self._thresholds = gc.get_threshold()

    def run(self, work: Work[T], done: Callable[[T | None, BaseException | None], None]) -> Job:
        """Run a generator in slices, then call `done` with its result or error."""
        job = Job(self, work, done)
        self.queue(job)
        return job

    def turn(self) -> asyncio.Future[None]:
        """Return a future that completes when the caller may run for a slice."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue(future)
        return future

    def discard(self, *graphs: Struct) -> None:
        """Dismantle messages in slices: freeing a million objects takes a tenth of a second."""
        self.run(take_apart(*graphs), _ignore)

    def queue(self, entry: Job | asyncio.Future[None]) -> None:
        self._queue.append(entry)
        if not self._is_scheduled:
            self._is_scheduled = True
            if self._uncollected_since is None:
                # A full collection would visit every object of a large request and find no garbage among them.
                self._thresholds = gc.get_threshold()
                gc.set_threshold(self._thresholds[0], _NEVER, _NEVER)
                self._uncollected_since = perf_counter()
            asyncio.get_running_loop().call_soon(self._run_slice)

    def _run_slice(self) -> None:
        began = perf_counter()
        until = began + min(max(began - self._slice_ended, _SHORTEST_SECONDS), _LONGEST_SECONDS)
        queue = self._queue
        while queue:
            entry = queue.popleft()
            if isinstance(entry, Job):
                if entry.run(until):
                    queue.append(entry)
            elif not entry.done():
                entry.set_result(None)
                break  # the waiting task runs next, for a slice of its own
            if perf_counter() >= until:
                break
        self._slice_ended = perf_counter()
        if queue:
            asyncio.get_running_loop().call_soon(self._run_slice)
        else:
            self._is_scheduled = False
            self._collect_garbage()

    # Admission

    def enter(self, size: int, begin: Callable[[], None]) -> None:
        """Call `begin` once there is memory for `size` bytes. The caller must call `leave` afterwards."""
        admissions = self._small if size <= _SMALL else self._large
        admissions.waiting.append((size, begin))
        self._admit()

    def leave(self, size: int) -> None:
        admissions = self._small if size <= _SMALL else self._large
        admissions.admitted -= size
        self._collect_garbage()
        self._admit()

    def _admit(self) -> None:
        since = self._uncollected_since
        if since is not None and perf_counter() - since > _UNCOLLECTED_SECONDS and self._is_occupied:
            return
        for admissions in (self._small, self._large):
            while admissions.has_room:
                size, begin = admissions.waiting.popleft()
                admissions.admitted += size
                begin()

    @property
    def _is_occupied(self) -> bool:
        return bool(self._small.admitted or self._large.admitted)

    def _collect_garbage(self) -> None:
        """Re-enable full garbage collection while no large request is in progress."""
        if self._uncollected_since is not None and not (self._is_scheduled or self._is_occupied):
            self._uncollected_since = None
            gc.set_threshold(*self._thresholds)

    def close(self) -> None:
        for entry in self._queue:
            entry.stop() if isinstance(entry, Job) else entry.cancel()
        self._queue.clear()
        if self._uncollected_since is not None:
            self._uncollected_since = None
            gc.set_threshold(*self._thresholds)


class _Admissions:
    """Requests of one size class: admitted and waiting for memory."""

    __slots__ = ("admitted", "limit", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.admitted = 0  # bytes
        self.waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def has_room(self) -> bool:
        return bool(self.waiting) and (not self.admitted or self.admitted + self.waiting[0][0] <= self.limit)


def distinct(items: Iterable[T]) -> Work[set[T]]:
    found: set[T] = set()
    rest = iter(items)
    while some := list(islice(rest, 16 * SLICE)):
        found.update(some)
        yield None
    return found


def ordered(items: Iterable[str]) -> Work[list[str]]:
    rest = iter(items)
    runs: list[list[str]] = []
    while some := list(islice(rest, SLICE)):
        runs.append(sorted(some))
        yield None
    found: list[str] = []
    merged = heapq.merge(*runs)
    while some := list(islice(merged, 4 * SLICE)):
        found += some
        yield None
    return found


def take_apart(*graphs: Struct) -> Work[None]:
    """Empty the long arrays of messages from their ends, yielding in between.

    Short arrays stay: a response may share a list with the cluster image.
    """
    for graph in graphs:
        for name, of_structs in _nested(type(graph)):
            value = getattr(graph, name, None)
            if isinstance(value, Struct):
                yield from take_apart(value)
            elif isinstance(value, list) and len(value) > SLICE:
                nests = of_structs is not None and bool(_nested(of_structs))
                while value:
                    if nests:
                        for element in value[-SLICE:]:
                            if element is not None and _is_long(element):
                                yield from take_apart(element)
                    del value[-SLICE if of_structs is not None else -64 * SLICE :]
                    yield None
            elif isinstance(value, list) and of_structs is not None and _nested(of_structs):
                for element in value:
                    if element is not None and _is_long(element):
                        yield from take_apart(element)


@cache
def _nested(cls: type[Struct]) -> tuple[tuple[str, type[Struct] | None], ...]:
    fields = cls.fields.items()
    return tuple((name, field.struct) for name, field in fields if field.kind in ("array", "struct"))


def _is_long(element: Struct) -> bool:
    for name, _ in _nested(type(element)):
        value = getattr(element, name, None)
        if value and (isinstance(value, Struct) or len(value) > SLICE):
            return True
    return False


def _ignore(result: object, error: BaseException | None) -> None:
    if error is not None:
        raise error
