"""Write the records of one request, with one batch per partition."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.client.cluster import Cluster
from ottla.client.errors import error_code
from ottla.client.produce import partition_of
from ottla.http import HttpError
from ottla.protocol.errors import ErrorCode
from ottla.rest import errors
from ottla.rest.clients import Clients, Identity, of_aiokafka

if TYPE_CHECKING:
    import asyncio

    from aiokafka import AIOKafkaProducer


@dataclass(frozen=True, slots=True)
class NewRecord:
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    partition: int
    offset: int
    timestamp: int


class Producing:
    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._round = itertools.count()

    async def write(
        self, identity: Identity, topic: str, records: Sequence[NewRecord]
    ) -> list[Written | HttpError]:
        """Return one result per record. Raises HttpError if the topic does not exist."""
        from aiokafka.errors import KafkaError

        producer = await self._clients.producer(identity)
        partitions = await self._partitions(producer, identity, topic)
        results: list[Written | HttpError | None] = [None] * len(records)
        sending: list[tuple[list[int], asyncio.Future[Any]]] = []
        spread = next(self._round)
        now = int(time.time() * 1000)
        for partition, places in self._by_partition(records, partitions, spread).items():
            if partition not in partitions:
                for place in places:
                    results[place] = errors.partition_not_found()
                continue
            try:
                for batched, future in await self._send(producer, topic, partition, places, records, now):
                    sending.append((batched, future))
            except (KafkaError, HttpError) as error:
                failure = error if isinstance(error, HttpError) else of_aiokafka(error)
                for place in places:
                    results[place] = results[place] or failure
        for places, future in sending:
            try:
                written = await future
                for index, place in enumerate(places):
                    # The broker returns a timestamp only if it assigned it.
                    at = written.timestamp if written.timestamp >= 0 else records[place].timestamp
                    results[place] = Written(
                        written.partition, written.offset + index, now if at is None else at
                    )
            except KafkaError as error:
                for place in places:
                    results[place] = of_aiokafka(error)
        assert all(result is not None for result in results)
        return [result for result in results if result is not None]

    async def _partitions(self, producer: AIOKafkaProducer, identity: Identity, topic: str) -> list[int]:
        from aiokafka.errors import KafkaError

        if not producer.client.cluster.partitions_for_topic(topic):
            # aiokafka would wait for a missing topic as long as a request may take.
            await self._find(identity, topic)
        try:
            found = await producer.partitions_for(topic)
        except KafkaError as error:
            raise of_aiokafka(error) from None
        return sorted(found)

    async def _find(self, identity: Identity, topic: str) -> None:
        """Find the topic, creating it if the cluster creates topics automatically."""
        metadata = await self._clients.admin(identity, Cluster.metadata, [topic], create=True)
        for each in metadata.topics:
            code = error_code(each.error_code)
            if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
                raise errors.topic_not_found()
            if code is not ErrorCode.NONE and not code.retriable:
                raise errors.of_code(code, f"Topic {topic}: {code.name}.")

    def _by_partition(
        self, records: Sequence[NewRecord], partitions: list[int], spread: int
    ) -> dict[int, list[int]]:
        """Group records by partition. Those without key and partition go together, to form one batch."""
        placed: dict[int, list[int]] = {}
        keyless = partitions[spread % len(partitions)]
        for place, record in enumerate(records):
            if record.partition is not None:
                partition = record.partition
            elif record.key is not None:
                partition = partitions[partition_of(record.key, len(partitions))]
            else:
                partition = keyless
            placed.setdefault(partition, []).append(place)
        return placed

    async def _send(
        self,
        producer: AIOKafkaProducer,
        topic: str,
        partition: int,
        places: list[int],
        records: Sequence[NewRecord],
        now: int,
    ) -> list[tuple[list[int], asyncio.Future[Any]]]:
        sent: list[tuple[list[int], asyncio.Future[Any]]] = []
        batched: list[int] = []
        batch = producer.create_batch()
        for place in places:
            record = records[place]
            fields = {
                "timestamp": now if record.timestamp is None else record.timestamp,
                "key": record.key,
                "value": record.value,
                "headers": list(record.headers),
            }
            if batch.append(**fields) is None:
                if batched:
                    sent.append((batched, await producer.send_batch(batch, topic, partition=partition)))
                batch, batched = producer.create_batch(), []
                if batch.append(**fields) is None:
                    raise errors.unprocessable("The record is larger than the proxy sends.")
            batched.append(place)
        if batched:
            sent.append((batched, await producer.send_batch(batch, topic, partition=partition)))
        return sent
