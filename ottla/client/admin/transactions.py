"""Transactions and their producers: list, describe, and abort hanging ones."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ottla.client.admin.offsets import Partition
from ottla.client.admin.routing import ask_coordinator
from ottla.client.cluster import Cluster, CoordinatorType, Node
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, check_in_kafkas_words, in_kafkas_words
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import transactions as messages

# Transaction timeout for fencing, as in Kafka's client.
_FENCE_TIMEOUT_MS = 30_000
_PARTITIONS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class TransactionListing:
    coordinator: int
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    coordinator: int
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: list[Partition]


@dataclass(frozen=True, slots=True)
class Producer:
    """A partition's state of a producer."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    transaction_start: int | None


def list_transactions(
    cluster: Cluster,
    *,
    producer_ids: Iterable[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """List the transactions of all coordinators; with `duration_ms` only those running for longer."""
    found = []
    for node in list(cluster.nodes()):
        connection = cluster.node(node)
        _, newest = connection.versions.get(messages.ListTransactionsRequest.api_key, (0, -1))
        if (duration_ms >= 0 and newest < 1) or (pattern is not None and newest < 2):
            raise ClientError(f"Broker {node} is too old to filter transactions in this way.")
        answer = connection.request(
            messages.ListTransactionsRequest(
                producer_id_filters=list(producer_ids),
                duration_filter=duration_ms,
                transactional_id_pattern=pattern,
            ),
            messages.ListTransactionsResponse,
        )
        check_in_kafkas_words(answer)
        found += [
            TransactionListing(node, each.transactional_id, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
        ]
    return found


def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription | None:
    """Return None for an unused id."""

    def ask(connection: Connection, node: Node) -> TransactionDescription:
        request = messages.DescribeTransactionsRequest(transactional_ids=[transactional_id])
        [state] = connection.request(request, messages.DescribeTransactionsResponse).transaction_states
        check_in_kafkas_words(state)
        return TransactionDescription(
            node.id,
            transactional_id,
            state.transaction_state,
            state.producer_id,
            state.producer_epoch,
            state.transaction_timeout_ms,
            state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None,
            sorted((topic.topic, number) for topic in state.topics for number in topic.partitions),
        )

    try:
        return ask_coordinator(cluster, CoordinatorType.TRANSACTION, transactional_id, ask)
    except ClientError as error:
        if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        raise


def describe_producers(
    cluster: Cluster, partitions: Collection[Partition], broker: int | None = None
) -> dict[Partition, list[Producer]]:
    found: dict[Partition, list[Producer]] = {}
    for node, topics in _by_broker(cluster, partitions, broker).items():
        request = messages.DescribeProducersRequest(
            topics=[
                messages.TopicRequest(name=topic, partition_indexes=numbers)
                for topic, numbers in topics.items()
            ]
        )
        for topic in cluster.node(node).request(request, messages.DescribeProducersResponse).topics:
            for partition in topic.partitions:
                check_in_kafkas_words(partition)
                found[topic.name, partition.partition_index] = [
                    Producer(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.coordinator_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else None,
                    )
                    for producer in partition.active_producers
                ]
    return found


def _by_broker(
    cluster: Cluster, partitions: Collection[Partition], broker: int | None
) -> dict[int, dict[str, list[int]]]:
    wanted = set(partitions)
    asked: dict[int, dict[str, list[int]]] = {}
    for topic in cluster.metadata(sorted({name for name, _ in wanted})).topics:
        name = topic.name or ""
        for partition in topic.partitions:
            if (name, partition.partition_index) in wanted:
                wanted.discard((name, partition.partition_index))
                of_broker = asked.setdefault(partition.leader_id if broker is None else broker, {})
                of_broker.setdefault(name, []).append(partition.partition_index)
    if wanted:
        raise in_kafkas_words(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if -1 in asked:
        raise in_kafkas_words(ErrorCode.LEADER_NOT_AVAILABLE)
    return asked


def abort_transaction(
    cluster: Cluster, partition: Partition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    [leader] = _by_broker(cluster, [partition], None)
    marker = messages.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        transaction_result=False,
        topics=[messages.WritableTxnMarkerTopic(name=partition[0], partition_indexes=[partition[1]])],
    )
    answer = cluster.node(leader).request(
        messages.WriteTxnMarkersRequest(markers=[marker]), messages.WriteTxnMarkersResponse
    )
    for written in answer.markers:
        for topic in written.topics:
            check_in_kafkas_words(*topic.partitions)


def force_terminate(cluster: Cluster, transactional_id: str) -> None:
    """Fence the producer of the id: the coordinator aborts its open transaction."""

    def ask(connection: Connection, _node: Node) -> None:
        request = messages.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=_FENCE_TIMEOUT_MS
        )
        check_in_kafkas_words(connection.request(request, messages.InitProducerIdResponse))

    # The coordinator aborts the open transaction first, and until then reports it.
    ask_coordinator(
        cluster,
        CoordinatorType.TRANSACTION,
        transactional_id,
        ask,
        again_on=frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED}),
    )


def find_hanging(
    cluster: Cluster, partitions: Collection[Partition], *, broker: int | None, longer_than_ms: int
) -> list[tuple[Partition, Producer]]:
    """Return open transactions that are unknown to their coordinator and therefore never end."""
    now = round(time.time() * 1000)
    chosen = list(partitions)
    candidates = [
        (partition, producer)
        for start in range(0, len(chosen), _PARTITIONS_AT_ONCE)
        for partition, producers in describe_producers(
            cluster, chosen[start : start + _PARTITIONS_AT_ONCE], broker
        ).items()
        for producer in producers
        if producer.transaction_start is not None and now - producer.last_timestamp > longer_than_ms
    ]
    if not candidates:
        return []
    ids = {producer.producer_id for _, producer in candidates}
    names = {each.producer_id: each.transactional_id for each in list_transactions(cluster, producer_ids=ids)}
    known = {name: describe_transaction(cluster, name) for name in set(names.values())}

    def hangs(partition: Partition, producer: Producer) -> bool:
        described = known.get(names.get(producer.producer_id, ""))
        return described is None or partition not in described.partitions

    return [(partition, producer) for partition, producer in candidates if hangs(partition, producer)]
