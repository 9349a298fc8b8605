"""Counts topics over the wire, and keeps the books in a topic.

The audit topic has pages, each of which says from which offset to which a tier has counted a partition. So it is also
where a counter finds out where it stopped, and a page that was counted but not written is counted again.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ottla.audit.books import Books, Page, in_order
from ottla.client.admin.configs import Resource, describe_many
from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, error_code
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from ottla.protocol.batch_header import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.end_txn_marker import ABORT
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.records import Record, build_batch, read_records

AUDIT_TOPIC = "__ottla_audit"
_ALL = -1
_LAST_WITH_NAMES = 12
_RECORDS_PER_PAGE = 100_000


class Compacted(ClientError):
    """Records of a compacted topic go by design: there is nothing to balance."""


@dataclass(frozen=True)
class Tier:
    """Where topics are counted, and as what."""

    name: str
    bucket_ms: int = 600_000
    known_as: str | None = None  # what the books call the topic, if it has another name here

    def topic(self, name: str) -> str:
        return self.known_as or name


def ensure_audit_topic(cluster: Cluster, topic: str = AUDIT_TOPIC) -> None:
    try:
        create_topic(cluster, topic, partitions=1, configs={"retention.ms": "-1", "cleanup.policy": "delete"})
    except ClientError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    cluster.retrying(lambda: cluster.leader(TopicPartition(topic, 0)), [topic])


def read_books(cluster: Cluster, topic: str = AUDIT_TOPIC) -> Books:
    """All pages that there are. Raises ClientError."""
    pages = [
        page
        for partition in cluster.topics([topic])[topic].partitions
        for _, page in read_pages(cluster, partition, None)
        if page is not None
    ]
    books = Books()
    for page in in_order(pages):
        books.add(page)
    return books


def read_pages(
    cluster: Cluster, partition: TopicPartition, start: int | None
) -> Iterator[tuple[int, Page | None]]:
    """Each with the offset to go on from; None for a record of somebody else."""
    for position, record in _records(cluster, partition, start):
        try:
            yield position, Page.from_json(json.loads(record.value or b""))
        except (ValueError, KeyError, TypeError):
            yield position, None


def count_topic(cluster: Cluster, topic: str, tier: Tier, books: Books) -> Iterator[Page]:
    """Pages of what is new since the books were written; the caller writes them. Raises ClientError."""
    found = cluster.topics([topic]).get(topic)
    if found is None:
        raise ClientError(f"Topic '{topic}' does not exist.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    [entries] = describe_many(cluster, [Resource("topic", topic)], synonyms=False).values()
    if any(entry.name == "cleanup.policy" and "compact" in (entry.value or "") for entry in entries):
        raise Compacted(f"Topic '{topic}' is compacted: its records go by design, and cannot be balanced.")
    for partition in found.partitions:
        place = (tier.topic(topic), tier.name, partition.partition)
        page: Page | None = None
        counted = 0
        for next_offset, record in _records(cluster, partition, books.positions.get(place)):
            if page is None:
                page = _new_page(tier, topic, partition, record.offset)
            page.note(record.timestamp, record.key, record.value)
            page.end = next_offset
            counted += 1
            if counted >= _RECORDS_PER_PAGE:
                yield page
                page, counted = None, 0
        # Also if there was nothing: the time at which a tier counted last says up to when it can be compared.
        yield page or _new_page(tier, topic, partition, books.positions.get(place, 0))


def _new_page(tier: Tier, topic: str, partition: TopicPartition, first: int) -> Page:
    now_ms = time.time_ns() // 1_000_000
    return Page(
        tier.topic(topic),
        tier.name,
        partition.partition,
        first,
        first,
        now_ms,
        socket.gethostname(),
        tier.bucket_ms,
    )


def _records(cluster: Cluster, partition: TopicPartition, start: int | None) -> Iterator[tuple[int, Record]]:
    """Committed records up to the end as it is now, each with the offset to go on from."""
    [end] = list_offsets(cluster, {partition: LATEST}, READ_COMMITTED).values()
    [begin] = list_offsets(cluster, {partition: EARLIEST}).values()
    offset = begin.offset if start is None else max(start, begin.offset)
    fetcher = PartitionFetcher(
        cluster, partition, FetchOptions(isolation_level=READ_COMMITTED, max_wait_ms=200)
    )
    aborted: set[int] = set()  # producers whose current transaction was aborted
    try:
        while offset < end.offset:
            fetched = fetcher.fetch(offset)
            beginnings = sorted(fetched.aborted, key=lambda each: each[1])
            for header, records in read_records(fetched.records):
                while beginnings and beginnings[0][1] <= header.last_offset:
                    aborted.add(beginnings.pop(0)[0])
                if header.attributes & CONTROL_FLAG:
                    if records and int.from_bytes((records[0].key or b"")[2:4], "big") == ABORT:
                        aborted.discard(header.producer_id)
                elif not _is_aborted(header, aborted):
                    for record in records:
                        if offset <= record.offset < end.offset:
                            yield record.offset + 1, record
                offset = max(offset, header.last_offset + 1)
    finally:
        fetcher.close()


def _is_aborted(header: BatchHeader, aborted: set[int]) -> bool:
    return bool(header.attributes & TRANSACTIONAL_FLAG) and header.producer_id in aborted


def write_pages(cluster: Cluster, pages: Iterable[Page], topic: str = AUDIT_TOPIC) -> None:
    """Raises ClientError."""
    now = time.time_ns() // 1_000_000
    for page in pages:
        key = f"{page.topic}/{page.tier}/{page.partition}/{page.first}".encode()
        batch = build_batch([Record(0, now, key, json.dumps(page.to_json()).encode())])

        def write(batch: bytearray = batch) -> None:
            leader, topic_id = cluster.leader(TopicPartition(topic, 0)), cluster.topic_id(topic)
            data = TopicProduceData(
                name=topic, topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=batch)]
            )
            request = ProduceRequest(acks=_ALL, timeout_ms=30_000, topic_data=[data])
            version = _LAST_WITH_NAMES if topic_id == ZERO_UUID else None
            answer = leader.request(request, ProduceResponse, max_version=version)
            code = error_code(answer.responses[0].partition_responses[0].error_code)
            if code != ErrorCode.NONE:
                raise ClientError(f"Topic '{topic}' cannot be written: {code.name}.", code)

        cluster.retrying(write, [topic])
