"""Target assignment (KIP-848): the assignors, and the assignment of a whole group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from ottla.coordinator.groups.base.base_group import Assignment, Topic, Topics
from ottla.coordinator.groups.modern.consumer_state import NOTHING, ConsumerMember, ConsumerState

# Server-side assignors for consumer and share groups.
#
# `uniform` spreads all partitions as evenly as the subscriptions allow and moves as few as possible. `range` gives each
# member adjacent partitions of every topic, and the same numbers in topics of equal size. Both ignore racks.


class Subscriber(NamedTuple):
    """Assignor's view of a member: subscribed topic ids and the previous target assignment."""

    topics: frozenset[bytes]
    target: Assignment
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], dict[str, Assignment]]


def assign_uniform(
    members: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
) -> dict[str, Assignment]:
    subscribers = _subscribers(members, partition_counts)
    owned: dict[str, set[tuple[bytes, int]]] = {member_id: set() for member_id in members}
    taken: set[tuple[bytes, int]] = set()
    for member_id, member in members.items():
        for topic_id, partitions in member.target.items():
            if topic_id in member.topics:
                for partition in partitions:
                    one = (topic_id, partition)
                    if partition < partition_counts.get(topic_id, 0) and one not in taken:
                        taken.add(one)
                        owned[member_id].add(one)
    _shed(owned, members, partition_counts, taken)
    # Start with the topics that have the fewest subscribers, since nobody else can take their partitions.
    for topic_id in sorted(subscribers, key=lambda t: (len(subscribers[t]), t)):
        candidates = subscribers[topic_id]
        for partition in range(partition_counts[topic_id]):
            if (topic_id, partition) not in taken:
                least = min(candidates, key=lambda member_id: len(owned[member_id]))
                owned[least].add((topic_id, partition))
    if len({member.topics for member in members.values()}) > 1:
        _level(owned, subscribers)
    return {member_id: _by_topic(partitions) for member_id, partitions in owned.items()}


def assign_range(
    members: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
) -> dict[str, Assignment]:
    assignment: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, subscribers in _subscribers(members, partition_counts).items():
        # Static members come first, sorted by instance id, so that restarts move nothing.
        ordered = sorted(
            subscribers, key=lambda m: (members[m].instance_id is None, members[m].instance_id or m)
        )
        size, more = divmod(partition_counts[topic_id], len(ordered))
        start = 0
        for position, member_id in enumerate(ordered):
            end = start + size + (position < more)
            if end > start:
                assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assignment)


def assign_simple(
    members: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
) -> dict[str, Assignment]:
    """Assign partitions of a share group evenly. With more members than partitions, several members share a partition,
    so every subscriber gets at least one.
    """
    assignment = {m: dict(found) for m, found in assign_uniform(members, partition_counts).items()}
    sharing: dict[tuple[bytes, int], int] = {}
    for found in assignment.values():
        for topic_id, partitions in found.items():
            for partition in partitions:
                sharing[topic_id, partition] = 1
    for member_id in sorted(members):
        if assignment[member_id]:
            continue
        member = members[member_id]
        choices = [(t, p) for t in sorted(member.topics) for p in range(partition_counts.get(t, 0))]
        if choices:
            # Prefer the partition with the fewest members, then a partition from the previous target.
            had = member.target
            topic_id, partition = min(
                choices, key=lambda c: (sharing.get(c, 0), c[1] not in had.get(c[0], ()))
            )
            assignment[member_id] = {topic_id: frozenset((partition,))}
            sharing[topic_id, partition] = sharing.get((topic_id, partition), 0) + 1
    return dict(assignment)


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def _subscribers(
    members: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
) -> dict[bytes, list[str]]:
    subscribers: dict[bytes, list[str]] = defaultdict(list)
    for member_id in sorted(members):
        for topic_id in members[member_id].topics:
            if partition_counts.get(topic_id, 0):
                subscribers[topic_id].append(member_id)
    return subscribers


def _shed(
    owned: dict[str, set[tuple[bytes, int]]],
    members: Mapping[str, Subscriber],
    partition_counts: Mapping[bytes, int],
    taken: set[tuple[bytes, int]],
) -> None:
    """If all members subscribe to the same topics, reduce each member to an even share."""
    if len({member.topics for member in members.values()}) != 1:
        return
    topics = next(iter(members.values())).topics
    share, more = divmod(sum(partition_counts.get(topic_id, 0) for topic_id in topics), len(members))
    # The largest owners keep the odd partitions; that moves the fewest.
    for member_id in sorted(owned, key=lambda m: (-len(owned[m]), m)):
        allowed = share
        if more and len(owned[member_id]) > share:
            allowed += 1
            more -= 1
        for one in sorted(owned[member_id])[allowed:]:
            owned[member_id].discard(one)
            taken.discard(one)


def _level(owned: dict[str, set[tuple[bytes, int]]], subscribers: Mapping[bytes, list[str]]) -> None:
    """Move single partitions from members with more to members with fewer until nothing improves.

    Each move brings two members closer together, so the loop terminates.
    """
    moved = True
    while moved:
        moved = False
        for giver in sorted(owned, key=lambda m: -len(owned[m])):
            for topic_id, partition in sorted(owned[giver], reverse=True):
                taker = min(subscribers[topic_id], key=lambda m: len(owned[m]))
                if len(owned[giver]) > len(owned[taker]) + 1:
                    owned[giver].discard((topic_id, partition))
                    owned[taker].add((topic_id, partition))
                    moved = True


def _by_topic(partitions: set[tuple[bytes, int]]) -> dict[bytes, frozenset[int]]:
    by_topic: dict[bytes, set[int]] = defaultdict(set)
    for topic_id, partition in partitions:
        by_topic[topic_id].add(partition)
    return {topic_id: frozenset(found) for topic_id, found in by_topic.items()}


# The target assignment of a group (KIP-848): computed anew when members, subscriptions or topics change.
#
# `assignors` decides who gets which partition. `reconciliation` moves members towards their targets.


def metadata_hash(topics: Iterable[Topic]) -> int:
    """Return a hash of the subscribed topics, 0 for none. A changed hash triggers a new assignment.

    It differs from Kafka's: after a takeover from Kafka each group rebalances once.
    """
    digest = blake2b(digest_size=8)
    empty = True
    for topic in sorted(topics):
        empty = False
        digest.update(topic.topic_id + topic.partitions.to_bytes(4, "big") + topic.name.encode() + b"\0")
    return 0 if empty else int.from_bytes(digest.digest(), "big", signed=True)


def compute_target_assignment(
    state: ConsumerState,
    topics: Topics,
    subscribed_topics: Callable[[ConsumerMember], Iterable[str]],
    assign: Assignor,
) -> Mapping[str, Assignment]:
    """Return the new targets of all members. Members without a known topic get an empty target."""
    counts: dict[bytes, int] = {}
    subscribers: dict[str, Subscriber] = {}
    for member_id, member in state.members.items():
        ids = set()
        for name in subscribed_topics(member):
            topic = topics.by_name(name)
            if topic is not None:
                ids.add(topic.topic_id)
                counts[topic.topic_id] = topic.partitions
        target = state.targets.get(member_id, NOTHING)
        subscribers[member_id] = Subscriber(frozenset(ids), target, member.instance_id)
    return assign(subscribers, counts)
