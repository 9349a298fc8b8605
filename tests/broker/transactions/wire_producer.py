"""A transactional producer that sends every request explicitly, in the versions given."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import FindCoordinatorRequest
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionData,
)
from ottla.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.protocol.records import Record, build_batch, read_records
from tests.wire_client import WireClient

TRANSACTION = 1
NONE = ErrorCode.NONE


class WireProducer:
    """Uses version 1 of the transaction protocol by default; `v2` uses version 2, like the Java client."""

    def __init__(self, client: WireClient, transactional_id: str, *, v2: bool = False) -> None:
        self.client: Any = client
        self.transactional_id = transactional_id
        self.v2 = v2
        self.producer_id = self.epoch = -1
        self.ongoing = (-1, -1)
        self.sequences: dict[tuple[str, int], int] = {}

    def init(
        self,
        version: int = 5,
        timeout_ms: int = 60_000,
        expected: tuple[int, int] = (-1, -1),
        **two_phase_commit: bool,
    ) -> ErrorCode:
        """`enable2_pc` and `keep_prepared_txn` need version 6."""
        find_transaction_coordinator(self.client, self.transactional_id)
        answer = self.client.call(
            InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=expected[0],
                producer_epoch=expected[1],
                **two_phase_commit,
            ),
            version,
        )
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.ongoing = answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch
            self.sequences.clear()
        return ErrorCode(answer.error_code)

    def add(self, topic: str, *partitions: int, version: int = 3) -> list[ErrorCode]:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        answer = self.client.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=topics,
            ),
            version,
        )
        (result,) = answer.results_by_topic_v3_and_below
        return [ErrorCode(p.partition_error_code) for p in result.results_by_partition]

    def add_as_broker(
        self, topic: str, *partitions: int, verify_only: bool, version: int = 5
    ) -> list[ErrorCode]:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = self.client.call(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        (result,) = answer.results_by_transaction
        assert result.transactional_id == self.transactional_id
        return [
            ErrorCode(p.partition_error_code) for t in result.topic_results for p in t.results_by_partition
        ]

    def produce(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        version: int | None = None,
        transactional: bool = True,
        transactional_id: str | None = "",
    ) -> ErrorCode:
        sequence = self.sequences.get((topic, partition), 0)
        batch = build_batch(
            [Record(0, int(time.time() * 1000), None, value) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        data = [PartitionProduceData(index=partition, records=bytes(batch))]
        request = ProduceRequest(
            transactional_id=self.transactional_id if transactional_id == "" else transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=data)],
        )
        answer = self.client.call(request, version or (12 if self.v2 else 9))
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if not code:
            self.sequences[topic, partition] = sequence + len(values)
        return code

    def end(self, *, commit: bool, version: int | None = None, epoch: int | None = None) -> ErrorCode:
        answer = self.client.call(
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch if epoch is None else epoch,
                committed=commit,
            ),
            (5 if self.v2 else 3) if version is None else version,
        )
        if not answer.error_code and answer.producer_id >= 0:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self.sequences.clear()
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def add_offsets(self, group_id: str, version: int = 3) -> ErrorCode:
        answer = self.client.call(
            AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group_id,
            ),
            version,
        )
        return ErrorCode(answer.error_code)

    def commit_offset(
        self, group_id: str, topic: str | bytes, offset: int, *, version: int | None = None, **who: Any
    ) -> ErrorCode:
        """Commit an offset of the topic with this name, or from version 6 on with this id."""
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        named = {"topic_id" if isinstance(topic, bytes) else "name": topic}
        answer = self.client.call(
            TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                topics=[TxnOffsetCommitRequestTopic(**named, partitions=[partition])],
                **who,
            ),
            (5 if self.v2 else 3) if version is None else version,
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)


def find_transaction_coordinator(client: Any, transactional_id: str, version: int = 6) -> Any:
    if version >= 4:
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
        return client.call(request, version).coordinators[0]
    return client.call(FindCoordinatorRequest(key_type=TRANSACTION, key=transactional_id), version)


def fetch(
    client: Any, topic: str, offset: int = 0, *, committed: bool = True, version: int = 12, **options: int
) -> PartitionData:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        isolation_level=int(committed),
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
        session_epoch=-1,
        **options,
    )
    answer: PartitionData = client.call(request, version).responses[0].partitions[0]
    return answer


def end_offset(client: Any, topic: str, *, committed: bool) -> int:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[
            ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        ],
    )
    offset: int = client.call(request, 7).topics[0].partitions[0].offset
    return offset


def write_marker(
    client: Any, topic: str, producer_id: int, epoch: int, *, commit: bool = False, **fields: int
) -> ErrorCode:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        **fields,
    )
    answer = client.call(WriteTxnMarkersRequest(markers=[marker]), 2)
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def codes(*names: str) -> Sequence[ErrorCode]:
    return [ErrorCode[name] for name in names]


MakeProducer = Callable[..., WireProducer]


def begin(producer: WireProducer, topic: str, *values: bytes) -> None:
    if not producer.v2:
        assert producer.add(topic, 0) == [NONE]
    assert producer.produce(topic, *values) is NONE


def values(answer: Any) -> list[bytes | None]:
    return [
        record.value
        for header, records in read_records(bytes(answer.records))
        if not header.is_control
        for record in records
    ]


def committed(
    client: Any, group: str, topic: str, *, stable: bool, version: int = 9
) -> tuple[ErrorCode, int]:
    if version < 8:
        asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
        answer = client.call(OffsetFetchRequest(group_id=group, topics=asked, require_stable=stable), version)
        partition = answer.topics[0].partitions[0]
    else:
        asked_of = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        )
        answer = client.call(OffsetFetchRequest(groups=[asked_of], require_stable=stable), version)
        partition = answer.groups[0].topics[0].partitions[0]
    return ErrorCode(partition.error_code), partition.committed_offset
