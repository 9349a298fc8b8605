"""Who leads what: raw Metadata, CreateTopics and DescribeQuorum requests, to whichever broker answers.

Raw for the same reason as in ``wire.py``, and for one more: librdkafka remembers for minutes that a topic had no
leader.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from bench.measuring import wire

METADATA, CREATE_TOPICS, DESCRIBE_QUORUM = 3, 19, 55
TOPIC_ALREADY_EXISTS = 36

T = TypeVar("T")


class PartitionView(NamedTuple):
    leader: int
    isr: tuple[int, ...]


class ClusterView(NamedTuple):
    """The cluster as one of its brokers describes it, with the partitions of one topic."""

    brokers: dict[int, tuple[str, int]]
    controller: int
    partitions: dict[int, PartitionView]


class Reader:
    """Reads the fields of a flexible response one after another."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def unpack(self, layout: str) -> tuple[int, ...]:
        fields = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return fields

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str:
        """A compact string; an empty one for null."""
        size = max(0, self.uvarint() - 1)
        self.position += size
        return self.data[self.position - size : self.position].decode()

    def array(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(max(0, self.uvarint() - 1))]

    def int32(self) -> int:
        return self.unpack(">i")[0]

    def tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.position += self.uvarint()


def ask(addresses: Sequence[tuple[str, int]], request: bytes, *, timeout: float = 30) -> bytes:
    """The response of the first broker that gives one."""
    failure: OSError | None = None
    for host, port in addresses:
        try:
            with wire.connect(host, port, timeout=timeout) as connection:
                connection.sendall(request)
                return wire.read_response(connection)
        except OSError as error:
            failure = error
    raise failure or ConnectionError("there is nobody to ask")


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    pairs = (address.rsplit(":", 1) for address in bootstrap.split(","))
    return [(host, int(port)) for host, port in pairs]


def describe(bootstrap: str, topic: str | None = None) -> ClusterView:
    """Metadata v9, of this topic or of none; a topic that is not known has no partitions."""
    topics = b"\x01" if topic is None else b"\x02" + wire.compact(topic.encode()) + b"\0"
    request = wire.frame(METADATA, 9, 0, topics + b"\0\0\0\0", flexible=True)
    return read_metadata(ask(addresses(bootstrap), request))


def read_metadata(response: bytes) -> ClusterView:
    reader = Reader(response, 4 + 1 + 4)  # correlation id, header tags, throttle time
    brokers: dict[int, tuple[str, int]] = {}
    partitions: dict[int, PartitionView] = {}

    def broker() -> None:
        broker_id = reader.int32()
        host, port = reader.text(), reader.int32()
        reader.text()  # rack
        reader.tags()
        brokers[broker_id] = (host, port)

    def partition() -> None:
        _, index, leader, _ = reader.unpack(">hiii")
        reader.array(reader.int32)  # replicas
        isr = tuple(reader.array(reader.int32))
        reader.array(reader.int32)  # offline replicas
        reader.tags()
        partitions[index] = PartitionView(leader, isr)

    def topic() -> None:
        reader.unpack(">h")
        reader.text()
        reader.unpack(">b")
        reader.array(partition)
        reader.int32()  # authorized operations
        reader.tags()

    reader.array(broker)
    reader.text()  # cluster id
    controller = reader.int32()
    reader.array(topic)
    return ClusterView(brokers, controller, partitions)


def quorum_leader(bootstrap: str) -> int:
    """The active controller of a KRaft cluster: its Metadata names any broker at all."""
    topics = b"\x02" + wire.compact(b"__cluster_metadata") + b"\x02" + struct.pack(">i", 0) + b"\0\0"
    response = ask(addresses(bootstrap), wire.frame(DESCRIBE_QUORUM, 0, 0, topics + b"\0", flexible=True))
    reader = Reader(response, 4 + 1)
    (error,) = reader.unpack(">h")
    if error:
        raise RuntimeError(f"DescribeQuorum was answered with error {error}")
    reader.uvarint()
    reader.text()
    reader.uvarint()
    _, _, leader = reader.unpack(">ihi")
    return leader


def create_on(address: tuple[str, int], topic: str, assignment: Sequence[Sequence[int]]) -> int:
    """CreateTopics v5 with replicas chosen here, asked of this broker; the error code."""
    placed = b"".join(
        struct.pack(">i", index)
        + wire.uvarint(len(replicas) + 1)
        + struct.pack(f">{len(replicas)}i", *replicas)
        + b"\0"
        for index, replicas in enumerate(assignment)
    )
    wanted = wire.compact(topic.encode()) + struct.pack(">ih", -1, -1)
    wanted += wire.uvarint(len(assignment) + 1) + placed + b"\x01" + b"\0"
    body = b"\x02" + wanted + struct.pack(">ib", 30_000, 0) + b"\0"
    reader = Reader(ask([address], wire.frame(CREATE_TOPICS, 5, 0, body, flexible=True), timeout=60), 4 + 1)
    reader.int32()
    reader.uvarint()
    reader.text()
    return reader.unpack(">h")[0]


def wait_until_served(bootstrap: str, topic: str, partitions: int, *, timeout: float = 120) -> None:
    """Return when every partition has a leader that answers ListOffsets for it without error."""
    deadline = time.monotonic() + timeout
    while True:
        missing = unserved(bootstrap, topic, partitions)
        if not missing:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{missing} of {partitions} partitions of {topic} have no leader")
        time.sleep(0.005)


def unserved(bootstrap: str, topic: str, partitions: int) -> int:
    """How many partitions lack a leader that answers."""
    view = describe(bootstrap, topic)
    led: dict[int, list[int]] = {}
    for index, partition in view.partitions.items():
        if partition.leader in view.brokers:
            led.setdefault(partition.leader, []).append(index)
    missing = partitions - sum(map(len, led.values()))
    if missing:
        return missing
    for leader, indexes in led.items():
        try:
            response = ask([view.brokers[leader]], wire.list_offsets_frame(topic, indexes))
        except OSError:
            missing += len(indexes)
        else:
            missing += sum(1 for error in wire.list_offsets_errors(response, topic, len(indexes)) if error)
    return missing


def leader_port(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Where a raw client has to send what it writes to this partition."""
    view = describe(bootstrap, topic)
    return view.brokers[view.partitions[partition].leader][1]
