"""From a frame to its handler and back: request header, version check, decoding, response header.

Which APIs exist is what is in `ottla.broker.apis`: a module named `kNN_name` serves key NN. A handler is a plain
function that returns its response, or a coroutine where it has to wait, or `Delayed` where the connection need not.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import pkgutil
from collections.abc import Awaitable, Callable
from importlib import import_module
from struct import Struct as Packer
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from ottla.broker import apis
from ottla.broker.network.connection import RECEIVE_BYTES, Connection
from ottla.broker.network.delayed import Delayed
from ottla.broker.network.frame_buffers import FrameBuffers
from ottla.broker.quotas.client_quotas import RequestCost
from ottla.metadata.stores.store import StoreError
from ottla.protocol.codec import MalformedMessage, Request, Response
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import API_NAMES, request_type, response_type

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)

Handler = Callable[["Broker", Any, "RequestContext"], Response | Awaitable[Response | None] | Delayed | None]

_HEADER = Packer(">hhih").unpack_from
_RESPONSE_HEADER = Packer(">ii").pack
_FLEXIBLE_RESPONSE_HEADER = Packer(">iix").pack
_PRODUCE = 0
_API_VERSIONS = 18
# What is decoded takes up to forty times its size in memory. Records are not decoded, so Produce is not limited here.
_MAX_DECODED_BYTES = 16 * 1024 * 1024


class RequestContext:
    """Who asks, and in which version."""

    __slots__ = ("connection", "correlation_id", "cost", "unsupported", "version")

    def __init__(
        self, connection: Connection, version: int, correlation_id: int, unsupported: bool = False
    ) -> None:
        self.connection = connection
        self.version = version
        self.correlation_id = correlation_id
        # Set for ApiVersions only: the client asked in a version that is not ours.
        self.unsupported = unsupported
        self.cost: RequestCost | None = None  # counted only while there are quotas

    @property
    def client_id(self) -> str:
        return self.connection.client_id or ""

    @property
    def client_host(self) -> str:
        """As Kafka shows it: Java prints an address with a slash before it."""
        return "/" + self.connection.client_host

    @property
    def listener(self) -> str:
        return self.connection.listener

    @property
    def principal(self) -> str:
        return "User:ANONYMOUS"

    @property
    def user(self) -> str:
        """Whose quotas count."""
        return self.principal.partition(":")[2]


class CloseConnection(Exception):
    """The client can only be answered by hanging up; the message says why."""


class Api:
    """One served API: its message classes, the versions it accepts and its handler."""

    __slots__ = ("handler", "key", "max_version", "min_version", "name", "request", "response")

    def __init__(self, key: int, handler: Handler) -> None:
        self.key = key
        self.name = API_NAMES[key]
        self.request: type[Request] = request_type(key)
        self.response: type[Response] = response_type(key)
        self.min_version, self.max_version = self.request.versions
        self.handler = handler


def served_keys() -> dict[int, str]:
    """Key → module name of every API that has a module."""
    names = (module.name for module in pkgutil.iter_modules(apis.__path__))
    return {int(name[1:3]): name for name in names if name[0] == "k" and name[1:3].isdigit()}


class Dispatcher:
    """Handles the frames of all connections of a broker. Owned by the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._quotas = broker.quotas
        self._modules = served_keys()
        self._apis: dict[int, Api] = {}
        self._versions: dict[int, tuple[int, int]] = {}
        self.frames = FrameBuffers()
        # Connections share it: none keeps what it received beyond its turn.
        self.receive_view = memoryview(bytearray(RECEIVE_BYTES))

    def versions(self) -> dict[int, tuple[int, int]]:
        """Every served key and the versions it accepts."""
        if not self._versions:
            self._versions = {key: request_type(key).versions for key in sorted(self._modules)}
        return self._versions

    def read_failed(self, path: str, error: OSError) -> None:
        """A segment could not be read while it was being sent."""
        self._broker.replicas.file_failed(path, error)

    def api(self, key: int) -> Api | None:
        """The API with that key; its module is imported when it is first asked for."""
        found = self._apis.get(key)
        if found is None and key in self._modules:
            module = import_module(f"{apis.__name__}.{self._modules[key]}")
            found = self._apis[key] = Api(key, module.handle)
        return found

    def handle(self, connection: Connection, frame: memoryview) -> asyncio.Future[Any] | None:
        """Handle one request. A future is returned where the response has to be waited for."""
        try:
            return self._handle(connection, frame)
        except (MalformedMessage, StructError, IndexError, UnicodeDecodeError) as error:
            self._hang_up(connection, f"malformed request: {error}")
        except CloseConnection as error:
            self._hang_up(connection, str(error))
        return None

    def _handle(self, connection: Connection, frame: memoryview) -> asyncio.Future[Any] | None:
        key, version, correlation_id, client_id_length = _HEADER(frame, 0)
        api = self._apis.get(key) or self.api(key)
        if api is None:
            raise CloseConnection(f"API key {key} is not served")
        if len(frame) > _MAX_DECODED_BYTES and key != _PRODUCE:
            raise CloseConnection(f"{api.name}: a request of {len(frame)} bytes is too large for that API")
        if not api.min_version <= version <= api.max_version:
            if key != _API_VERSIONS:
                raise CloseConnection(f"{api.name} version {version} is not supported")
            # Answered in version 0 with everything served, so that the client can choose again.
            return self.call(
                api, api.request(), RequestContext(connection, 0, correlation_id, unsupported=True)
            )
        position = 10
        if client_id_length > 0:
            position += client_id_length
            raw = frame[10:position]
            if raw != connection.client_id_raw:
                connection.client_id_raw = bytes(raw)
                connection.client_id = str(raw, "utf-8")
        if api.request.is_flexible(version):
            position = _skip_tags(frame, position)
        request = api.request.decode(frame, version, position)
        context = RequestContext(connection, version, correlation_id)
        if self._quotas.active:
            context.cost = RequestCost(len(frame))
        if self._broker.faults is not None:
            return self._broker.faults.handle(self, api, request, context)
        return self.call(api, request, context)

    def call(self, api: Api, request: Request, context: RequestContext) -> asyncio.Future[Any] | None:
        try:
            answer = api.handler(self._broker, request, context)
        except KafkaError as error:
            answer = self._error_response(api, error)
        except CloseConnection:
            raise
        except (OSError, StoreError) as error:
            answer = self._error_response(api, _storage_error(api, error))
        except Exception:
            logger.exception("%s v%d failed: %r", api.name, context.version, request)
            answer = self._error_response(api, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        if isinstance(answer, Response):
            self.respond(api, answer, context)
            return None
        if answer is None:
            if context.cost is not None:
                self._quotas.settle(api.key, None, context)
            return None
        if isinstance(answer, Delayed):
            answer.api, answer.context = api, context
            if context.cost is not None:
                context.cost.pause()
            context.connection.delay(answer)
            return None
        if inspect.iscoroutine(answer):
            answer = asyncio.ensure_future(answer)
        future: asyncio.Future[Any] = answer  # type: ignore[assignment]
        context.connection.waiting = (api, request, context)
        if context.cost is not None:
            context.cost.pause()
        return future

    def finish(self, connection: Connection, future: asyncio.Future[Any]) -> None:
        """A request that had to wait is done: send what came of it."""
        api, request, context = connection.waiting
        connection.waiting = None
        if future.cancelled():
            connection.close()
            return
        try:
            self._finish(api, request, context, future)
        except CloseConnection as error:
            self._hang_up(connection, str(error))

    def _finish(
        self, api: Api, request: Request, context: RequestContext, future: asyncio.Future[Any]
    ) -> None:
        error = future.exception()
        if error is None:
            answer = future.result()
        elif isinstance(error, KafkaError):
            answer = self._error_response(api, error)
        elif isinstance(error, CloseConnection):
            raise error
        elif isinstance(error, OSError | StoreError):
            answer = self._error_response(api, _storage_error(api, error))
        else:
            logger.error("%s v%d failed: %r", api.name, context.version, request, exc_info=error)
            answer = self._error_response(api, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        if answer is not None:
            self.respond(api, answer, context)
        elif context.cost is not None:
            self._quotas.settle(api.key, None, context)

    def respond(self, api: Api, response: Response, context: RequestContext) -> None:
        if context.cost is not None:
            self._quotas.settle(api.key, response, context)
        context.connection.write(*self._encode(api, response, context))

    def respond_delayed(self, delayed: Delayed) -> None:
        """It is this one's turn: nothing that was asked before it waits any more."""
        api, context, response = delayed.api, delayed.context, delayed.response
        assert response is not None
        if context.cost is not None:
            self._quotas.settle(api.key, response, context)
        context.connection.queue(*self._encode(api, response, context))

    @staticmethod
    def _encode(api: Api, response: Response, context: RequestContext) -> tuple[list[Any], int]:
        parts: list[Any] = [b""]
        response.encode_parts(context.version, parts.append)
        size = sum(map(len, parts))
        if api.response.header_version(context.version):
            parts[0] = _FLEXIBLE_RESPONSE_HEADER(size + 5, context.correlation_id)
        else:
            parts[0] = _RESPONSE_HEADER(size + 4, context.correlation_id)
        return parts, size + len(parts[0])

    def _error_response(self, api: Api, error: KafkaError) -> Response:
        """An answer that says only what went wrong, where the API has a place for it."""
        fields = api.response.fields
        if "error_code" not in fields:
            raise CloseConnection(f"{api.name}: {error}")
        answer = api.response(error_code=int(error.code))
        if "error_message" in fields:
            answer.error_message = error.message  # type: ignore[attr-defined]
        return answer

    def _hang_up(self, connection: Connection, reason: str) -> None:
        logger.info("Closing the connection from %s: %s", connection.client_host, reason)
        connection.close()


def _storage_error(api: Api, error: Exception) -> KafkaError:
    """A disk that is full or broken is the operator's business and no bug."""
    logger.error("%s failed: %s", api.name, error)
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _skip_tags(frame: memoryview, position: int) -> int:
    """Step over the tagged fields of a request header; none is defined yet."""
    count = frame[position]
    position += 1
    for _ in range(count):
        for _ in range(5):
            byte = frame[position]
            position += 1
            if byte < 128:
                break
        size = shift = 0
        for _ in range(5):
            byte = frame[position]
            position += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        position += size
    return position
