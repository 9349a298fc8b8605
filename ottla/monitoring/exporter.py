"""The exporter: a snapshot for each Prometheus scrape, with the metric names of kafka_exporter."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple, TypeVar

from ottla import __version__
from ottla.client.admin.offsets import Partition
from ottla.client.cluster import Cluster, Node
from ottla.client.connection import Connection
from ottla.client.errors import ClientError
from ottla.client.offsets import EARLIEST, LATEST
from ottla.monitoring.lag_seconds import EndHistory
from ottla.monitoring.metrics.text import family, gauge, labels, process_metrics
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.protocol.messages.fetch import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

# A cluster at one moment: partitions, their offsets, and committed offsets of groups.
#
# A snapshot takes one metadata request and at most six requests per broker, regardless of the number of topics and
# groups. Groups are described, and their offsets fetched, in batches at the broker that lists them: their coordinator.
# Data of brokers that do not answer is omitted.

T = TypeVar("T")

_MANY_GROUPS = 8  # first version of OffsetFetch with several groups
_LAST_WITH_NAMES = 9
_CONSUMERS = ("classic", "consumer", "")
_TIMEOUT_MS = 30_000


class PartitionState(NamedTuple):
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass
class Group:
    name: str
    members: int = 0
    offsets: dict[Partition, int] = field(default_factory=dict)


@dataclass
class Snapshot:
    brokers: dict[int, Node] = field(default_factory=dict)
    partitions: dict[Partition, PartitionState] = field(default_factory=dict)
    starts: dict[Partition, int] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)  # failed requests, one sentence each

    def lag(self, group: Group, partition: Partition) -> int | None:
        """Return None without a leader. Never negative: a commit may be newer than the known end."""
        end = self.ends.get(partition)
        return None if end is None else max(0, end - group.offsets[partition])


@dataclass(frozen=True)
class Filter:
    """Names that match one pattern and not the other; both match anywhere in the name, as in kafka_exporter."""

    wanted: re.Pattern[str] = re.compile("")
    unwanted: re.Pattern[str] = re.compile("^$")

    def passes(self, name: str) -> bool:
        return bool(self.wanted.search(name)) and not self.unwanted.search(name)


def take_snapshot(
    cluster: Cluster, topics: Filter | None = None, groups: Filter | None = None, *, idle_groups: bool = True
) -> Snapshot:
    """Raises ClientError if no broker can be reached. `idle_groups` includes groups without members."""
    topics, groups = topics or Filter(), groups or Filter()
    snapshot = Snapshot()
    for topic in cluster.metadata(None).topics:
        if not topic.error_code and topic.name and topics.passes(topic.name):
            for each in topic.partitions:
                snapshot.partitions[topic.name, each.partition_index] = PartitionState(
                    each.leader_id, tuple(each.replica_nodes), tuple(each.isr_nodes)
                )
    snapshot.brokers = dict(cluster.nodes())
    # Committed offsets first, so that the end offsets fetched later are never behind.
    for node in snapshot.brokers.values():
        _or_note(snapshot, node, lambda node=node: _take_groups(cluster, node, snapshot, groups, topics))  # type: ignore[misc]
    if not idle_groups:
        snapshot.groups = {name: each for name, each in snapshot.groups.items() if each.members}
    for node in snapshot.brokers.values():
        led = [partition for partition, state in snapshot.partitions.items() if state.leader == node.id]
        if led:
            _or_note(snapshot, node, lambda node=node, led=led: _take_offsets(cluster, node, led, snapshot))  # type: ignore[misc]
    return snapshot


def _or_note(snapshot: Snapshot, node: Node, ask: Callable[[], T]) -> None:
    try:
        ask()
    except ClientError as error:
        snapshot.failures.append(f"Broker {node.id} did not answer: {error.message}")


def _take_offsets(cluster: Cluster, node: Node, led: list[Partition], snapshot: Snapshot) -> None:
    connection = cluster.connection(node.address)
    snapshot.ends |= _offsets(connection, led, LATEST)
    snapshot.starts |= _offsets(connection, led, EARLIEST)


def _offsets(connection: Connection, partitions: Iterable[Partition], moment: int) -> dict[Partition, int]:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=moment))
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in by_topic.items()],
        timeout_ms=_TIMEOUT_MS,
    )
    return {
        (topic.name, each.partition_index): each.offset
        for topic in connection.request(request, ListOffsetsResponse).topics
        for each in topic.partitions
        if not each.error_code
    }


def _take_groups(cluster: Cluster, node: Node, snapshot: Snapshot, wanted: Filter, topics: Filter) -> None:
    connection = cluster.connection(node.address)
    listed = [
        each
        for each in connection.request(ListGroupsRequest(), ListGroupsResponse).groups
        if each.protocol_type in ("consumer", "")
        and each.group_type.lower() in _CONSUMERS
        and wanted.passes(each.group_id)
    ]
    if not listed:
        return
    found = {each.group_id: Group(each.group_id) for each in listed}
    for name, members in _members(connection, listed):
        found[name].members = members
    for name, partition, offset in _committed(connection, list(found)):
        if offset >= 0 and topics.passes(partition[0]):
            found[name].offsets[partition] = offset
    snapshot.groups |= found


def _members(connection: Connection, listed: list[ListedGroup]) -> Iterable[tuple[str, int]]:
    modern = [each.group_id for each in listed if each.group_type.lower() == "consumer"]
    classic = [each.group_id for each in listed if each.group_type.lower() != "consumer"]
    if modern:
        answer = connection.request(
            ConsumerGroupDescribeRequest(group_ids=modern), ConsumerGroupDescribeResponse
        )
        yield from ((each.group_id, len(each.members)) for each in answer.groups if not each.error_code)
    if classic:
        described = connection.request(DescribeGroupsRequest(groups=classic), DescribeGroupsResponse)
        yield from ((each.group_id, len(each.members)) for each in described.groups if not each.error_code)


def _committed(connection: Connection, groups: list[str]) -> Iterable[tuple[str, Partition, int]]:
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    )
    if connection.version(request) >= _MANY_GROUPS:
        answer = connection.request(request, OffsetFetchResponse, max_version=_LAST_WITH_NAMES)
        for group in answer.groups:
            for topic in group.topics:
                for each in topic.partitions:
                    yield group.group_id, (topic.name, each.partition_index), each.committed_offset
        return
    for name in groups:  # brokers before Kafka 3.0
        alone = connection.request(OffsetFetchRequest(group_id=name, topics=None), OffsetFetchResponse)
        for old in alone.topics:
            for one in old.partitions:
                yield name, (old.name, one.partition_index), one.committed_offset


# Render a snapshot with the metric names of kafka_exporter, which lag dashboards and alerts use.


def exporter_lines(snapshot: Snapshot) -> Iterator[str]:
    yield gauge("kafka_brokers", "Brokers of the cluster.", len(snapshot.brokers))
    yield from family(
        "kafka_broker_info",
        "gauge",
        "Where a broker is.",
        ((labels(address=f"{node.host}:{node.port}", id=node.id), 1) for node in snapshot.brokers.values()),
    )
    yield from _topic_lines(snapshot)
    yield from _group_lines(snapshot)
    yield gauge("ottla_exporter_failures", "Brokers that did not answer.", len(snapshot.failures))


def _topic_lines(snapshot: Snapshot) -> Iterator[str]:
    partitions = sorted(snapshot.partitions.items())
    counts: dict[str, int] = {}
    for (topic, _), _ in partitions:
        counts[topic] = counts.get(topic, 0) + 1
    yield from family(
        "kafka_topic_partitions",
        "gauge",
        "Partitions of a topic.",
        ((labels(topic=topic), count) for topic, count in counts.items()),
    )
    offsets = (
        ("current", "Log end offset.", snapshot.ends),
        ("oldest", "Log start offset.", snapshot.starts),
    )
    for name, about, found in offsets:
        yield from family(
            f"kafka_topic_partition_{name}_offset",
            "gauge",
            about,
            ((_partition(each), offset) for each, offset in sorted(found.items()) if offset >= 0),
        )
    states: dict[str, tuple[str, Callable[[PartitionState], int]]] = {
        "replicas": ("Replicas.", lambda each: len(each.replicas)),
        "in_sync_replica": ("Replicas in sync.", lambda each: len(each.isr)),
        "leader": ("The broker that leads; -1 is none.", lambda each: each.leader),
        "leader_is_preferred": (
            "1 if the first replica leads.",
            lambda each: int(bool(each.replicas) and each.leader == each.replicas[0]),
        ),
        "under_replicated_partition": (
            "1 if a replica is not in sync.",
            lambda each: int(len(each.isr) < len(each.replicas)),
        ),
    }
    for name, (about, value) in states.items():
        yield from family(
            f"kafka_topic_partition_{name}",
            "gauge",
            about,
            ((_partition(each), value(state)) for each, state in partitions),
        )


def _group_lines(snapshot: Snapshot) -> Iterator[str]:
    groups = [snapshot.groups[name] for name in sorted(snapshot.groups)]
    yield from family(
        "kafka_consumergroup_members",
        "gauge",
        "Members of a group.",
        ((labels(consumergroup=group.name), group.members) for group in groups),
    )
    # A deleted topic has no lag.
    known = [
        (group, partition)
        for group in groups
        for partition in sorted(group.offsets)
        if partition in snapshot.partitions
    ]
    lags = {(group.name, partition): snapshot.lag(group, partition) for group, partition in known}
    yield from family(
        "kafka_consumergroup_current_offset",
        "gauge",
        "Committed offset of a group.",
        ((_of_group(group, each), group.offsets[each]) for group, each in known),
    )
    yield from family(
        "kafka_consumergroup_lag",
        "gauge",
        "Messages that a group has yet to read.",
        (
            (_of_group(group, each), lag)
            for group, each in known
            if (lag := lags[group.name, each]) is not None
        ),
    )
    sums: dict[tuple[str, str], list[int]] = {}
    for group, partition in known:
        total = sums.setdefault((group.name, partition[0]), [0, 0])
        total[0] += group.offsets[partition]
        total[1] += lags[group.name, partition] or 0
    of_topics = (("current_offset_sum", "Offsets", 0), ("lag_sum", "Lag", 1))
    for name, about, place in of_topics:
        yield from family(
            f"kafka_consumergroup_{name}",
            "gauge",
            f"{about} of a group, of all partitions of a topic.",
            (
                (labels(consumergroup=group, topic=topic), each[place])
                for (group, topic), each in sums.items()
            ),
        )


def _second_lines(snapshot: Snapshot, history: EndHistory, now: float) -> Iterator[str]:
    """Lag in seconds, under kafka-lag-exporter's names."""
    found: list[tuple[str, Partition, float]] = []
    for name in sorted(snapshot.groups):
        for partition, offset in sorted(snapshot.groups[name].offsets.items()):
            seconds = history.seconds(now, partition, offset) if partition in snapshot.ends else None
            if seconds is not None:
                found.append((name, partition, seconds))
    yield from family(
        "kafka_consumergroup_group_lag_seconds", "gauge", "Estimated age of the next message of a group.",
        ((labels(group=name, partition=partition[1], topic=partition[0]), seconds)
         for name, partition, seconds in found),
    )  # fmt: skip
    largest: dict[str, float] = {}
    for name, _, seconds in found:
        largest[name] = max(seconds, largest.get(name, 0.0))
    yield from family(
        "kafka_consumergroup_group_max_lag_seconds", "gauge", "The largest of them.",
        ((labels(group=name), seconds) for name, seconds in largest.items()),
    )  # fmt: skip


