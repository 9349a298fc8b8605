"""Which brokers hold the replicas of a new partition: Kafka's algorithm, with the dice handed in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ottla.protocol.errors import ErrorCode, KafkaError

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
    """Assign `partitions` partitions, counted from `first_partition`, to the brokers of `racks` (id → rack).

    Leaders go round robin from `start_index`; followers are spread so that the load of a lost broker falls on many,
    which is what `shift` and its growth per round do. If every broker has a rack, the replicas of a partition lie in as
    many racks as there are; if only some have one, racks are left out of account.
    """
    check_replication_factor(replication_factor, len(racks))
    rack_of = {broker: rack for broker, rack in racks.items() if rack is not None}
    if len(rack_of) < len(racks):
        brokers, rack_of = sorted(racks), {}
    else:
        brokers = _alternate_racks(rack_of)
    rack_count = len(set(rack_of.values()))
    assignment = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        leader = (partition + start_index) % len(brokers)
        if rack_of:
            replicas = _across_racks(brokers, rack_of, rack_count, leader, shift, replication_factor)
        else:
            followers = range(replication_factor - 1)
            replicas = [
                brokers[leader],
                *(brokers[_follower(leader, shift, k, len(brokers))] for k in followers),
            ]
        assignment[partition] = tuple(replicas)
    return assignment


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


def _follower(leader: int, shift: int, k: int, brokers: int) -> int:
    return (leader + 1 + (shift + k) % (brokers - 1)) % brokers


def _across_racks(
    brokers: Sequence[int],
    rack_of: Mapping[int, str],
    rack_count: int,
    leader: int,
    shift: int,
    replication_factor: int,
) -> list[int]:
    replicas = [brokers[leader]]
    racks = {rack_of[brokers[leader]]}
    k = 0
    while len(replicas) < replication_factor:
        broker = brokers[_follower(leader, shift * rack_count, k, len(brokers))]
        k += 1
        if broker not in replicas and (rack_of[broker] not in racks or len(racks) == rack_count):
            replicas.append(broker)
            racks.add(rack_of[broker])
    return replicas


def _alternate_racks(rack_of: Mapping[int, str]) -> list[int]:
    """The brokers in an order in which neighbours are in different racks, as far as there are enough."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(rack_of):
        by_rack.setdefault(rack_of[broker], []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    return [
        column[row]
        for row in range(max(map(len, columns), default=0))
        for column in columns
        if row < len(column)
    ]


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
