"""Large requests: decoded, handled and encoded in slices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ottla.broker.network.request_context import CloseConnection, RequestContext
from ottla.broker.network.slow_lane import Job, SlowLane, Work
from ottla.protocol.codec import Request, Response, Struct
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.network.request_context import PendingResponse
    from ottla.broker.network.send_queue import Part
    from ottla.broker.network.split import Split

logger = logging.getLogger(__name__)

#: Longer frames are decoded in slices. Shorter ones have no more entries than one slice handles quickly.
LARGE_FROM = 2048


class LargeRequest:
    """One request from frame to response; its connection waits.

    Invariant: the frame and the decoded message live until `end`, which happens once. Owner: the event loop.
    """

    __slots__ = ("_buffer", "_context", "_frame", "_give_back", "_is_admitted", "_is_over", "_job", "_lane", "_size",
                 "_started", "pending")  # fmt: skip

    def __init__(
        self,
        lane: SlowLane,
        context: RequestContext,
        frame: memoryview,
        give_back: Callable[[memoryview], None],
    ) -> None:
        """Keep the frame; its buffer is released when it is no longer needed."""
        self._lane = lane
        self._context = context
        context.is_large = True
        context.large = self
        self._frame, self._buffer = context.connection.keep_frame(frame)
        self._give_back = give_back
        self._is_admitted = self._is_over = False
        self._started: list[Struct] = []
        self._size = 0
        self._job: Job | None = None
        self.pending = context.pending_response(blocks=True, on_abandon=self._abandon)

    def decode(
        self,
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
            decoding = served.request.decode_in_slices(self._frame, served.version, position, self._started)
            self._job = self._lane.run(decoding, self._counting(done))

        self._size = len(self._frame)
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

    def hand_over(self, pending: PendingResponse) -> None:
        """Let another pending response take the place of this one."""
        stop_waiting = pending.on_abandon

        def abandon() -> None:
            if stop_waiting is not None:
                stop_waiting()
            self.end()

        pending.on_abandon = abandon
        pending.context.connection.hand_over(self.pending, pending)

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


def answer_parts(
    request: Request,
    context: RequestContext,
    split: Split,
    handle: Callable[[Request, RequestContext], Any],
    kafka_error: Callable[[BaseException, Request, RequestContext], KafkaError],
) -> Work[Response | None]:
    """Handle a large request part by part. An error for the whole request also answers all later parts."""
    whole: Response | None = None
    failure: KafkaError | None = None
    assert context.large is not None
    for part, depth in split.parts(request):
        answer: Any = None
        if failure is None:
            try:
                answer = handle(part, context)
                if isinstance(answer, Generator):
                    answer = yield from answer
                elif answer is not None and not isinstance(answer, Response):
                    answer = yield answer
            except CloseConnection:
                raise
            except Exception as error:
                failure = kafka_error(error, part, context)
        if failure is not None:
            answer = context.api.error_response(part, failure)
        if isinstance(answer, Generator):
            answer = yield from answer
        if whole is None:
            whole = answer
        elif answer is not None:
            split.merge(whole, answer, depth)
        yield None
        if context.large.pending.is_complete:
            break  # the client has disconnected
    return whole


def encode_large(
    lane: SlowLane, pending: PendingResponse, response: Response, header: Callable[[int], bytes]
) -> None:
    """Encode a response in slices, and complete it then."""
    context = pending.context

    def encoded(result: tuple[list[Part], int] | None, error: BaseException | None) -> None:
        if error is not None:
            logger.error("%s v%d cannot be answered", context.api.name, context.version, exc_info=error)
            context.connection.close()
        elif result is not None:
            pending.encoded_as(*result)
        context.end_large(response)

    def abandon() -> None:
        job.stop()
        context.end_large(response)

    pending.on_abandon = abandon
    job = lane.run(encode_in_slices(response, context.version, header), encoded)


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
