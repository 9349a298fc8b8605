"""Fault injection for the testing kit: answer the next requests of an API with an error, delay them or drop them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.network.dispatch import CloseConnection
from ottla.protocol.codec import Request
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.network.dispatch import Dispatcher, RequestContext


@dataclass(slots=True)
class Fault:
    """A fault for the next `times` requests of one API."""

    api: str
    times: int = 1
    error: ErrorCode | None = None
    delay: float = 0.0
    drop: bool = False
    after: bool = False  # drop after processing, so that only the response is lost


class Faults:
    """Injected faults in the order they were added. Owner: the event loop."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._waiting.append(fault)

    def clear(self) -> None:
        self._waiting.clear()

    def _next(self, api: str) -> Fault | None:
        for fault in self._waiting:
            if fault.api == api:
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
                return fault
        return None

    def handle(self, dispatcher: Dispatcher, request: Request, context: RequestContext) -> None:
        fault = self._next(context.api.name)
        if fault is None:
            dispatcher.call(request, context)
        elif fault.delay:
            _keep_records(request)
            dispatcher.await_answer(_inject_later(dispatcher, fault, request, context), request, context)
        else:
            _inject(dispatcher, fault, request, context)


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
