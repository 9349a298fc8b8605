"""Fault injection for the testing kit: fail, delay or drop chosen requests, and observe all of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.network.request_context import CloseConnection
from ottla.protocol.codec import Request
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.network.dispatch import Dispatcher
    from ottla.broker.network.request_context import RequestContext
    from ottla.metadata.cluster_image import ClusterImage

ANY_API = "*"
# Requests that are remembered; older ones are only counted.
_MOST_SEEN = 10_000
_TOPIC_FIELDS = ("topic_data", "topics")
_PARTITION_FIELDS = ("partition_data", "partitions")
_INDEX_FIELDS = ("index", "partition_index", "partition")


@dataclass(slots=True)
class Fault:
    """A fault for some requests: `times` of them (None: all), after the first `skip` that match.

    Fetch requests that continue a session, and requests about groups, name no topics and match no topic.
    """

    api: str = ANY_API
    times: int | None = 1
    skip: int = 0
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    probability: float = 1.0
    error: ErrorCode | None = None
    delay: float = 0.0
    drop: bool = False
    after: bool = False  # drop after processing, so that only the response is lost
    injected: int = 0

    @property
    def is_spent(self) -> bool:
        return self.times is not None and self.injected >= self.times


class SeenRequest(NamedTuple):
    api: str
    version: int
    client_id: str
    topics: tuple[str, ...]
    time_ms: int


class Faults:
    """Injected faults in the order they were added, and the requests that arrived. Owner: the event loop."""

    def __init__(self, image: ClusterImage, seed: int | None = None) -> None:
        self._image = image
        self._random = random.Random(seed)
        self.waiting: list[Fault] = []
        self.counts: Counter[str] = Counter()
        self.seen: deque[SeenRequest] = deque(maxlen=_MOST_SEEN)

    def add(self, fault: Fault) -> None:
        self.waiting.append(fault)

    def handle(self, dispatcher: Dispatcher, request: Request, context: RequestContext) -> None:
        places = list(_places(request, self._image))
        api = context.api.name
        topics = tuple(dict.fromkeys(topic for topic, _ in places))
        self.counts[api] += 1
        self.seen.append(
            SeenRequest(api, context.version, context.client_id, topics, int(time.time() * 1000))
        )
        fault = self._next(api, context.client_id, places)
        if fault is None:
            dispatcher.call(request, context)
        elif fault.delay:
            _keep_records(request)
            dispatcher.await_answer(_inject_later(dispatcher, fault, request, context), request, context)
        else:
            _inject(dispatcher, fault, request, context)

    def _next(self, api: str, client_id: str, places: list[tuple[str, int | None]]) -> Fault | None:
        for fault in self.waiting:
            if not _matches(fault, api, client_id, places):
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            if fault.probability < 1.0 and self._random.random() >= fault.probability:
                continue
            fault.injected += 1
            if fault.is_spent:
                self.waiting.remove(fault)
            return fault
        return None


def _matches(fault: Fault, api: str, client_id: str, places: list[tuple[str, int | None]]) -> bool:
    if fault.api not in (ANY_API, api) or fault.client_id not in (None, client_id):
        return False
    if fault.topic is None and fault.partition is None:
        return True
    return any(
        fault.topic in (None, topic) and fault.partition in (None, partition) for topic, partition in places
    )


def _places(request: Request, image: ClusterImage) -> Iterator[tuple[str, int | None]]:
    """Return the topics and partitions that a request names."""
    for topic in _first(request, _TOPIC_FIELDS) or ():
        if isinstance(topic, str):
            yield topic, None
            continue
        name = getattr(topic, "name", None) or getattr(topic, "topic", None)
        if not name:
            known = image.topics_by_id.get(getattr(topic, "topic_id", b""))
            if known is None:
                continue
            name = known.name
        partitions = _first(topic, _PARTITION_FIELDS)
        if not isinstance(partitions, list) or not partitions:
            yield name, None
            continue
        for partition in partitions:
            yield name, partition if isinstance(partition, int) else _first(partition, _INDEX_FIELDS)


def _first(message: Any, names: tuple[str, ...]) -> Any:
    return next((getattr(message, name) for name in names if hasattr(message, name)), None)


async def _inject_later(
    dispatcher: Dispatcher, fault: Fault, request: Request, context: RequestContext
) -> None:
    await asyncio.sleep(fault.delay)
    _inject(dispatcher, fault, request, context)


def _inject(dispatcher: Dispatcher, fault: Fault, request: Request, context: RequestContext) -> None:
    if fault.drop and not fault.after:
        context.connection.close()
        return
    if fault.error is not None:
        with contextlib.suppress(CloseConnection):  # a client that expects no response gets no error either
            dispatcher.fail(KafkaError(fault.error), request, context)
        return
    dispatcher.call(request, context)
    if fault.drop:
        context.connection.close()


def _keep_records(request: Request) -> None:
    """Copy the records, because the receive buffer is reused before a delayed request is handled."""
    for topic in getattr(request, "topic_data", ()):
        for partition in topic.partition_data:
            if partition.records is not None:
                partition.records = memoryview(bytearray(partition.records))
