"""Reconciliation of a member with its target assignment, and subscriptions by regular expression."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.coordinator.groups.base.base_group import Assignment
from ottla.coordinator.groups.modern.consumer_state import (
    ConsumerMember,
    MemberState,
    PartitionEpochs,
    overlap,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.regular_expressions import RegexError, matcher

# Reconciliation of one member from its current assignment to its target assignment.
#
# A member first revokes partitions outside its target and stays in its epoch until it confirms the revocation. It then
# moves to the target epoch with every partition that no other member holds. The remaining partitions follow as other
# members release them, so two members never hold the same partition.

_NONE: frozenset[int] = frozenset()


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    is_free: Callable[[bytes, int], bool],
    owned: Assignment | None,
) -> ConsumerMember:
    """Return the member after one step. `owned` lists the partitions that the member reports, None if omitted."""
    if member.state is MemberState.STABLE:
        if member.epoch == target_epoch:
            return member
        return _step(member, member.epoch, target_epoch, target, is_free, owned)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_owns(owned, member.revoking):
            return member
        return _step(member, member.epoch + 1, target_epoch, target, is_free, owned)
    return _step(member, member.epoch, target_epoch, target, is_free, owned)


def _step(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Assignment,
    is_free: Callable[[bytes, int], bool],
    owned: Assignment | None,
) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    added: dict[bytes, dict[int, int]] = {}
    unreleased = False
    for topic_id, held in member.assigned.items():
        wanted = target.get(topic_id, _NONE)
        for partition, since in held.items():
            into = kept if partition in wanted else revoked
            into.setdefault(topic_id, {})[partition] = since
    for topic_id, wanted in target.items():
        held = member.assigned.get(topic_id, {})
        for partition in wanted:
            if partition in held:
                continue
            if is_free(topic_id, partition):
                added.setdefault(topic_id, {})[partition] = target_epoch
            else:
                unreleased = True
    if revoked and _still_owns(owned, revoked):
        return member.at(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    for topic_id, partitions in added.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **partitions}
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.at(target_epoch, state, kept)


def _still_owns(owned: Assignment | None, revoked: PartitionEpochs) -> bool:
    return owned is None or overlap(revoked, owned)


# Subscription patterns, matched against whole topic names.


class TopicRegex:
    """A subscription pattern. Raises KafkaError(INVALID_REGULAR_EXPRESSION) for an invalid pattern."""

    def __init__(self, pattern: str) -> None:
        try:
            self.matches = matcher(pattern)
        except RegexError as error:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
            ) from None

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(filter(self.matches, names))
