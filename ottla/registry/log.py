"""The topic with all schemas: its settings, its records applied to the state, and writing as the leader."""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import TypeVar

from ottla.client.admin.configs import Resource, describe_configs
from ottla.client.admin.topics import create_topic, describe_topics
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, TopicNotFound, Unreachable
from ottla.client.log import Batch, Fenced, LogReader, TooLarge
from ottla.client.log import LogProducer as Producer
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.registry.errors import schema_too_large, store_failed, timed_out
from ottla.registry.model.records import NOOP, Key, Write, encode_key, to_bytes
from ottla.registry.model.state import State

# The topic with all schemas. It must have one partition and be compacted.

_log = logging.getLogger(__name__)


class UnusableTopic(Exception):
    """An unsuitable topic. The message gives the operator problem and fix in one sentence."""


def ensure_topic(cluster: Cluster, name: str, replication_factor: int) -> None:
    """Create or check the topic. Raises UnusableTopic or ClientError."""
    found = describe_topics(cluster, [name], skip_missing=True)
    if not found:
        _create(cluster, name, replication_factor)
        return
    [topic] = found
    if len(topic.partitions) != 1:
        raise UnusableTopic(
            f"The schema topic {name} should have only 1 partition but has {len(topic.partitions)}: name another "
            "topic in kafkastore.topic."
        )
    if topic.replication_factor < min(replication_factor, len(cluster.nodes())):
        _log.warning(
            "The replication factor of the schema topic %s is %d, less than the desired one of %d: with few "
            "replicas schemas can get lost.",
            name,
            topic.replication_factor,
            replication_factor,
        )
    policy = _cleanup_policy(cluster, name)
    if policy != "compact":
        raise UnusableTopic(
            f"The cleanup policy of the schema topic {name} is {policy}, which deletes schemas: set its "
            "cleanup.policy to compact."
        )


def _cleanup_policy(cluster: Cluster, name: str) -> str | None:
    try:
        entries = describe_configs(cluster, Resource("topic", name))
    except ClientError as error:
        if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        _log.warning("Not authorized to read the settings of %s: it is taken to be compacted.", name)
        return "compact"
    return next((entry.value for entry in entries if entry.name == "cleanup.policy"), None)


def _create(cluster: Cluster, name: str, replication_factor: int) -> None:
    replicas = min(replication_factor, len(cluster.nodes()))
    try:
        create_topic(
            cluster,
            name,
            partitions=1,
            replication_factor=max(1, replicas),
            configs={"cleanup.policy": "compact"},
        )
    except ClientError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        # Another node created it first.
    cluster.retrying(lambda: _require(cluster, name))


def _require(cluster: Cluster, name: str) -> None:
    if name not in cluster.topics([name]):
        raise TopicNotFound(name)


# Write to the schemas topic as a leader that has fenced its predecessors.

__all__ = ["Fenced", "LogProducer", "TooLarge"]


class LogProducer:
    """Used by one thread at a time."""

    def __init__(self, settings: Settings, topic: str, transactional_id: str) -> None:
        self._producer = Producer(settings, topic, transactional_id)

    def close(self) -> None:
        self._producer.close()

    def take_over(self, seconds: float) -> int:
        """Fence all earlier leaders. Return the offset of our NOOP: all their records precede it."""
        self._producer.take_over()
        return self.append([Write(Key(NOOP), None)], seconds)

    def append(self, writes: list[Write], seconds: float) -> int:
        """Append all records or none. Return the last offset."""
        return self._producer.append(
            [(encode_key(each.key), None if each.value is None else to_bytes(each.value)) for each in writes],
            seconds,
        )


# The state derived from the log, and writes that complete once they were read back.
#
# Invariant: only records delivered by the reader change the state. Owner: the event loop; reader and
# producer have their own threads, which touch nothing here.

T = TypeVar("T")


