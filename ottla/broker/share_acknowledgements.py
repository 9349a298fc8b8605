"""What ShareFetch and ShareAcknowledge have in common: members say what came of the records they were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.share_sessions import SharedPartition
from ottla.coordinator.share_partition import Acknowledgement, check_acknowledgements
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class _Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def named(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    if not group_id or not member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return group_id, member_id


def acknowledge(
    broker: Broker,
    group_id: str,
    member_id: str,
    partition: SharedPartition,
    batches: Sequence[_Batch],
    *,
    may_renew: bool,
) -> KafkaError | None:
    """Apply what a member says about one partition; what is wrong with it, if anything."""
    said = [Acknowledgement(b.first_offset, b.last_offset, b.acknowledge_types) for b in batches]
    try:
        check_acknowledgements(said, may_renew=may_renew)
        broker.sharing.partitions.get(group_id, *partition).acknowledge(member_id, said)
    except KafkaError as error:
        return error
    return None
