"""Which brokers hold the replicas of a new partition, and which assignments of a client are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.rebalancing.replica_assignment import spread_replicas

Replicas = tuple[int, ...]


def place_replicas(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, Replicas]:
    """`spread_replicas`, where there are enough brokers."""
    check_replication_factor(replication_factor, len(racks))
    return spread_replicas(
        racks,
        partitions,
        replication_factor,
        start_index=start_index,
        shift=shift,
        first_partition=first_partition,
    )


def place_more_replicas(
    racks: Mapping[int, str | None], existing: Mapping[int, Replicas], partitions: int
) -> dict[int, Replicas]:
    """Assign partitions that are added to a topic, going on where the first partition's leader says it began."""
    first = existing[min(existing)]
    start_index = next((index for index, broker in enumerate(sorted(racks)) if broker >= first[0]), 0)
    return place_replicas(
        racks,
        partitions,
        len(first),
        start_index=start_index,
        shift=start_index,
        first_partition=len(existing),
    )


def check_replication_factor(replication_factor: int, brokers: int) -> None:
    if replication_factor > brokers:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {brokers} broker(s) are registered.",
        )


def check_manual_replicas(
    replicas: Sequence[int], brokers: Collection[int], replication_factor: int | None
) -> None:
    """One partition's replicas as a client wants them; `replication_factor` is that of the partitions before."""
    if not replicas:
        raise _refused("an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in brokers:
            raise _refused(f"broker {broker}, but no such broker is registered.")
        if broker == previous:
            raise _refused(f"the broker {broker} more than once.")
        previous = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _refused(
            f"a partition with {len(replicas)} replica(s), but this is not consistent with previous partitions, "
            f"which have {replication_factor} replica(s)."
        )


def check_manual_assignment(
    assignment: Sequence[tuple[int, Sequence[int]]], brokers: Collection[int]
) -> dict[int, Replicas]:
    """The whole assignment of a topic that is created: partition numbers from 0 on, each once."""
    checked: dict[int, Replicas] = {}
    replication_factor = None
    for partition, replicas in assignment:
        if partition in checked:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        check_manual_replicas(replicas, brokers, replication_factor)
        replication_factor = len(replicas)
        checked[partition] = tuple(replicas)
    if sorted(checked) != list(range(len(checked))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return checked


def _refused(what: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {what}"
    )
