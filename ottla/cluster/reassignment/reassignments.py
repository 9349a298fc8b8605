"""Rules of reassignment, as in Kafka. Pure functions: they map a partition's image to the next one.

During a reassignment the partition has its target replicas, followed by its old ones. Once all target replicas are in
sync, the others leave. `Reassigner` writes the decisions; the controller calls it to finish.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ottla.cluster import elections
from ottla.metadata.cluster_image import PartitionImage
from ottla.protocol.errors import ErrorCode, KafkaError


def origin(partition: PartitionImage) -> tuple[int, ...]:
    """Return the replicas from before the reassignment."""
    return tuple(each for each in partition.replicas if each not in partition.adding_replicas)


def target(partition: PartitionImage) -> tuple[int, ...]:
    """Return the replicas after the reassignment."""
    return tuple(each for each in partition.replicas if each not in partition.removing_replicas)


def begin(partition: PartitionImage, wanted: Sequence[int], live: Collection[int]) -> PartitionImage:
    """Move to these replicas, replacing any current reassignment."""
    before = origin(partition)
    replicas = tuple(dict.fromkeys((*wanted, *before)))
    moving = partition._replace(
        replicas=replicas,
        adding_replicas=tuple(each for each in replicas if each not in before),
        removing_replicas=tuple(each for each in replicas if each not in wanted),
    )
    confined = elections.confine(moving, live)
    if confined is None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {partition.topic}:{partition.partition} because it would "
            "require an unclean leader election.",
        )
    return confined


def cancel(partition: PartitionImage, live: Collection[int]) -> PartitionImage:
    """Return to the original replicas."""
    if not partition.is_moving:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    return begin(partition, origin(partition), live)


def finish(partition: PartitionImage, live: Collection[int]) -> PartitionImage | None:
    """Return the finished reassignment if all target replicas are in sync and one can lead; otherwise None."""
    staying = target(partition)
    if not partition.is_moving or not set(staying) <= set(partition.isr):
        return None
    if partition.leader not in staying or partition.leader not in live:
        elected = elections.reassign(partition, staying, live)
        if elected is None:
            return None
        partition = elected
    return partition._replace(
        replicas=staying,
        isr=tuple(each for each in partition.isr if each in staying),
        adding_replicas=(),
        removing_replicas=(),
    )


def check_wanted(
    partition: PartitionImage, wanted: Sequence[int], live: Collection[int], *, may_change_factor: bool = True
) -> None:
    """Check the requested replicas. Raises KafkaError with Kafka's messages."""
    if not wanted:
        raise _refused("Empty replica list specified in partition reassignment.")
    if len(set(wanted)) < len(wanted):
        listed = ",".join(map(str, wanted))
        raise _refused(f"Duplicate replica ids in partition reassignment replica list: {listed}")
    if min(wanted) < 0:
        listed = ",".join(map(str, wanted))
        raise _refused(f"Invalid broker id in replica list: {listed}")
    before = origin(partition)
    if not may_change_factor and len(wanted) != len(before):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(before)} to {len(wanted)}",
        )
    added = [each for each in wanted if each not in before]
    if not set(added) <= set(live):
        raise _refused(
            "Replica assignment has brokers that are not alive. Replica list: "
            f"{','.join(map(str, added))}, live broker list: {','.join(map(str, sorted(live)))}"
        )


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
