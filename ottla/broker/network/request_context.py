"""A request as its handler sees it, and responses not available yet."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.network.error_responses import error_response
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.broker.network.split import Split
from ottla.broker.quotas import RequestCost
from ottla.broker.security.authorization import DENIED
from ottla.protocol.codec import Request, Response
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages import API_NAMES, request_type, response_type
from ottla.security.acls import CLUSTER_NAME, ResourceType
from ottla.security.authorizer import all_operations

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.connection import Connection
    from ottla.broker.network.large_requests import LargeRequest
    from ottla.broker.network.request_times import RequestTiming
    from ottla.broker.network.send_queue import Part
    from ottla.protocol.codec import Response
    from ottla.security.acls import Right
    from ottla.security.principal import KafkaPrincipal

# Responses not available yet: a fetch waiting for data, a produce waiting for replicas, a coroutine.


class PendingResponse:
    """A response to complete later, created by `RequestContext.pending_response`.

    While pending, it stops its connection from handling further requests if it `blocks`. Otherwise the connection
    continues, and later responses wait in line.

    Invariant: it is completed once (with None if the client expects no response) or abandoned after a disconnect; later
    calls have no effect. The response to a large request is complete once encoded, in slices. Owner: the event loop.
    """

    __slots__ = ("_is_given", "blocks", "context", "encoded", "is_complete", "on_abandon", "response")

    def __init__(
        self,
        context: RequestContext,
        *,
        blocks: bool = False,
        on_abandon: Callable[[], object] | None = None,
    ) -> None:
        self.context = context
        self.blocks = blocks
        self.is_complete = False
        self.response: Response | None = None
        self.encoded: tuple[list[Part], int] | None = None  # the encoded response to a large request
        self._is_given = False
        self.on_abandon = on_abandon

    def complete(self, response: Response | None) -> None:
        """Complete the response; it is sent together with all others completed in this turn of the loop."""
        if self._give(response):
            self.context.connection.complete_soon()

    def complete_now(self, response: Response | None) -> None:
        """Complete the response and send it immediately, for callers with their own turn of the loop."""
        if self._give(response):
            self.context.connection.complete()

    def _give(self, response: Response | None) -> bool:
        if self.is_complete or self._is_given:
            if self.context.is_large:
                self.context.end_large(response)
            return False
        self._is_given = True
        self.response = response
        if self.context.is_large:
            if response is not None:
                self.context.connection.encode_slowly(self)
                return False
            self.context.end_large()
        self.is_complete = True
        return True

    def encoded_as(self, parts: list[Part], size: int) -> None:
        if not self.is_complete:
            self.encoded = (parts, size)
            self.is_complete = True
            self.context.connection.complete()

    def abandon(self) -> None:
        self.is_complete = True
        if self.on_abandon is not None:
            self.on_abandon()


# One request on its way through the broker: API, version, connection, rights, cost.

T = TypeVar("T")
Answer = Response | PendingResponse | Work[Any] | Awaitable[Response | PendingResponse | None] | None
Handler = Callable[["Broker", Request, "RequestContext"], Answer]
ErrorResponse = Callable[[Request, KafkaError], Response | Work[Response]]

NEVER = 1 << 62


class RequestContext:
    """Context of one request: API, version and connection."""

    __slots__ = (
        "api",
        "connection",
        "correlation_id",
        "cost",
        "is_large",
        "large",
        "served",
        "timing",
        "unsupported",
        "version",
    )

    def __init__(
        self,
        served: ApiVersion,
        connection: Connection,
        correlation_id: int,
        unsupported: bool = False,
    ) -> None:
        self.served = served
        self.api = served.api
        self.version = served.version
        self.connection = connection
        self.correlation_id = correlation_id
        # ApiVersions only: the client sent an unsupported version.
        self.unsupported = unsupported
        self.cost: RequestCost | None = None  # counted only with quotas
        self.timing: RequestTiming | None = None  # for some requests, if metrics are enabled
        self.is_large = False  # handled or encoded in slices
        self.large: LargeRequest | None = None  # set if decoded in slices too

    def pending_response(
        self, *, blocks: bool = False, on_abandon: Callable[[], object] | None = None
    ) -> PendingResponse:
        return PendingResponse(self, blocks=blocks, on_abandon=on_abandon)

    async def paced(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Iterate over possibly many items and serve other requests in between."""
        for count, item in enumerate(items, 1):
            yield item
            if not count % SLICE:
                self.is_large = True
                await self.connection.lane.turn()

    async def ordered(self, items: Iterable[str]) -> AsyncIterator[str]:
        """Iterate over many strings in ascending order, paced like `paced`."""
        rest = iter(items)
        chunks = iter(lambda: list(islice(rest, SLICE)), [])
        runs = [sorted(chunk) async for chunk in self.paced(chunks)]
        async for item in self.paced(heapq.merge(*runs)):
            yield item

    def end_large(self, response: Response | None = None) -> None:
        graphs = () if response is None else (response,)
        if self.large is not None:
            self.large.end(*graphs)
        else:
            self.connection.lane.discard(*graphs)

    def spend(self, seconds: float) -> None:
        if self.cost is not None:
            self.cost.seconds = max(self.cost.seconds, 0.0) + seconds

    def allows(self, right: Right, name: str = CLUSTER_NAME, *, quiet: bool = False, count: int = 1) -> bool:
        """Return True if the client holds this right on the named resource. `count` entries of the request name it.

        With `quiet` a denial only hides entries from the client and is not audited.
        """
        rights = self.connection.rights
        return rights is None or rights.allows(right, name, self.api.name, quiet=quiet, count=count)

    def denial(self, right: Right, name: str = CLUSTER_NAME, count: int = 1) -> KafkaError | None:
        if self.allows(right, name, count=count):
            return None
        code, message = DENIED[right.resource_type]
        if right.resource_type is ResourceType.CLUSTER:
            message = f"Request {self.api.name} needs {right.operation.name} permission."
        return KafkaError(code, message)

    def require(self, right: Right, name: str = CLUSTER_NAME) -> None:
        """Raise KafkaError unless the client has this right."""
        denial = self.denial(right, name)
        if denial is not None:
            raise denial

    def allows_any(self, right: Right) -> bool:
        """Return True if the client holds this right on any resource, existing or not."""
        rights = self.connection.rights
        return rights is None or rights.allows_any(right)

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the client's permitted operations on a resource as a bit field (KIP-430)."""
        rights = self.connection.rights
        return all_operations(resource_type) if rights is None else rights.operations(resource_type, name)

    @property
    def client_id(self) -> str:
        return self.connection.client_id or ""

    @property
    def client_host(self) -> str:
        """Return the address as Kafka shows it: Java prints a leading slash."""
        return "/" + self.connection.client_host

    @property
    def listener(self) -> str:
        return self.connection.listener

    @property
    def principal(self) -> KafkaPrincipal:
        return self.connection.principal

    @property
    def user(self) -> str:
        return self.connection.principal.name