class Store:
    def __init__(
        self,
        settings: Settings,
        topic: str,
        *,
        group: str,
        replication_factor: int = 3,
        timeout: float = 10.0,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._group = group
        self._replication_factor = replication_factor
        self.timeout = timeout
        self.state = State()
        self.cluster_id = ""
        self.next_offset = 0
        self.is_caught_up = False
        #: Called when log and state start over.
        self.on_restart: Callable[[], None] | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._caught_up = asyncio.Event()
        self._writer = ThreadPoolExecutor(1, "registry-writer")
        self._reader: LogReader | None = None
        self._producer: LogProducer | None = None

    async def start(self, seconds: float) -> None:
        """Return once the existing log has been read. Raises UnusableTopic, ClientError, TimeoutError."""
        loop = asyncio.get_running_loop()
        await self._in_thread(partial(self._prepare, seconds))
        self._producer = LogProducer(self._settings, self._topic, f"{self._group}-{self._topic}")

        def deliver(batch: Batch) -> None:
            loop.call_soon_threadsafe(self._read, batch)

        self._reader = LogReader(self._settings, self._topic, deliver)
        self._reader.start()
        async with asyncio.timeout(seconds):
            await self._caught_up.wait()

    def _prepare(self, seconds: float) -> None:
        """Wait for brokers that start at the same time."""
        cluster = Cluster(self._settings)
        deadline = time.monotonic() + seconds
        has_warned = False
        try:
            while True:
                try:
                    ensure_topic(cluster, self._topic, self._replication_factor)
                    self.cluster_id = cluster.metadata(()).cluster_id or ""
                    return
                except Unreachable as error:
                    if time.monotonic() + self._settings.retry_backoff > deadline:
                        raise
                    if not has_warned:
                        _log.warning("%s Trying again for %g s.", error.message, seconds)
                    has_warned = True
                time.sleep(self._settings.retry_backoff)
        finally:
            cluster.close()

    async def stop(self) -> None:
        if self._reader is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._reader.stop)
        if self._producer is not None:
            await self._in_thread(self._producer.close)
        self._writer.shutdown(wait=True)
        for _, _, future in self._waiting:
            future.cancel()

    # Reading

    def _read(self, batch: Batch) -> None:
        if batch.restart:
            on_change = self.state.on_change
            self.state = State()
            self.state.on_change = on_change
            self.is_caught_up = False
            if self.on_restart is not None:
                self.on_restart()
        for record in batch.records:
            self.state.apply(record.key, record.value, record.offset, record.timestamp)
        self.next_offset = batch.next_offset
        if not batch.restart and batch.next_offset >= batch.high_watermark:
            self.is_caught_up = True
            self._caught_up.set()
        while self._waiting and self._waiting[0][0] < self.next_offset:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    async def read_until(self, offset: int) -> None:
        """Wait until the record at this offset is part of the state. Raises RegistryError 50002."""
        if offset < self.next_offset:
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (offset, next(self._numbers), future))
        try:
            async with asyncio.timeout(self.timeout):
                await future
        except TimeoutError:
            raise timed_out() from None

    # Writing

    async def take_over(self) -> int:
        """Fence the previous leader and read all its records. Return the offset of the fencing NOOP."""
        assert self._producer is not None
        offset = await self._in_thread(partial(self._producer.take_over, self.timeout))
        await self.read_until(offset)
        return offset

    async def write(self, writes: Sequence[Write]) -> None:
        """Return once the records are in the log and the state. Raises Fenced, and RegistryError otherwise."""
        assert self._producer is not None
        try:
            offset = await self._in_thread(partial(self._producer.append, list(writes), self.timeout))
        except TooLarge:
            raise schema_too_large() from None
        except Fenced:
            raise
        except ClientError as error:
            _log.error("Cannot write to %s: %s", self._topic, error)
            if error.is_retriable:
                raise timed_out(f"Register operation timed out: {error.message}") from None
            raise store_failed(f"Error while writing to the backend Kafka store: {error.message}") from None
        await self.read_until(offset)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, call)
