"""Creation, reading and writing of MirrorMaker's internal topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, error_code
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from ottla.client.produce import partition_of
from ottla.client.transactions import Transaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.record_format import Record
from ottla.protocol.records import build_batch
from ottla.records import kernels

_PRODUCE_VERSION = 11
Entry = tuple[bytes, bytes | None]


def ensure(
    cluster: Cluster, topic: str, *, partitions: int = 1, replication_factor: int, compacted: bool = True
) -> None:
    """Create the topic if it does not exist. Leave an existing topic unchanged."""
    if topic in cluster.topics([topic]):
        return
    policy = {"cleanup.policy": "compact"} if compacted else {}
    replicas = min(max(1, replication_factor), len(cluster.nodes()))
    try:
        create_topic(cluster, topic, partitions=partitions, replication_factor=replicas, configs=policy)
    except ClientError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    wait_for(cluster, topic)


def wait_for(cluster: Cluster, topic: str) -> None:
    """Wait until the brokers know the topic and the leaders of its partitions."""

    def look() -> None:
        found = cluster.topics([topic]).get(topic)
        if found is None or not found.leaders or min(found.leaders.values()) < 0:
            raise ClientError(f"Topic '{topic}' is not ready.", ErrorCode.LEADER_NOT_AVAILABLE)

    cluster.retrying(look, [topic])


def read_all(cluster: Cluster, topic: str) -> Iterator[Entry]:
    """Yield every committed record with a key, partition by partition. Yield nothing if the topic does not exist."""
    found = cluster.topics([topic]).get(topic)
    for partition in [] if found is None else found.partitions:
        yield from _read(cluster, partition)


def _read(cluster: Cluster, partition: TopicPartition) -> Iterator[Entry]:
    first = list_offsets(cluster, {partition: EARLIEST})[partition].offset
    end = list_offsets(cluster, {partition: LATEST}, READ_COMMITTED)[partition].offset
    fetcher = PartitionFetcher(cluster, partition, FetchOptions(isolation_level=READ_COMMITTED))
    offset = first
    try:
        while offset < end:
            fetched = fetcher.fetch(offset)
            columns, offset = kernels.decode(
                fetched.records, start=offset, end=end, with_headers=False, aborted=fetched.aborted
            )
            for key, value in zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True):
                if key is not None:
                    yield key, value
    finally:
        fetcher.close()


class InternalWriter:
    """Writes keyed entries, optionally in a transaction. It sends one request at a time because entries are few."""

    def __init__(self, cluster: Cluster, transaction: Transaction | None = None) -> None:
        self._cluster = cluster
        self._transaction = transaction
        self._sequences: dict[TopicPartition, int] = {}

    def partitions(self, topic: str, entries: Iterable[Entry]) -> dict[TopicPartition, list[Entry]]:
        """Divide entries among partitions like the Java producer, because compaction works within a partition."""
        count = len(self._cluster.topics([topic])[topic].leaders)
        divided: dict[TopicPartition, list[Entry]] = {}
        for entry in entries:
            divided.setdefault(TopicPartition(topic, partition_of(entry[0], count)), []).append(entry)
        return divided

    def write(self, partition: TopicPartition, entries: Sequence[Entry], timestamp: int) -> None:
        records = [Record(0, timestamp, key, value) for key, value in entries]
        transaction = self._transaction
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(records)
        identity = (
            {}
            if transaction is None
            else {
                "producer_id": transaction.producer_id,
                "producer_epoch": transaction.producer_epoch,
                "base_sequence": sequence,
                "transactional": True,
            }
        )
        batch = build_batch(records, **identity)  # type: ignore[arg-type]
        request = ProduceRequest(
            transactional_id=None if transaction is None else transaction.transactional_id,
            acks=-1,
            timeout_ms=int(self._cluster.settings.request_timeout * 1000),
            topic_data=[
                TopicProduceData(
                    name=partition.topic,
                    partition_data=[PartitionProduceData(index=partition.partition, records=batch)],
                )
            ],
        )

        def ask() -> None:
            answer = self._cluster.leader(partition).request(
                request, ProduceResponse, max_version=_PRODUCE_VERSION
            )
            part = answer.responses[0].partition_responses[0]
            code = error_code(part.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                raise ClientError(f"Topic '{partition.topic}' cannot be written: {code.name}.", code)

        self._cluster.retrying(ask, [partition.topic])

    def write_all(self, topic: str, entries: Iterable[Entry], timestamp: int) -> None:
        for partition, some in self.partitions(topic, entries).items():
            self.write(partition, some, timestamp)
