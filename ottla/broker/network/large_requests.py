"""Large requests: decoded, handled and encoded in slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.network.slow_lane import Job, SlowLane, Work
from ottla.protocol.codec import Request, Response, Struct

if TYPE_CHECKING:
    from ottla.broker.network.dispatch import RequestContext
    from ottla.broker.network.send_queue import Part

#: Longer frames are decoded in slices. Shorter ones have no more entries than one slice handles quickly.
LARGE_FROM = 2048


class LargeRequest:
    """One request from frame to response; its connection waits.

    Invariant: the frame and the decoded message live until `end`, which happens once. Owner: the event loop.
    """

    __slots__ = ("_buffer", "_context", "_give_back", "_is_admitted", "_is_over", "_job", "_lane", "_size",
                 "_started", "pending")  # fmt: skip

    def __init__(
        self,
        lane: SlowLane,
        context: RequestContext,
        buffer: memoryview | None,
        give_back: Callable[[memoryview], None],
    ) -> None:
        """`buffer` is released when the frame in it is no longer needed."""
        self._lane = lane
        self._context = context
        self._buffer = buffer
        self._give_back = give_back
        self._is_admitted = self._is_over = False
        self._started: list[Struct] = []
        self._size = 0
        self._job: Job | None = None
        self.pending = context.pending_response(blocks=True, on_abandon=self._abandon)

    def decode(
        self,
        frame: memoryview,
        position: int,
        done: Callable[[Request | None, BaseException | None], None],
    ) -> None:
        """Decode the frame once memory is available, then call `done`."""

        def begin() -> None:
            self._is_admitted = True
            if self._is_over:
                self._leave()
                return
            served = self._context.served
            decoding = served.request.decode_in_slices(frame, served.version, position, self._started)
            self._job = self._lane.run(decoding, self._counting(done))

        self._size = len(frame)
        self._context.connection.await_response(self.pending)
        self._lane.enter(self._size, begin)

    def _counting(
        self, done: Callable[[Any, BaseException | None], None]
    ) -> Callable[[Any, BaseException | None], None]:
        def count_and_go_on(result: Any, error: BaseException | None) -> None:
            job, self._job = self._job, None
            if job is not None:
                self._context.spend(job.seconds)
            done(result, error)

        return count_and_go_on

    def _abandon(self) -> None:
        """Handle a disconnect. As in Kafka, a running handler completes."""
        if self._job is not None:
            self._job.stop()
            self.end()
        elif not self._is_admitted:
            self.end()

    def end(self, *graphs: Struct) -> None:
        self._lane.discard(*graphs, *self._started)
        if self._is_over:
            return
        self._is_over = True
        if self._buffer is not None:
            self._give_back(self._buffer)
            self._buffer = None
        if self._is_admitted:
            self._leave()

    def _leave(self) -> None:
        self._lane.leave(self._size)


def encode_in_slices(
    response: Response, version: int, header: Callable[[int], bytes]
) -> Work[tuple[list[Part], int]]:
    """Encode a response in few parts behind a header for its size. Return the parts and the total size."""
    parts: list[Part] = [b""]
    joined = 1
    for _ in response.encode_in_slices(version, parts.append):
        joined = _join(parts, joined)
        yield None
    _join(parts, joined)
    size = sum(map(len, parts))
    parts[0] = header(size)
    return parts, size + len(parts[0])


def _join(parts: list[Part], start: int) -> int:
    """Join the bytes after `start` into one part, unless they include records. Return the new start."""
    pieces = parts[start:]
    if len(pieces) > 1 and all(isinstance(piece, bytes) for piece in pieces):
        parts[start:] = [b"".join(pieces)]  # type: ignore[arg-type]
    return len(parts)
