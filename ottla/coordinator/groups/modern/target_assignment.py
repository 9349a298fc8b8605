"""The target assignment of a group (KIP-848): computed anew when members, subscriptions or topics change.

`assignors` decides who gets which partition. `reconciliation` moves members towards their targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

from ottla.coordinator.groups.base.topics import Assignment, Topic, Topics
from ottla.coordinator.groups.modern.assignors import Assignor, Subscriber
from ottla.coordinator.groups.modern.consumer_state import NOTHING, ConsumerMember, ConsumerState


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
