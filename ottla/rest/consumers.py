"""Consumer instances of v2: created by one request, used by others, and closed after a timeout."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from ottla.http import HttpError
from ottla.rest import errors
from ottla.rest.clients import Clients, Identity, of_aiokafka
from ottla.rest.errors import BAD_CONSUMER, CONSUMER_EXISTS, bad_request, illegal_state, unprocessable
from ottla.rest.formats import Format
from ottla.rest.settings import RestSettings

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.structs import ConsumerRecord, TopicPartition

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_COMMIT_SECONDS = 5.0
_LEAST_TIMEOUT = 0.001
#: isolation.level is an addition to Confluent's.
CONSUMER_OPTIONS = (
    "id",
    "name",
    "format",
    "auto.offset.reset",
    "auto.commit.enable",
    "consumer.request.timeout.ms",
    "fetch.min.bytes",
    "isolation.level",
)


class Instance:
    """Owner: the event loop. Requests for one instance run sequentially."""

    def __init__(
        self,
        group: str,
        name: str,
        identity: Identity,
        kind: Format,
        consumer: AIOKafkaConsumer,
        request_timeout: float,
        max_bytes: int,
        commits: bool,
    ) -> None:
        self.group = group
        self.name = name
        self.identity = identity
        self.format = kind
        self.consumer = consumer
        self.lock = asyncio.Lock()
        self.busy = 0
        self.used = time.monotonic()
        self._request_timeout = request_timeout
        self._max_bytes = max_bytes
        self._left: list[ConsumerRecord[Any, Any]] = []  # fetched but not yet returned
        self._answered: dict[
            TopicPartition, int
        ] = {}  # offset after the last returned record, since the last commit
        self.commits = commits
        self._source: str | None = None  # topics, pattern or partitions: where its partitions come from
        self._next_commit = 0.0

    def touch(self) -> None:
        self.used = time.monotonic()

    def subscribe(self, topics: list[str]) -> None:
        self._check_source("topics")
        self.consumer.subscribe(topics=topics, listener=_listener(self))
        self._source = "topics"

    def subscribe_pattern(self, pattern: str) -> None:
        self._check_source("pattern")
        try:
            self.consumer.subscribe(pattern=pattern, listener=_listener(self))
        except ValueError:
            raise unprocessable(f"{pattern} is not a regular expression.") from None
        self._source = "pattern"

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._check_source("partitions")
        self.consumer.assign(partitions)
        self._source = "partitions"
        self.forget_fetched()

    def unsubscribe(self) -> None:
        self.consumer.unsubscribe()
        self._source = None
        self.forget_fetched()

    def _check_source(self, wanted: str) -> None:
        if self._source not in (None, wanted):
            raise illegal_state("Subscription to topics, partitions and pattern are mutually exclusive")

    def check_assigned(self, partitions: Collection[TopicPartition]) -> None:
        assigned = self.consumer.assignment()
        for each in partitions:
            if each not in assigned:
                raise illegal_state(f"No current assignment for partition {each.topic}-{each.partition}")

    def answered_positions(self) -> dict[TopicPartition, int]:
        """Return the positions in currently assigned partitions."""
        assigned = self.consumer.assignment()
        return {each: offset for each, offset in self._answered.items() if each in assigned}

    async def commit_answered(self) -> None:
        positions = self.answered_positions()
        self._answered.clear()
        if positions:
            await self.consumer.commit(positions)

    async def commit_in_time(self) -> None:
        """Commit for auto.commit.enable. Fetched but unreturned records do not count as read."""
        now = time.monotonic()
        if self.commits and self._answered and now >= self._next_commit:
            self._next_commit = now + _COMMIT_SECONDS
            await self.commit_answered()

    async def records(self, timeout: float | None, max_bytes: int | None) -> list[ConsumerRecord[Any, Any]]:
        """Return the records available within the time and size limits; the rest comes with the next request."""
        from aiokafka.errors import KafkaError
        from aiokafka.structs import TopicPartition

        if self._source is None:
            raise illegal_state("Consumer is not subscribed to any topics or assigned any partitions")
        limit = min(max_bytes or self._max_bytes, self._max_bytes)
        deadline = time.monotonic() + (
            self._request_timeout if timeout is None else min(timeout, self._request_timeout)
        )
        taken: list[ConsumerRecord[Any, Any]] = []
        size = 0
        while True:
            while self._left:
                record = self._left[0]
                size += len(record.key or b"") + len(record.value or b"")
                if taken and size > limit:
                    return taken
                taken.append(self._left.pop(0))
                self._answered[TopicPartition(record.topic, record.partition)] = record.offset + 1
            if taken or (left := deadline - time.monotonic()) <= 0:
                return taken
            try:
                found = await self.consumer.getmany(timeout_ms=max(int(left * 1000), 1))
            except KafkaError as error:
                raise of_aiokafka(error) from None
            self._left = [record for records in found.values() for record in records]

    def put_back(self, records: list[ConsumerRecord[Any, Any]]) -> None:
        """Put back records that were not returned after all."""
        from aiokafka.structs import TopicPartition

        self._left[:0] = records
        for record in reversed(records):
            self._answered[TopicPartition(record.topic, record.partition)] = record.offset

    def forget_fetched(self) -> None:
        """Discard fetched records after a seek."""
        self._left.clear()
        self._answered.clear()

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        from aiokafka.errors import KafkaError

        try:
            if self.commits:
                await self.commit_answered()
        except KafkaError as error:
            logger.warning("Consumer %s of group %s: %s", self.name, self.group, error)
        gone = {(each.topic, each.partition) for each in partitions}
        self._left = [record for record in self._left if (record.topic, record.partition) not in gone]


class Consumers:
    """Invariant: an instance named in a response stays in `_instances` until it is deleted or times out."""

    def __init__(self, clients: Clients, settings: RestSettings) -> None:
        self._clients = clients
        self._settings = settings
        self._instances: dict[tuple[str, str], Instance | None] = {}  # None: being created
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._sweeper = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        instances, self._instances = self._instances, {}
        await asyncio.gather(*(self._end(each) for each in instances.values() if each is not None))

    async def create(self, group: str, identity: Identity, given: Mapping[str, Any]) -> Instance:
        options = {str(name): str(value) for name, value in given.items()}
        name = options.get("name") or f"rest-consumer-{uuid.uuid4()}"
        kind = _format(options.get("format", "binary"))
        if (group, name) in self._instances:
            raise HttpError(
                409,
                CONSUMER_EXISTS,
                "Consumer with specified consumer ID already exists in the specified consumer group.",
            )
        if len(self._instances) >= self._settings.max_consumers:
            raise HttpError(
                503,
                50301,
                f"There are {len(self._instances)} consumers already; delete one, or wait for it to time out.",
            )
        reset = options.get("auto.offset.reset", "latest")
        if reset not in ("earliest", "latest", "none"):
            raise _bad_consumer(f"auto.offset.reset must be earliest, latest or none, not {reset}.")
        isolation = options.get("isolation.level", "read_uncommitted")
        if isolation not in ("read_committed", "read_uncommitted"):
            raise _bad_consumer("isolation.level must be read_committed or read_uncommitted.")
        timeout = _seconds(options, "consumer.request.timeout.ms", self._settings.consumer_request_timeout)
        commits = options.get("auto.commit.enable", "true").lower() == "true"
        fetch_min_bytes = max(int(_seconds(options, "fetch.min.bytes", 0.001) * 1000), 1)
        self._instances[group, name] = None
        try:
            consumer = await self._clients.consumer(
                identity,
                group_id=group,
                auto_offset_reset=reset,
                enable_auto_commit=False,  # it would commit fetched records; `Instance` commits returned ones
                isolation_level=isolation,
                fetch_min_bytes=fetch_min_bytes,
                # The proxy polls on behalf of idle clients; only the instance timeout ends an instance.
                max_poll_interval_ms=int(self._settings.consumer_instance_timeout * 1000) * 2,
            )
            max_bytes = self._settings.consumer_request_max_bytes
            instance = Instance(group, name, identity, kind, consumer, timeout, max_bytes, commits)
            self._instances[group, name] = instance
            return instance
        except BaseException:
            self._instances.pop((group, name), None)
            raise

    def find(self, group: str, name: str, identity: Identity) -> Instance:
        """Return an instance. Another user's instance counts as missing."""
        instance = self._instances.get((group, name))
        if instance is None or instance.identity != identity:
            raise errors.consumer_not_found()
        instance.used = time.monotonic()
        return instance

    async def delete(self, instance: Instance) -> None:
        self._instances.pop((instance.group, instance.name), None)
        await self._end(instance)

    async def _end(self, instance: Instance) -> None:
        from aiokafka.errors import KafkaError

        try:
            if instance.commits:
                await instance.commit_answered()
        except KafkaError as error:
            logger.warning("Consumer %s of group %s: %s", instance.name, instance.group, error)
        await self._clients.end(instance.consumer)

    async def _sweep(self) -> None:
        from aiokafka.errors import KafkaError

        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            oldest = time.monotonic() - self._settings.consumer_instance_timeout
            for instance in list(self._instances.values()):
                if instance is None or instance.busy:
                    continue
                try:
                    if instance.used < oldest:
                        logger.info("Consumer %s of group %s has timed out", instance.name, instance.group)
                        await self.delete(instance)
                    else:
                        await instance.commit_in_time()
                except KafkaError as error:
                    logger.warning("Consumer %s of group %s: %s", instance.name, instance.group, error)
                except Exception:
                    logger.exception("Consumer %s of group %s", instance.name, instance.group)


def _listener(instance: Instance) -> Any:
    from aiokafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        """Called by aiokafka before partitions move to another consumer of the group."""

        async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            await instance.revoked(revoked)

        async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            pass

    return Listener()


def _format(name: str) -> Format:
    found: dict[str, Format] = {
        "binary": "binary",
        "json": "json",
        "avro": "avro",
        "jsonschema": "jsonschema",
        "protobuf": "protobuf",
    }
    if name.lower() not in found:
        raise _bad_consumer(f"Invalid format type: {name}. It must be one of {', '.join(found)}.")
    return found[name.lower()]


def _bad_consumer(reason: str) -> HttpError:
    return unprocessable(f"Invalid consumer configuration: {reason}", BAD_CONSUMER)


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    try:
        return max(int(text) / 1000, _LEAST_TIMEOUT)
    except ValueError:
        raise bad_request(f"{name} must be a number, not {text}.") from None
