"""Reads a sink task's partitions from the committed offsets, and commits the offsets of stored records.

The consumer is not a member of the group, because the driver assigns partitions. Lag tools still see the group's
progress, the REST API can alter offsets while the connector is stopped, and another worker can take over at any time.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ottla.client.admin.groups import committed_offsets
from ottla.client.cluster import Cluster
from ottla.client.cluster import TopicPartition as Partition
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, error_code
from ottla.client.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    commit_offsets,
    list_offsets,
)
from ottla.connect.config.config_def import ConfigError, invalid
from ottla.connect.errors import ConnectError
from ottla.connect.runtime.records.topic_records import RawRecords
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.records.kernels import decode

#: The last version that identifies topics by name. Later versions use topic ids.
_LAST_WITH_NAMES = 12
_EVERYTHING = 1 << 62
_RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}
_ISOLATION = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
#: Maximum wait for records, so that a sink can be stopped.
_WAIT_MS = 250
_FETCH_BYTES = 50 << 20
_PARTITION_BYTES = 1 << 20

Positions = dict[Partition, int]


class SinkConsumer:
    """Owner: one task, in one thread. `positions` are the next offsets to read."""

    def __init__(
        self, cluster: Cluster, group: str, partitions: Iterable[tuple[str, int]], settings: Mapping[str, str]
    ) -> None:
        self._cluster = cluster
        self._group = group
        reset = settings.get("auto.offset.reset", "earliest").strip().lower()
        if reset not in _RESETS:
            raise invalid("auto.offset.reset", reset, "it must be earliest, latest or none")
        self._reset = _RESETS[reset]
        isolation = settings.get("isolation.level", "read_committed").strip().lower()
        if isolation not in _ISOLATION:
            raise invalid("isolation.level", isolation, "it must be read_committed or read_uncommitted")
        self._isolation = _ISOLATION[isolation]
        self._partition_bytes = _number(settings, "max.partition.fetch.bytes", _PARTITION_BYTES)
        self._fetch_bytes = _number(settings, "fetch.max.bytes", _FETCH_BYTES)
        self._wait_ms = min(_number(settings, "fetch.max.wait.ms", _WAIT_MS), _WAIT_MS)
        self._min_bytes = _number(settings, "fetch.min.bytes", 1)
        self.positions = self._begin([Partition(*each) for each in partitions])
        self._turn = 0

    def _begin(self, partitions: list[Partition]) -> Positions:
        committed = committed_offsets(self._cluster, self._group)
        positions = {each: committed[each] for each in partitions if tuple(each) in committed}
        return {**positions, **self._reset_offsets([each for each in partitions if each not in positions])}

    def _reset_offsets(self, partitions: list[Partition]) -> Positions:
        if not partitions:
            return {}
        if self._reset is None:
            raise ConnectError(
                f"Group '{self._group}' has no offset for {partitions[0]} that can be read, and auto.offset.reset is "
                "none: set its offsets, or allow earliest or latest."
            )
        found = list_offsets(self._cluster, dict.fromkeys(partitions, self._reset), self._isolation)
        return {each: found[each].offset for each in partitions}

    # Reading

    def poll(self, paused: Collection[Partition] = ()) -> list[RawRecords]:
        """Return the next records of all partitions that are not paused, in offset order, or none after a short wait.

        After a retriable ClientError, the next call refreshes the leaders.
        """
        wanted = [each for each in self.positions if each not in paused]
        if not wanted:
            time.sleep(self._wait_ms / 1000)
            return []
        try:
            return self._fetch(wanted)
        except ClientError:
            for topic in {each.topic for each in self.positions}:
                self._cluster.forget(topic)
            raise

    def _fetch(self, wanted: list[Partition]) -> list[RawRecords]:
        self._cluster.look_up({each.topic for each in wanted})
        by_leader: dict[int, tuple[Connection, list[Partition]]] = {}
        for partition in wanted:
            leader = self._cluster.leader(partition)
            by_leader.setdefault(id(leader), (leader, []))[1].append(partition)
        self._turn += 1
        sent = []
        for leader, partitions in by_leader.values():
            request, version = self._request(partitions)
            sent.append((leader, leader.send(request, FetchResponse, max_version=version)))
        answers = [leader.receive(each) for leader, each in sent]
        records: list[RawRecords] = []
        failure: ClientError | None = None
        for answer in answers:
            _check(answer.error_code, "The topics of the sink")
            names = {self._cluster.topic_id(each.topic): each.topic for each in wanted}
            for topic in answer.responses:
                name = topic.topic or names.get(topic.topic_id, "")
                for part in topic.partitions:
                    partition = Partition(name, part.partition_index)
                    if error_code(part.error_code) == ErrorCode.OFFSET_OUT_OF_RANGE:
                        self.positions |= self._reset_offsets([partition])
                        continue
                    try:
                        _check(part.error_code, f"Partition {partition}")
                    except ClientError as error:
                        failure = error
                        continue
                    if part.records and (found := self._decode(partition, part)) is not None:
                        records.append(found)
        if failure is not None and not records:
            raise failure
        return records

    def _request(self, partitions: list[Partition]) -> tuple[FetchRequest, int | None]:
        # Brokers fill the first partitions first, so rotate the order.
        turn = self._turn % len(partitions)
        topics: dict[str, FetchTopic] = {}
        for partition in partitions[turn:] + partitions[:turn]:
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = FetchTopic(
                    topic=partition.topic, topic_id=self._cluster.topic_id(partition.topic), partitions=[]
                )
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=self.positions[partition],
                    partition_max_bytes=self._partition_bytes,
                )
            )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=self._wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._fetch_bytes,
            isolation_level=self._isolation,
            session_id=0,
            session_epoch=-1,
            topics=list(topics.values()),
        )
        by_name = any(topic.topic_id == ZERO_UUID for topic in topics.values())
        return request, _LAST_WITH_NAMES if by_name else None

    def _decode(self, partition: Partition, part: PartitionData) -> RawRecords | None:
        """Return None if the data contains only transaction markers or aborted records."""
        position = self.positions[partition]
        aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()]
        columns, after = decode(
            part.records,
            start=position,
            end=_EVERYTHING,
            with_headers=True,
            aborted=aborted if self._isolation == READ_COMMITTED else None,
        )
        self.positions[partition] = after
        if not len(columns.values):
            return None
        headers = None
        if columns.headers is not None and columns.headers.null_count < len(columns.headers):
            headers = [
                [(each["key"], each["value"]) for each in found or ()]
                for found in columns.headers.to_pylist()
            ]
        return RawRecords(
            partition.topic,
            partition.partition,
            columns.offsets.to_numpy().tolist(),
            _listed(columns.keys),
            _listed(columns.values),
            headers,
            columns.timestamps.to_numpy().tolist(),
            columns.timestamp_types.to_numpy().tolist(),
        )

    # Committing

    def commit(self, positions: Mapping[Partition, int]) -> None:
        if positions:
            commit_offsets(self._cluster, self._group, positions)


def _check(number: int, what: str) -> None:
    code = error_code(number)
    if code != ErrorCode.NONE:
        raise ClientError(f"{what} cannot be read: {code.name}.", code)


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(settings.get(name, default))
    except ValueError:
        raise ConfigError(
            f"Invalid value {settings[name]} for configuration {name}: Not a number of type INT"
        ) from None


def _listed(column: pa.BinaryArray) -> list[bytes | None]:
    """Convert like `to_pylist`, but several times faster."""
    if column.null_count:
        return [None] * len(column) if column.null_count == len(column) else column.to_pylist()
    _, ends, data = column.buffers()
    if data is None:
        return [b""] * len(column)
    places = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1].tolist()
    content = data.to_pybytes()
    return [content[begin:end] for begin, end in pairwise(places)]
