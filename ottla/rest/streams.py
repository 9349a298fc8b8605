"""Streams of records while the client listens: server-sent events, JSON lines, or a WebSocket.

    GET /topics/{topic}/stream?offset=latest&partition=0&format=json
    GET /consumers/{group}/stream?topics=a,b

The first reads without a group: `offset` is `earliest`, `latest` (the default), or a number with a partition. A client
that reconnects with `Last-Event-ID` continues after it. The second joins a group, and commits the sent records. A slow
client delays fetching.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ottla.client.admin.topics import describe_topics
from ottla.http import Access, HttpError, Request, Response, RouteDoc, Router, WebSocket
from ottla.rest import errors, formats
from ottla.rest.clients import Clients, Identity, kafka_errors
from ottla.rest.errors import bad_request

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.structs import ConsumerRecord

logger = logging.getLogger(__name__)

EVENTS, LINES = "text/event-stream", "application/x-ndjson"
_KEEP_ALIVE_SECONDS = 15.0
_FORMATS = ("auto", "binary", "json", "string")


class Streams:
    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def add_to(self, router: Router) -> None:
        for path, summary in (
            ("/topics/{topic}/stream", "The records of a topic as they come"),
            ("/consumers/{group}/stream", "The records of topics as they come, as a member of a group"),
        ):
            router.add(
                "GET",
                path,
                self.stream,
                access=Access.USER,
                doc=RouteDoc(summary),
                produces=(EVENTS, LINES, "application/json"),
            )
            router.websocket(path, self.websocket, access=Access.USER)

    async def stream(self, request: Request) -> Response:
        show = _shown(request)
        consumer = await self._consumer(request)
        as_events = request.produces == EVENTS
        body = self._body(consumer, show, as_events, commits="group" in request.params)
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return Response(200, body, EVENTS if as_events else LINES, headers)

    async def websocket(self, socket: WebSocket) -> None:
        """Send each record as one JSON message. Messages from the client are ignored."""
        request = socket.request
        show = _shown(request)
        consumer = await self._consumer(request)
        gone = asyncio.create_task(_until_closed(socket))
        try:
            async for records in _batches(consumer):
                if gone.done():
                    return
                for record in records:
                    await socket.send(json.dumps(show(record), ensure_ascii=False))
                if "group" in request.params and records:
                    await consumer.commit()
        finally:
            gone.cancel()
            await self._clients.end(consumer)

    async def _body(
        self, consumer: AIOKafkaConsumer, show: Any, as_events: bool, *, commits: bool
    ) -> AsyncIterator[bytes]:
        from aiokafka.errors import KafkaError

        positions: dict[tuple[str, int], int] = {}
        try:
            # At once, so that the client knows it is connected.
            yield b": connected\n\n" if as_events else b""
            async for records in _batches(consumer):
                if not records:
                    yield b": nothing new\n\n" if as_events else b"\n"
                    continue
                parts = []
                for record in records:
                    line = json.dumps(show(record), ensure_ascii=False, separators=(",", ":"))
                    if as_events:
                        positions[record.topic, record.partition] = record.offset
                        last = ",".join(
                            f"{name}/{index}/{offset}" for (name, index), offset in positions.items()
                        )
                        parts.append(f"id: {last}\ndata: {line}\n\n")
                    else:
                        parts.append(line + "\n")
                yield "".join(parts).encode("utf-8", "surrogatepass")
                if commits:
                    await consumer.commit()
        except KafkaError as error:
            logger.warning("A stream of records ends: %s", error)
            line = json.dumps({"error_code": 50002, "message": str(error)})
            yield f"event: error\ndata: {line}\n\n".encode() if as_events else f"{line}\n".encode()
        finally:
            await self._clients.end(consumer)

    async def _consumer(self, request: Request) -> AIOKafkaConsumer:
        identity = self._clients.identity(request)
        isolation = request.query.get("isolation.level", "read_uncommitted")
        if isolation not in ("read_committed", "read_uncommitted"):
            raise bad_request("isolation.level must be read_committed or read_uncommitted.")
        group = request.params.get("group")
        if group is not None:
            topics = [each for each in request.query.get("topics", "").split(",") if each]
            if not topics:
                raise bad_request("Say which topics, as in ?topics=orders,payments.")
            reset = request.query.get("auto.offset.reset", "latest")
            consumer = await self._clients.consumer(
                identity,
                group_id=group,
                auto_offset_reset=reset,
                enable_auto_commit=False,
                isolation_level=isolation,
            )
            consumer.subscribe(topics=topics)
            return consumer
        start = request.query.get("offset", "latest")
        if start not in ("earliest", "latest") and not start.isdigit():
            raise bad_request(f"offset must be earliest, latest or a number, not {start}.")
        found = await self._partitions(identity, request.params["topic"])
        consumer = await self._clients.consumer(
            identity, auto_offset_reset="earliest", enable_auto_commit=False, isolation_level=isolation
        )
        try:
            await _position(consumer, request, start, found)
        except BaseException:
            await self._clients.end(consumer)
            raise
        return consumer

    async def _partitions(self, identity: Identity, topic: str) -> set[int]:
        """Look up partitions without creating a missing topic."""
        try:
            [described] = await self._clients.admin(identity, describe_topics, [topic])
        except HttpError as error:
            raise errors.topic_not_found() if error.status == 404 else error from None
        return {each.partition for each in described.partitions}


async def _position(consumer: AIOKafkaConsumer, request: Request, start: str, found: set[int]) -> None:
    from aiokafka.structs import TopicPartition

    topic = request.params["topic"]
    wanted = request.query.get("partition")
    if wanted is not None:
        if not wanted.isdigit() or int(wanted) not in found:
            raise errors.partition_not_found()
        found = {int(wanted)}
    elif start.isdigit():
        raise bad_request("An offset needs a partition, as in ?partition=0&offset=17.")
    partitions = [TopicPartition(topic, each) for each in sorted(found)]
    consumer.assign(partitions)
    with kafka_errors():
        if start == "earliest":
            await consumer.seek_to_beginning(*partitions)
        elif start == "latest":
            await consumer.seek_to_end(*partitions)
        else:
            consumer.seek(partitions[0], int(start))
    for partition, offset in _last_event(request, topic):
        if partition in found:
            consumer.seek(TopicPartition(topic, partition), offset + 1)


def _last_event(request: Request, topic: str) -> list[tuple[int, int]]:
    """Parse `topic/0/17,topic/1/4`, the client's position when it was disconnected."""
    found = []
    for each in request.headers.get("last-event-id", "").split(","):
        name, partition, offset = ["", "", *each.strip().split("/")][-3:]
        if name == topic and partition.isdigit() and offset.isdigit():
            found.append((int(partition), int(offset)))
    return found


async def _batches(consumer: AIOKafkaConsumer) -> AsyncIterator[list[ConsumerRecord[Any, Any]]]:
    """Yield arriving records, with an occasional empty batch during silence."""
    while True:
        found = await consumer.getmany(timeout_ms=int(_KEEP_ALIVE_SECONDS * 1000), max_records=500)
        yield [record for records in found.values() for record in records]


async def _until_closed(socket: WebSocket) -> None:
    while await socket.receive() is not None:
        pass


def _shown(request: Request) -> Any:
    kind = request.query.get("format", "auto")
    if kind not in _FORMATS:
        raise bad_request(f"format must be one of {', '.join(_FORMATS)}, not {kind}.")

    def decode(data: bytes | None) -> Any:
        if kind == "auto":
            return formats.best_effort(data)
        try:
            return formats.decode(data, kind)  # type: ignore[arg-type]
        except HttpError:
            return formats.best_effort(data)

    def show(record: ConsumerRecord[Any, Any]) -> dict[str, Any]:
        found = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": decode(record.key),
            "value": decode(record.value),
        }
        if record.headers:
            found["headers"] = [
                {"name": name, "value": formats.best_effort(value)} for name, value in record.headers
            ]
        return found

    return show