def _partition(partition: Partition) -> str:
    return labels(partition=partition[1], topic=partition[0])


def _of_group(group: Group, partition: Partition) -> str:
    return labels(consumergroup=group.name, partition=partition[1], topic=partition[0])


# Take a snapshot for each Prometheus scrape, and render it.

logger = logging.getLogger("ottla.monitoring.exporter")


class Exporter:
    """Renders snapshots. Concurrent scrapes share one snapshot."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        topics: Filter | None = None,
        groups: Filter | None = None,
        idle_groups: bool = True,
        more: Callable[[], list[str]] | None = None,
    ) -> None:
        """`more` produces additional lines for each scrape."""
        self._cluster = cluster
        self._topics = topics
        self._groups = groups
        self._idle_groups = idle_groups
        self._more = more
        self._history = EndHistory()
        self._lock = Lock()
        self._text = ""
        self._taken = 0.0  # start of the last snapshot

    def render(self) -> str:
        asked = time.monotonic()
        with self._lock:
            if self._taken < asked:
                self._taken = time.monotonic()
                self._text = self._collect()
            return self._text

    def _collect(self) -> str:
        began = time.monotonic()
        try:
            snapshot = take_snapshot(self._cluster, self._topics, self._groups, idle_groups=self._idle_groups)
        except ClientError as error:
            logger.warning("%s", error.message)
            lines, up = [], 0
        else:
            for failure in snapshot.failures:
                logger.warning("%s", failure)
            now = time.monotonic()
            self._history.add(now, snapshot.ends)
            lines, up = [*exporter_lines(snapshot), *_second_lines(snapshot, self._history, now)], 1
        about = labels(version=__version__, revision="", branch="", goversion="")
        lines.append(gauge("kafka_exporter_build_info", "The version of the exporter.", 1, about))
        lines.append(gauge("ottla_exporter_up", "1 if the cluster could be asked.", up))
        seconds = time.monotonic() - began
        lines.append(gauge("ottla_exporter_seconds", "How long it took to ask.", seconds))
        more = [] if self._more is None else self._more()
        return "".join([*lines, *more, *process_metrics()])
