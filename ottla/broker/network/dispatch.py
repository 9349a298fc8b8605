"""From a frame to its handler and back: request header, version check, decoding, response header.

A module `kNN_name` in `ottla.broker.apis` serves the API with key NN. Its `handle` returns the response, or a
`PendingResponse` or coroutine if it has to wait, or None if the client expects no response. A handler for many entries
is a generator that yields in between, or a coroutine that uses `RequestContext.paced`. Alternatively its module defines
`SPLIT` to divide large requests. `large_requests` has the path of large requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from functools import partial
from importlib import import_module
from struct import Struct as Packer
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from ottla.broker.network.connection import RECEIVE_BYTES, Connection
from ottla.broker.network.error_responses import error_response, error_response_in_slices
from ottla.broker.network.large_requests import LARGE_FROM, LargeRequest, answer_parts, encode_large
from ottla.broker.network.request_context import (
    NEVER,
    Answer,
    Api,
    ApiVersion,
    CloseConnection,
    PendingResponse,
    RequestContext,
)
from ottla.broker.network.request_times import Turns
from ottla.broker.network.send_queue import Part
from ottla.broker.network.slow_lane import SlowLane, Work
from ottla.broker.network.wire import FrameBuffers
from ottla.broker.quotas import RequestCost
from ottla.broker.security.authorization import ConnectionRights
from ottla.broker.telemetry import KEYS as TELEMETRY_KEYS
from ottla.metadata.stores.store import StoreError
from ottla.protocol.codec import MalformedMessage, Request, Response
from ottla.protocol.codegen import MAX_TAGGED_FIELDS, rest_of_varint
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import request_type

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.request_times import TimedTurns

logger = logging.getLogger(__name__)

# API key and version in one number, the correlation id, the length of the client id.
_HEADER = Packer(">Iih").unpack_from
_VERSION = Packer(">hh")
_RESPONSE_HEADER = Packer(">ii").pack
_FLEXIBLE_RESPONSE_HEADER = Packer(">iix").pack
_API_VERSIONS = 18
# Records are not decoded, so APIs that carry them (Produce, MirrorAppend) are not limited here.
_WITH_RECORDS = (0, 10001)
# Decoded messages take up to forty times their size in memory.
_MAX_DECODED_BYTES = 16 * 1024 * 1024


class Dispatcher:
    """Handles the frames of all connections of a broker. Owner: the event loop."""

    def __init__(self, broker: Broker, apis: Mapping[int, str]) -> None:
        """`apis` names the module of each served API."""
        self._broker = broker
        self._quotas = broker.quotas
        self._modules = apis
        if broker.telemetry is None:
            self._modules = {key: name for key, name in apis.items() if key not in TELEMETRY_KEYS}
        self._apis: dict[int, Api] = {}
        self._served: dict[int, ApiVersion] = {}
        self._versions: dict[int, tuple[int, int]] = {}
        self.frames = FrameBuffers()
        self.turns = Turns()
        self.lane = SlowLane()
        self._timed: TimedTurns | None = None  # the same object, if requests are timed
        # Shared by all connections: none keeps received bytes beyond its turn.
        self.receive_view = memoryview(bytearray(RECEIVE_BYTES))

    def versions(self) -> dict[int, tuple[int, int]]:
        if not self._versions:
            self._versions = {key: request_type(key).versions for key in sorted(self._modules)}
        return self._versions

    def time(self, turns: TimedTurns | None) -> None:
        self.turns = turns or Turns()
        self._timed = turns
        for served in self._served.values():
            served.timed_at = NEVER if turns is None else served.requests + 1

    def served(self) -> Iterable[ApiVersion]:
        """Return the served API versions, sorted by key and version."""
        return [self._served[number] for number in sorted(self._served)]

    def rights(self, connection: Connection) -> ConnectionRights | None:
        authorizer = self._broker.authorizer
        return None if authorizer is None else ConnectionRights(authorizer, connection)

    def read_failed(self, path: str, error: OSError) -> None:
        self._broker.replicas.file_failed(path, error)

    def api(self, key: int) -> Api | None:
        """Return the API with this key, importing its module on first use."""
        found = self._apis.get(key)
        if found is None and key in self._modules:
            module = import_module(self._modules[key])
            own = getattr(module, "error_response", error_response)
            found = self._apis[key] = Api(key, module.handle, own, getattr(module, "SPLIT", None))
        return found

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Handle one request: write the response to the connection, or let the connection await it."""
        try:
            self._handle(connection, frame)
        except (MalformedMessage, StructError, IndexError, UnicodeDecodeError) as error:
            self._hang_up(connection, f"malformed request: {error}")
        except CloseConnection as error:
            self._hang_up(connection, str(error))

    def _handle(self, connection: Connection, frame: memoryview) -> None:
        number, correlation_id, client_id_length = _HEADER(frame, 0)
        served = self._served.get(number) or self._serve(frame)
        api = served.api
        if len(frame) > _MAX_DECODED_BYTES and api.key not in _WITH_RECORDS:
            raise CloseConnection(f"{api.name}: a request of {len(frame)} bytes is too large for that API")
        if served.version < 0:
            # Answer in version 0 with all served versions, so that the client can choose again.
            first = ApiVersion(api, 0)
            self.call(api.request(), RequestContext(first, connection, correlation_id, unsupported=True))
            return
        position = 10
        if client_id_length > 0:
            position += client_id_length
            raw = frame[10:position]
            if raw != connection.client_id_raw:
                connection.client_id_raw = bytes(raw)
                connection.client_id = str(raw, "utf-8")
        if served.is_flexible:
            position = _skip_tags(frame, position)
        request: Request | None
        if len(frame) > LARGE_FROM:
            decoding = served.request.decode_in_slices(frame, served.version, position, [])
            try:
                request = next(decoding)
            except StopIteration as decoded:
                request = decoded.value
        else:
            request = served.request.decode(frame, served.version, position)
        context = RequestContext(served, connection, correlation_id)
        if self._quotas.active:
            context.cost = RequestCost(len(frame))
        count = served.requests + 1
        served.requests = count
        if count >= served.timed_at and self._timed is not None:
            context.timing = self._timed.begin(served)
        if request is None:
            self._receive_large(frame, position, context)
        elif self._broker.faults is None:
            self.call(request, context)
        else:
            self._carry_out(request, context)

    def _carry_out(self, request: Request, context: RequestContext) -> None:
        if self._broker.faults is not None:
            self._broker.faults.handle(self, request, context)
        else:
            self.call(request, context)

    def _receive_large(self, frame: memoryview, position: int, context: RequestContext) -> None:
        """Restart decoding a request in slices while its connection waits."""
        large = LargeRequest(self.lane, context, frame, self.frames.give_back)
        if context.cost is not None:
            context.cost.pause()
        if context.timing is not None:
            context.timing.waits()

        def carry_out(request: Request | None, error: BaseException | None) -> None:
            try:
                if error is not None:
                    raise error
                assert request is not None
                self._carry_out(request, context)
            except CloseConnection as reason:
                self._hang_up(context.connection, str(reason))
            except MalformedMessage as reason:
                self._hang_up(context.connection, f"malformed request: {reason}")

        large.decode(position, carry_out)

    def _serve(self, frame: memoryview) -> ApiVersion:
        """Return the API version for its first request; -1 for an unsupported version of ApiVersions."""
        key, version = _VERSION.unpack_from(frame)
        api = self.api(key)
        if api is None:
            raise CloseConnection(f"API key {key} is not served")
        if not api.min_version <= version <= api.max_version:
            if key != _API_VERSIONS:
                raise CloseConnection(f"{api.name} version {version} is not supported")
            return ApiVersion(api, -1)
        served = self._served[_HEADER(frame, 0)[0]] = ApiVersion(api, version)
        if self._timed is not None:
            served.timed_at = 1
        return served

    def call(self, request: Request, context: RequestContext) -> None:
        answer: Answer
        try:
            if context.large is not None and context.api.split is not None:
                handle = partial(context.api.handler, self._broker)
                answer = answer_parts(request, context, context.api.split, handle, self._kafka_error)
            else:
                answer = context.api.handler(self._broker, request, context)
        except CloseConnection:
            raise
        except Exception as error:
            self.fail(error, request, context)
            return
        if isinstance(answer, Response):
            self.respond(answer, context)
        else:
            self._deliver(answer, request, context)

    def _deliver(self, answer: Answer, request: Request, context: RequestContext) -> None:
        if isinstance(answer, Response):
            self.respond(answer, context)
        elif answer is None:
            self._end_without_response(context)
        elif isinstance(answer, PendingResponse):
            if context.large is not None:
                context.large.hand_over(answer)
                return
            if context.cost is not None:
                context.cost.pause()
            if context.timing is not None:
                context.timing.waits()
            context.connection.await_response(answer)
        elif isinstance(answer, Generator):
            self._run(answer, request, context)
        else:
            self.await_answer(answer, request, context)

    def _end_without_response(self, context: RequestContext) -> None:
        if context.large is not None:
            context.large.pending.complete_now(None)
            return
        if context.cost is not None:
            self._quotas.charge(None, context)
        if context.timing is not None:
            context.timing.sent()

    def await_answer(
        self, answer: Awaitable[Response | PendingResponse | None], request: Request, context: RequestContext
    ) -> None:
        task = asyncio.ensure_future(answer)
        if context.large is not None:
            pending = context.large.pending
        else:
            pending = self._wait(context, on_abandon=task.cancel)
        task.add_done_callback(partial(self._on_done, pending, request))

    def _wait(
        self, context: RequestContext, on_abandon: Callable[[], object] | None = None
    ) -> PendingResponse:
        pending = context.pending_response(blocks=True, on_abandon=on_abandon)
        if context.cost is not None:
            context.cost.pause()
        if context.timing is not None:
            context.timing.waits()
        context.connection.await_response(pending)
        return pending

    def _on_done(
        self,
        pending: PendingResponse,
        request: Request,
        task: asyncio.Future[Response | PendingResponse | None],
    ) -> None:
        if task.cancelled():
            pending.context.connection.close()
            pending.context.end_large()
            return
        error = task.exception()
        self._complete_with(pending, request, None if error is not None else task.result(), error)

    def _complete_with(
        self,
        pending: PendingResponse,
        request: Request,
        response: Response | PendingResponse | Awaitable[Response | PendingResponse | None] | None,
        error: BaseException | None,
    ) -> None:
        """Complete a pending response with the handler's result or error, which may take further slices."""
        context = pending.context
        if error is not None and pending.is_complete:  # the client has disconnected
            context.end_large()
            return
        try:
            answer = response if error is None else self._failure(error, request, context)
        except CloseConnection as reason:
            self._hang_up(context.connection, str(reason))
            context.end_large()
            return
        if isinstance(answer, Generator):
            self.lane.run(answer, partial(self._complete_with, pending, request))
        elif answer is None or isinstance(answer, Response):
            pending.complete_now(answer)
        elif isinstance(answer, PendingResponse):
            if context.large is not None:
                context.large.hand_over(answer)
            else:
                context.connection.hand_over(pending, answer)
        else:
            asyncio.ensure_future(answer).add_done_callback(partial(self._on_done, pending, request))

    def _run(self, work: Work[Any], request: Request, context: RequestContext) -> None:
        """Answer immediately if the first slice suffices; else continue in the slow lane while the connection waits."""
        if context.large is not None:
            self.lane.run(work, partial(self._complete_with, context.large.pending, request))
            return
        try:
            next(work)
        except StopIteration as answered:
            self._deliver(answered.value, request, context)
            return
        except CloseConnection:
            raise
        except Exception as error:
            self.fail(error, request, context)
            return
        context.is_large = True
        self.lane.run(work, partial(self._complete_with, self._wait(context), request))

    def encode_slowly(self, pending: PendingResponse) -> None:
        context, response = pending.context, pending.response
        assert response is not None
        if context.cost is not None:
            self._quotas.charge(response, context)
        encode_large(self.lane, pending, response, partial(_header, response, context))

    def complete(self, pending: PendingResponse) -> None:
        """Send a pending response after it and all earlier ones are complete."""
        context, response = pending.context, pending.response
        timing = context.timing
        if pending.encoded is not None:
            if timing is not None:
                timing.complete()
            context.connection.queue(*pending.encoded, timing)
            return
        if context.cost is not None:
            self._quotas.charge(response, context)
        if timing is not None:
            timing.complete()
        if response is not None:
            context.connection.queue(*self._encode(response, context), timing)
        elif timing is not None:
            timing.sent()

    def respond(self, response: Response, context: RequestContext) -> None:
        if context.large is not None:
            context.large.pending.complete_now(response)
            return
        if context.cost is not None:
            self._quotas.charge(response, context)
        parts, size = self._encode(response, context)
        if context.timing is not None:
            context.timing.complete()
        context.connection.write(parts, size, context.timing)

    @staticmethod
    def _encode(response: Response, context: RequestContext) -> tuple[list[Part], int]:
        parts: list[Part] = [b""]
        response.encode_parts(context.version, parts.append)
        size = sum(map(len, parts))
        parts[0] = _header(response, context, size)
        return parts, size + len(parts[0])

    def fail(self, error: Exception, request: Request, context: RequestContext) -> None:
        failed = self._failure(error, request, context)
        if isinstance(failed, Generator):
            self._run(failed, request, context)
        else:
            self.respond(failed, context)

    def _failure(
        self, error: BaseException, request: Request, context: RequestContext
    ) -> Response | Work[Response]:
        """Return the response to a failed request. Raises CloseConnection if the client expects no response."""
        error = self._kafka_error(error, request, context)
        if context.is_large and context.api.error_response is error_response:
            return error_response_in_slices(request, error)
        return context.api.error_response(request, error)

    def _kafka_error(self, error: BaseException, request: Request, context: RequestContext) -> KafkaError:
        """Return the error for the client; details go to the log."""
        if isinstance(error, KafkaError):
            return error
        name = context.api.name
        if isinstance(error, CloseConnection):
            raise error
        if isinstance(error, OSError | StoreError):  # the operator's problem, not a bug
            logger.error("%s failed: %s", name, error)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        shown = "a large request" if context.is_large else repr(request)
        logger.error("%s v%d failed: %s", name, context.version, shown, exc_info=error)
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _hang_up(self, connection: Connection, reason: str) -> None:
        logger.info("Closing the connection from %s: %s", connection.client_host, reason)
        connection.close()


def _header(response: Response, context: RequestContext, size: int) -> bytes:
    if response.header_version(context.version):
        return _FLEXIBLE_RESPONSE_HEADER(size + 5, context.correlation_id)
    return _RESPONSE_HEADER(size + 4, context.correlation_id)


def _skip_tags(frame: memoryview, position: int) -> int:
    """Skip the tagged fields of a request header; none are defined yet."""
    count = frame[position]
    position += 1
    if not count:
        return position
    if count > 127:
        count, position = rest_of_varint(frame, position, count)
    if count > MAX_TAGGED_FIELDS:
        raise MalformedMessage(f"{count} tagged fields in the header exceed {MAX_TAGGED_FIELDS}")
    for _ in range(count):
        tag, size = frame[position], frame[position + 1]
        position += 1
        if tag > 127:
            _, position = rest_of_varint(frame, position, tag)
            size = frame[position]
        position += 1
        if size > 127:
            size, position = rest_of_varint(frame, position, size)
        position += size
    return position