class CloseConnection(Exception):
    """Raised to close the connection because no response is possible; the message gives the reason."""


class Api:
    """One served API: message classes, accepted versions and handler."""

    __slots__ = (
        "error_response",
        "handler",
        "key",
        "max_version",
        "min_version",
        "name",
        "request",
        "response",
        "split",
    )

    def __init__(
        self,
        key: int,
        handler: Handler,
        error_response: ErrorResponse = error_response,
        split: Split | None = None,
    ) -> None:
        self.key = key
        self.name = API_NAMES[key]
        self.request: type[Request] = request_type(key)
        self.response: type[Response] = response_type(key)
        self.min_version, self.max_version = self.request.versions
        self.handler = handler
        self.error_response = error_response
        self.split = split


class ApiVersion:
    """One version of a served API, with its request count."""

    __slots__ = (
        "api",
        "follower_requests",
        "is_flexible",
        "last_timed",
        "request",
        "requests",
        "timed_at",
        "version",
    )

    def __init__(self, api: Api, version: int) -> None:
        self.api = api
        self.version = version
        self.request = api.request
        self.is_flexible = api.request.is_flexible(version)
        self.requests = 0
        self.follower_requests = 0  # fetches by followers
        self.last_timed = 0  # number of the last timed request
        self.timed_at = NEVER  # number of the next request to time
