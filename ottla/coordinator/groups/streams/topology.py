"""The topology of a Kafka Streams application, and its requirements on topics.

A topology is a set of subtopologies. Each subtopology reads source topics, created by the user, and repartition topics,
written by other subtopologies. It keeps its state in changelog topics. The broker creates repartition and changelog
topics. A subtopology has one task per partition of its largest input topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from typing import NamedTuple, NoReturn

from ottla.coordinator.groups.base.base_group import Topics
from ottla.metadata.nodes import validate_topic_name
from ottla.protocol.errors import ErrorCode, KafkaError


class StatusCode(IntEnum):
    """Status of the group in a heartbeat response, in addition to the member's tasks."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    code: StatusCode
    detail: str


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic requested by the application; a count of 0 lets the broker decide."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Topics that must have equal partition counts, as indexes into the subtopology's topic lists."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    changelog_topics: tuple[InternalTopic, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelog_topics)

    def reads(self) -> Iterator[str]:
        return chain(self.source_topics, (topic.name for topic in self.repartition_source_topics))

    def copartitioned(self) -> Iterator[tuple[list[str], list[str]]]:
        for group in self.copartition_groups:
            yield (
                [self.source_topics[index] for index in group.source_topics],
                [self.repartition_source_topics[index].name for index in group.repartition_source_topics],
            )


