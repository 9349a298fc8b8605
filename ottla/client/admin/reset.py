"""Reset a group's offsets: plan first, then execute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ottla.client.admin.groups import committed_offsets, describe_group
from ottla.client.admin.offsets import Partition, earliest_offsets, latest_offsets, offsets_by_time
from ottla.client.admin.topics import partitions_of
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, GroupNotEmpty, GroupNotFound
from ottla.client.offsets import commit_offsets
from ottla.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a reset: `value` is an offset, a distance or a timestamp in milliseconds, depending on the kind."""

    kind: Literal["earliest", "latest", "offset", "shift", "timestamp", "current"]
    value: int = 0


@dataclass(frozen=True, slots=True)
class OffsetChange:
    group: str
    topic: str
    partition: int
    current_offset: int | None
    new_offset: int
    # Requested offset, if it was outside the partition and clamped.
    clamped_from: int | None = None
    # True if the partition has no records since the requested time, so the target is its end.
    nothing_since: bool = False


def clamp(wanted: int, start: int, end: int) -> int:
    return max(start, min(wanted, end))


def parse_topic_selection(text: str) -> tuple[str, list[int] | None]:
    """Parse `orders` or `orders:0,2` (partitions)."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise ClientError(f"'{text}' does not name partitions: write TOPIC:0,1,2.") from None


def select_partitions(cluster: Cluster, selections: Sequence[str]) -> list[Partition]:
    chosen: list[Partition] = []
    for selection in selections:
        topic, numbers = parse_topic_selection(selection)
        there = partitions_of(cluster, [topic])
        for number in numbers or []:
            if (topic, number) not in there:
                raise ClientError(
                    f"Topic '{topic}' has no partition {number}.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
        chosen += there if numbers is None else [(topic, number) for number in numbers]
    return sorted(set(chosen))


def plan_reset(
    cluster: Cluster, group: str, target: Target, *, topics: Sequence[str] = (), all_topics: bool = False
) -> list[OffsetChange]:
    """Plan a reset. The group must have no members; it need not exist if topics are named."""
    committed = _committed_by_idle(cluster, group, must_exist=all_topics)
    partitions = sorted(committed) if all_topics else select_partitions(cluster, topics)
    if not partitions:
        raise ClientError(f"Consumer group '{group}' has no committed offsets: name topics with --topic.")
    starts = earliest_offsets(cluster, partitions)
    ends = latest_offsets(cluster, partitions)
    at = offsets_by_time(cluster, partitions, max(target.value, 0)) if target.kind == "timestamp" else {}
    wanted: dict[Partition, int] = {}
    for partition in partitions:
        current = committed.get(partition)
        if target.kind == "earliest":
            wanted[partition] = starts[partition]
        elif target.kind == "latest":
            wanted[partition] = ends[partition]
        elif target.kind == "timestamp":
            wanted[partition] = at[partition] if at[partition] >= 0 else ends[partition]
        elif target.kind == "offset":
            wanted[partition] = target.value
        elif target.kind == "current":
            wanted[partition] = ends[partition] if current is None else current
        elif current is None:
            raise ClientError(
                f"Cannot shift partition {partition[1]} of topic '{partition[0]}': "
                f"group '{group}' has not committed an offset there."
            )
        else:
            wanted[partition] = current + target.value
    changes = _changes(group, wanted, committed, starts, ends)
    return [replace(c, nothing_since=at.get((c.topic, c.partition), 0) < 0) for c in changes]


def plan_offsets(cluster: Cluster, group: str, wanted: Mapping[Partition, int]) -> list[OffsetChange]:
    committed = _committed_by_idle(cluster, group)
    partitions = sorted(wanted)
    there = set(partitions_of(cluster, [topic for topic, _ in partitions]))
    for topic, number in partitions:
        if (topic, number) not in there:
            raise ClientError(
                f"Topic '{topic}' has no partition {number}.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
    starts, ends = earliest_offsets(cluster, partitions), latest_offsets(cluster, partitions)
    return _changes(group, {key: wanted[key] for key in partitions}, committed, starts, ends)


def _committed_by_idle(cluster: Cluster, group: str, *, must_exist: bool = False) -> dict[Partition, int]:
    """Return the group's committed offsets. Raises GroupNotEmpty while it has members."""
    try:
        described = describe_group(cluster, group)
    except GroupNotFound:
        if must_exist:
            raise
        return {}
    if described.active:
        raise GroupNotEmpty(group, described.state)
    return committed_offsets(cluster, group)


def _changes(
    group: str,
    wanted: Mapping[Partition, int],
    committed: Mapping[Partition, int],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> list[OffsetChange]:
    changes = []
    for key, offset in wanted.items():
        new = clamp(offset, starts[key], ends[key])
        clamped_from = offset if new != offset else None
        changes.append(OffsetChange(group, key[0], key[1], committed.get(key), new, clamped_from))
    return changes


def execute_reset(cluster: Cluster, changes: Iterable[OffsetChange]) -> None:
    planned = list(changes)
    wanted = {TopicPartition(change.topic, change.partition): change.new_offset for change in planned}
    commit_offsets(cluster, planned[0].group, wanted)
