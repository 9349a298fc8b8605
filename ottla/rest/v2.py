"""Routes of v2: topics, partitions, brokers, producing, and consumer instances."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.admin.configs import Resource, describe_configs
from ottla.client.admin.offsets import available_offsets
from ottla.client.admin.topics import TopicDescription, describe_topics, topic_names
from ottla.client.cluster import Cluster
from ottla.http import Access, HttpError, Request, Response, RouteDoc, Router, json_response
from ottla.rest import errors
from ottla.rest import formats as bodies
from ottla.rest.clients import Clients, Identity, kafka_errors
from ottla.rest.consumers import CONSUMER_OPTIONS, Consumers, Instance
from ottla.rest.embedded import Embedded
from ottla.rest.errors import FORMAT_MISMATCH, unprocessable
from ottla.rest.formats import FORMATS, V2_JSON
from ottla.rest.produce import NewRecord, Producing

if TYPE_CHECKING:
    from aiokafka.structs import TopicPartition as AioPartition

_PRODUCES = (V2_JSON, "application/json", "application/vnd.kafka+json")
_READS = (*FORMATS, V2_JSON, "application/json")
_NOTHING = 204
_SCHEMAS = ("key_schema", "key_schema_id", "value_schema", "value_schema_id")
_PARTITION = ("topic", "partition")
_OFFSET = (*_PARTITION, "offset", "metadata")


class V2:
    def __init__(
        self, clients: Clients, producing: Producing, consumers: Consumers, embedded: Embedded
    ) -> None:
        self._clients = clients
        self._producing = producing
        self._consumers = consumers
        self._embedded = embedded

    def add_to(self, router: Router) -> None:
        add = partial(router.add, access=Access.USER)
        topic, partition = "/topics/{topic}", "/topics/{topic}/partitions/{partition}"
        for method, path, handler, summary in (
            ("GET", "/topics", self.topics, "The names of all topics"),
            ("GET", topic, self.topic, "A topic with its settings and partitions"),
            ("GET", f"{topic}/partitions", self.partitions, "The partitions of a topic"),
            ("GET", partition, self.partition, "One partition"),
            ("GET", f"{partition}/offsets", self.offsets, "The first and the next offset of a partition"),
            ("GET", "/brokers", self.brokers, "The ids of the brokers"),
        ):
            add(method, path, handler, doc=RouteDoc(summary), produces=_PRODUCES)
        for path in (topic, partition):
            doc = RouteDoc("Write records")
            add("POST", path, self.produce, doc=doc, consumes=tuple(FORMATS), produces=_PRODUCES)
        add("POST", "/consumers/{group}", self.create, doc=RouteDoc("Make a consumer"), produces=_PRODUCES)
        instance = "/consumers/{group}/instances/{instance}"
        calls: tuple[tuple[str, str, Callable[[Instance, Request], Awaitable[Response]], str], ...] = (
            ("DELETE", "", self.delete, "End a consumer"),
            ("POST", "/offsets", self.commit, "Commit offsets, or all that was read"),
            ("GET", "/offsets", self.committed, "The committed offsets of partitions"),
            ("POST", "/subscription", self.subscribe, "Subscribe to topics or to a pattern"),
            ("GET", "/subscription", self.subscription, "The topics that are subscribed to"),
            ("DELETE", "/subscription", self.unsubscribe, "Subscribe to nothing"),
            ("POST", "/assignments", self.assign, "Read these partitions, without the group's help"),
            ("GET", "/assignments", self.assignments, "The partitions that are read"),
            ("POST", "/positions", self.seek, "Go on reading from these offsets"),
            ("POST", "/positions/beginning", self.seek_beginning, "Go on from the beginning"),
            ("POST", "/positions/end", self.seek_end, "Go on from the end"),
        )
        for method, path, call, summary in calls:
            add(method, instance + path, self._with_instance(call), doc=RouteDoc(summary), produces=_PRODUCES)
        add(
            "GET",
            f"{instance}/records",
            self._with_instance(self.records),
            doc=RouteDoc("Records since the last request"),
            produces=_READS,
        )

    # Topics

    async def topics(self, request: Request) -> Response:
        names = await self._clients.admin(self._clients.identity(request), topic_names, True)
        return _answer(request, names)

    async def topic(self, request: Request) -> Response:
        found = await self._topic(request)
        resource = Resource("topic", found.name)
        configs = await self._clients.admin(self._clients.identity(request), describe_configs, resource)
        answer = {
            "name": found.name,
            "configs": {entry.name: entry.value for entry in configs},
            "partitions": [_partition(each) for each in found.partitions],
        }
        return _answer(request, answer)

    async def partitions(self, request: Request) -> Response:
        found = await self._topic(request)
        return _answer(request, [_partition(each) for each in found.partitions])

    async def partition(self, request: Request) -> Response:
        return _answer(request, _partition(await self._partition(request)))

    async def offsets(self, request: Request) -> Response:
        found = await self._partition(request)
        key = (request.params["topic"], found.partition)
        identity = self._clients.identity(request)
        beginnings, ends = await self._clients.admin(identity, available_offsets, [key])
        return _answer(request, {"beginning_offset": beginnings[key], "end_offset": ends[key]})

    async def brokers(self, request: Request) -> Response:
        nodes = await self._clients.admin(self._clients.identity(request), Cluster.nodes)
        return _answer(request, {"brokers": sorted(nodes)})

    async def _topic(self, request: Request) -> TopicDescription:
        identity = self._clients.identity(request)
        try:
            [found] = await self._clients.admin(identity, describe_topics, [request.params["topic"]])
        except HttpError as error:
            raise errors.topic_not_found() if error.status == 404 else error from None
        return found

    async def _partition(self, request: Request) -> Any:
        found = await self._topic(request)
        wanted = bodies.path_number(request, "partition")
        for each in found.partitions:
            if each.partition == wanted:
                return each
        raise errors.partition_not_found()

    # Writing

    async def produce(self, request: Request) -> Response:
        kind = FORMATS.get(request.content_type)
        if kind is None:  # no body
            raise unprocessable("The request has no records.")
        topic = request.params["topic"]
        only = bodies.path_number(request, "partition") if "partition" in request.params else None
        body = await bodies.json_object(request, "records", *_SCHEMAS)
        given = bodies.items(body, "records", "key", "value", *(() if only is not None else ("partition",)))
        if not given:
            raise unprocessable("records must not be empty")
        identity = self._clients.identity(request)
        codec = await self._embedded.encoder(identity, kind, topic, body)
        records = []
        for each in given:
            partition = bodies.number(each, "partition", None) if only is None else only
            if partition is not None and partition < 0:
                raise unprocessable(f"partition must not be negative, and is {partition}.")
            records.append(NewRecord(codec.key(each.get("key")), codec.value(each.get("value")), partition))
        written = await self._producing.write(identity, topic, records)
        offsets = [
            {"partition": None, "offset": None, "error_code": each.error_code, "error": each.message}
            if isinstance(each, HttpError)
            else {"partition": each.partition, "offset": each.offset, "error_code": None, "error": None}
            for each in written
        ]
        failure = next((each for each in written if isinstance(each, HttpError)), None)
        if (
            failure is not None
            and failure.status in (401, 403, 404)
            and all(isinstance(each, HttpError) for each in written)
        ):
            raise failure
        answer = {
            "offsets": offsets,
            "key_schema_id": codec.key_schema_id,
            "value_schema_id": codec.value_schema_id,
        }
        return _answer(request, answer)

    # Consumers

    async def create(self, request: Request) -> Response:
        given = await _optional(request, *CONSUMER_OPTIONS)
        group = request.params["group"]
        instance = await self._consumers.create(group, self._clients.identity(request), given)
        scheme, host = (
            request.headers.get("x-forwarded-proto", "http"),
            request.headers.get("host", "localhost"),
        )
        uri = f"{scheme}://{host}/consumers/{group}/instances/{instance.name}"
        return _answer(request, {"instance_id": instance.name, "base_uri": uri})

    def _with_instance(
        self, call: Callable[[Instance, Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def handler(request: Request) -> Response:
            identity: Identity = self._clients.identity(request)
            instance = self._consumers.find(request.params["group"], request.params["instance"], identity)
            instance.busy += 1
            try:
                async with instance.lock:
                    return await call(instance, request)
            finally:
                instance.busy -= 1
                instance.touch()

        return handler

    async def delete(self, instance: Instance, request: Request) -> Response:
        await self._consumers.delete(instance)
        return Response(_NOTHING, content_type=None)

    async def subscribe(self, instance: Instance, request: Request) -> Response:
        given = await bodies.json_object(request, "topics", "topic_pattern")
        topics, pattern = given.get("topics"), given.get("topic_pattern")
        if (topics is None) == (pattern is None):
            raise unprocessable("Say topics or topic_pattern, and not both.")
        if topics is not None:
            if (
                not isinstance(topics, list)
                or not topics
                or not all(isinstance(each, str) for each in topics)
            ):
                raise unprocessable("topics must be a list of names, and not empty.")
            instance.subscribe(topics)
        else:
            instance.subscribe_pattern(bodies.text(given, "topic_pattern"))
        return Response(_NOTHING, content_type=None)

    async def subscription(self, instance: Instance, request: Request) -> Response:
        return _answer(request, {"topics": sorted(instance.consumer.subscription())})

    async def unsubscribe(self, instance: Instance, request: Request) -> Response:
        instance.unsubscribe()
        return Response(_NOTHING, content_type=None)

    async def assign(self, instance: Instance, request: Request) -> Response:
        instance.assign(_partitions(await bodies.json_object(request, "partitions")))
        return Response(_NOTHING, content_type=None)

    async def assignments(self, instance: Instance, request: Request) -> Response:
        partitions = sorted(instance.consumer.assignment())
        return _answer(request, {"partitions": [_named(each) for each in partitions]})

    async def records(self, instance: Instance, request: Request) -> Response:
        wanted = FORMATS.get(request.produces) if _names_a_format(request) else None
        if wanted is not None and wanted != instance.format:
            raise HttpError(
                406,
                FORMAT_MISMATCH,
                "The requested embedded data format does not match the deserializer for this consumer instance",
            )
        timeout = bodies.query_number(request, "timeout")
        found = await instance.records(
            None if timeout is None or timeout < 0 else timeout / 1000,
            bodies.query_number(request, "max_bytes"),
        )
        answer: list[dict[str, Any]] = []
        for place, record in enumerate(found):
            try:
                key = await self._embedded.decode(instance.identity, record.key, instance.format)
                value = await self._embedded.decode(instance.identity, record.value, instance.format)
            except HttpError as error:
                # Earlier records are returned; the bad one comes first next time, until the client seeks past it.
                instance.put_back(found[place:])
                if answer:
                    break
                where = f"{record.topic}-{record.partition}, offset {record.offset}"
                raise unprocessable(f"{where}: {error.message}", error.error_code) from None
            answer.append(
                {
                    "topic": record.topic,
                    "key": key,
                    "value": value,
                    "partition": record.partition,
                    "offset": record.offset,
                }
            )
        content = next(name for name, kind in FORMATS.items() if kind == instance.format)
        return json_response(answer, content_type=content)

    async def commit(self, instance: Instance, request: Request) -> Response:
        given = await _optional(request, "offsets", "partitions")
        offsets = None
        if "offsets" in given:
            offsets = {
                _key(each): bodies.number(each, "offset") + 1
                for each in bodies.items(given, "offsets", *_OFFSET)
            }
        elif "partitions" in given:
            offsets = {
                partition: await instance.consumer.position(partition) for partition in _partitions(given)
            }
        else:
            offsets = instance.answered_positions()
        with kafka_errors():
            if offsets:
                await instance.consumer.commit(offsets)
        return Response(200, b"", V2_JSON)

    async def committed(self, instance: Instance, request: Request) -> Response:
        given = await _optional(request, "partitions")
        partitions = _partitions(given) if given else sorted(instance.consumer.assignment())
        answer = []
        with kafka_errors():
            for partition in partitions:
                offset = await instance.consumer.committed(partition)
                if offset is not None:
                    answer.append({**_named(partition), "offset": offset, "metadata": ""})
        return _answer(request, {"offsets": answer})

    async def seek(self, instance: Instance, request: Request) -> Response:
        given = await bodies.json_object(request, "offsets", "timestamps")
        wanted = {
            _key(each): bodies.number(each, "offset")
            for each in bodies.optional_items(given, "offsets", *_OFFSET)
        }
        times = {
            _key(each): _milliseconds(each)
            for each in bodies.optional_items(given, "timestamps", *_PARTITION, "timestamp")
        }
        instance.check_assigned([*wanted, *times])
        with kafka_errors():
            for partition, found in (
                await instance.consumer.offsets_for_times(times) if times else {}
            ).items():
                # Kafka's consumer stays where it is if no record is that young.
                if found is not None:
                    wanted[partition] = found.offset
        for partition, offset in wanted.items():
            if offset < 0:
                raise unprocessable(f"offset must not be negative, and is {offset}.")
            instance.consumer.seek(partition, offset)
        instance.forget_fetched()
        return Response(_NOTHING, content_type=None)

    async def seek_beginning(self, instance: Instance, request: Request) -> Response:
        partitions = _partitions(await bodies.json_object(request, "partitions"))
        instance.check_assigned(partitions)
        with kafka_errors():
            await instance.consumer.seek_to_beginning(*partitions)
        instance.forget_fetched()
        return Response(_NOTHING, content_type=None)

    async def seek_end(self, instance: Instance, request: Request) -> Response:
        partitions = _partitions(await bodies.json_object(request, "partitions"))
        instance.check_assigned(partitions)
        with kafka_errors():
            await instance.consumer.seek_to_end(*partitions)
        instance.forget_fetched()
        return Response(_NOTHING, content_type=None)


def _names_a_format(request: Request) -> bool:
    """A client that accepts any type gets the instance's format."""
    return any(name in request.headers.get("accept", "").lower() for name in FORMATS)


def _answer(request: Request, value: Any) -> Response:
    return json_response(value, content_type=request.produces)


def _partition(found: Any) -> dict[str, Any]:
    return {
        "partition": found.partition,
        "leader": -1 if found.leader is None else found.leader,
        "replicas": [
            {"broker": broker, "leader": broker == found.leader, "in_sync": broker in found.isr}
            for broker in found.replicas
        ],
    }


def _named(partition: AioPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def _key(given: dict[str, Any]) -> AioPartition:
    from aiokafka.structs import TopicPartition

    return TopicPartition(bodies.text(given, "topic"), bodies.number(given, "partition"))


def _partitions(given: dict[str, Any]) -> list[AioPartition]:
    return [_key(each) for each in bodies.items(given, "partitions", *_PARTITION)]


def _milliseconds(given: dict[str, Any]) -> int:
    text = bodies.text(given, "timestamp")
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise unprocessable(f"timestamp must be like 2026-01-31T12:00:00Z, not {text}.") from None


async def _optional(request: Request, *fields: str) -> dict[str, Any]:
    return {} if request.content.empty else await bodies.json_object(request, *fields)