@dataclass(frozen=True, slots=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    def source_topics(self) -> set[str]:
        return {name for sub in self.subtopologies for name in sub.source_topics}

    def repartition_topics(self) -> dict[str, InternalTopic]:
        return {topic.name: topic for sub in self.subtopologies for topic in sub.repartition_source_topics}

    def topics(self) -> set[str]:
        changelogs = (topic.name for sub in self.subtopologies for topic in sub.changelog_topics)
        return {*self.source_topics(), *self.repartition_topics(), *changelogs}


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology resolved against the existing topics: either a problem, or the task counts."""

    topology: Topology
    problem: Status | None = None
    # By name, with all counts resolved.
    internal_topics: Mapping[str, InternalTopic] = field(default_factory=dict)
    to_create: tuple[InternalTopic, ...] = ()
    # Partition counts of the topics read by subtopologies.
    partitions: Mapping[str, int] = field(default_factory=dict)
    task_counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Problem(Exception):
    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


_MISMATCH = StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def validate(topology: Topology) -> None:
    """Raise KafkaError for a topology that is invalid regardless of the existing topics."""
    ids = [sub.subtopology_id for sub in topology.subtopologies]
    if len(set(ids)) < len(ids):
        _invalid("Subtopology ids must be unique.")
    if any(sub.source_topic_regex for sub in topology.subtopologies):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet."
        )
    bad = sorted(name for name in topology.topics() if not _is_valid_name(name))
    if bad:
        _invalid(f"Topic names {', '.join(bad)} are not valid topic names.")
    for sub in topology.subtopologies:
        if next(sub.reads(), None) is None:
            _invalid(f"No source topics found for subtopology {sub.subtopology_id}")
        for group in sub.copartition_groups:
            if not _within(group.source_topics, sub.source_topics) or not _within(
                group.repartition_source_topics, sub.repartition_source_topics
            ):
                _invalid(f"A copartition group of subtopology {sub.subtopology_id} names no topic of it.")
    # The actual source counts do not matter here: check only that they determine the repartition counts.
    _repartition_counts(topology, dict.fromkeys(topology.source_topics(), 1))


def configure(topology: Topology, topics: Topics) -> ConfiguredTopology:
    sources: dict[str, int] = {}
    missing = []
    for name in sorted(topology.source_topics()):
        topic = topics.by_name(name)
        if topic is None:
            missing.append(name)
        else:
            sources[name] = topic.partitions
    if missing:
        detail = f"Source topics {', '.join(missing)} are missing."
        return ConfiguredTopology(topology, Status(StatusCode.MISSING_SOURCE_TOPICS, detail))
    try:
        partitions = _repartition_counts(topology, sources)
        for sub in topology.subtopologies:
            _enforce_copartitioning(topology, sub, partitions)
        counts = {
            sub.subtopology_id: max(partitions[name] for name in sub.reads())
            for sub in topology.subtopologies
        }
        internal = _internal_topics(topology, partitions, counts)
        to_create = _missing_or_wrong(internal, topics)
    except _Problem as problem:
        return ConfiguredTopology(topology, problem.status)
    missing_topics = None
    if to_create:
        names = ", ".join(topic.name for topic in to_create)
        missing_topics = Status(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology, missing_topics, internal, to_create, partitions, counts)


# Internals


def _repartition_counts(topology: Topology, sources: Mapping[str, int]) -> dict[str, int]:
    """Return the partition counts of all topics read.

    Unless the application sets a count, a repartition topic gets the largest input partition count of the subtopologies
    that write it.
    """
    repartition = topology.repartition_topics()
    sink_topics = {name for sub in topology.subtopologies for name in sub.repartition_sink_topics}
    if any(not topic.partitions and name not in sink_topics for name, topic in repartition.items()):
        _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
            "is never used as a sink topic."
        )
    counts = {
        **sources,
        **{name: topic.partitions for name, topic in repartition.items() if topic.partitions},
    }
    pending = set(repartition) - counts.keys()
    while pending:
        found = {}
        for name in pending:
            writers = [sub for sub in topology.subtopologies if name in sub.repartition_sink_topics]
            read = {one for sub in writers for one in sub.reads()}
            if read <= counts.keys():
                found[name] = max(counts[one] for one in read)
        if not found:
            _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
        counts.update(found)
        pending -= found.keys()
    return counts


def _enforce_copartitioning(topology: Topology, sub: Subtopology, partitions: dict[str, int]) -> None:
    """Give repartition topics the count of their copartitioned source topics. Fixed counts have to agree."""
    fixed = {name: topic.partitions for name, topic in topology.repartition_topics().items()}
    for sources, repartitions in sub.copartitioned():
        if sources:
            wanted = _same({name: partitions[name] for name in sources})
            for name in repartitions:
                if fixed[name] and fixed[name] != wanted:
                    raise _Problem(
                        _MISMATCH,
                        f"Number of partitions [{fixed[name]}] of repartition topic [{name}] doesn't match number of "
                        f"partitions [{wanted}] of the source topic.",
                    )
        elif any(fixed[name] for name in repartitions):
            wanted = _same({name: fixed[name] for name in repartitions if fixed[name]})
        elif repartitions:
            wanted = max(partitions[name] for name in repartitions)
        for name in repartitions:
            partitions[name] = wanted


def _same(counts: Mapping[str, int]) -> int:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(counts.items()))
        raise _Problem(
            _MISMATCH, f"Following topics do not have the same number of partitions: [{{{listed}}}]"
        )
    return next(iter(counts.values()))


def _internal_topics(
    topology: Topology, partitions: Mapping[str, int], task_counts: Mapping[str, int]
) -> dict[str, InternalTopic]:
    sources = topology.source_topics()
    internal = {
        name: _with_partitions(topic, partitions[name])
        for name, topic in topology.repartition_topics().items()
    }
    for sub in topology.subtopologies:
        for topic in sub.changelog_topics:
            # A source topic can serve as the changelog of a table read from it.
            if topic.name not in sources and topic.name not in internal:
                internal[topic.name] = _with_partitions(topic, task_counts[sub.subtopology_id])
    return dict(sorted(internal.items()))


def _with_partitions(topic: InternalTopic, partitions: int) -> InternalTopic:
    return InternalTopic(topic.name, partitions, topic.replication_factor, topic.configs)


def _missing_or_wrong(internal: Mapping[str, InternalTopic], topics: Topics) -> tuple[InternalTopic, ...]:
    missing = []
    for name, wanted in internal.items():
        there = topics.by_name(name)
        if there is None:
            missing.append(wanted)
        elif there.partitions != wanted.partitions:
            raise _Problem(
                _MISMATCH,
                f"Existing topic {name} has different number of partitions: expected {wanted.partitions}, "
                f"found {there.partitions}",
            )
    return tuple(missing)


def _invalid(reason: str) -> NoReturn:
    raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)


def _is_valid_name(name: str) -> bool:
    try:
        validate_topic_name(name)
    except KafkaError:
        return False
    return True


def _within(indexes: Iterable[int], topics: tuple[object, ...]) -> bool:
    return all(0 <= index < len(topics) for index in indexes)
