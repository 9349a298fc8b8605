"""Rules of leader election, as in Kafka 3.9. Pure functions: they map an image to the next one, or to None.

`PartitionStates.change` writes the decisions. Callers are the controller (`adjust`, `prefer`), a broker that starts,
leaves (`ClusterMember`) or loses a disk (`FailedDisks`), ElectLeaders, and reassignments.

The new state keeps the partition epoch of the old one, because the write is conditional on it. A new leader gets a new
leader epoch. Removing a replica from the ISR does not change the leader epoch: clients need not notice.

One difference from Kafka: if several replicas could lead, a broker that has just come back (`returned`) is passed over.
Clients that found it down wait before they reconnect, librdkafka up to ten seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ottla.metadata.cluster_image import NO_LEADER, PartitionImage

NO_STATE = -1  # partition epoch before the first state is written


def adjust(
    partition: PartitionImage,
    live: Collection[int],
    *,
    unclean: bool = False,
    returned: Collection[int] = (),
) -> PartitionImage | None:
    """Elect leaders after brokers came or went.

    A live leader stays, and dead replicas leave the ISR. Otherwise the first live replica in the ISR leads; with
    `unclean`, the first live replica. Without a candidate the partition has no leader and keeps its ISR, since only ISR
    members can bring the data back.
    """
    if partition.partition_epoch == NO_STATE:
        return _first_state(partition, live)
    if partition.leader in live and partition.leader in partition.replicas:
        isr = tuple(each for each in partition.isr if each in live and each in partition.replicas)
        return partition._replace(isr=isr) if isr != partition.isr else None
    return _elect(partition, live, unclean, returned)


def without(
    partition: PartitionImage, broker: int, live: Collection[int], *, returned: Collection[int] = ()
) -> PartitionImage | None:
    """Remove a broker from leadership and ISR because it leaves, or restarts after an absence.

    The last in-sync replica stays: the controller decides once the broker is gone.
    """
    others = tuple(replica for replica in partition.isr if replica != broker)
    if partition.leader == broker:
        return _lead(partition, _first(partition.replicas, others, live, returned), others)
    if broker in partition.isr and partition.leader in others and partition.leader in live:
        return partition._replace(isr=others)
    return None


def give_up(partition: PartitionImage, broker: int, live: Collection[int]) -> PartitionImage | None:
    """Remove a broker whose log is unusable from leadership and ISR, even if the other replicas are down.

    The last in-sync replica stays in the ISR, because no other replica has all committed records. The partition has no
    leader until that replica recovers.
    """
    others = tuple(replica for replica in partition.isr if replica != broker)
    if others == partition.isr:
        return None
    if not others:
        return _lead(partition, NO_LEADER, partition.isr) if partition.leader == broker else None
    if partition.leader not in (broker, NO_LEADER):
        return partition._replace(isr=others)
    leader = _first(partition.replicas, others, live)
    return _lead(partition, NO_LEADER if leader is None else leader, others)


def lead_again(
    partition: PartitionImage, broker: int, live: Collection[int], *, seen_epoch: int = -1
) -> PartitionImage | None:
    """Let a returning leader without other in-sync replicas continue in a new epoch.

    The same applies to the only replica of a leaderless partition. `seen_epoch` is the newest epoch in its log: a store
    restored from a backup may not have it.
    """
    was_leader = partition.leader == broker
    if partition.leader == NO_LEADER and partition.replicas == (broker,):
        was_leader = True
    if not was_leader or broker not in partition.isr:
        return None
    isr = tuple(replica for replica in partition.isr if replica == broker or replica in live)
    epoch = max(partition.leader_epoch, seen_epoch)
    return _lead(partition._replace(leader_epoch=epoch), broker, isr)


def prefer(partition: PartitionImage, live: Collection[int]) -> PartitionImage | None:
    """Elect the preferred (first) replica if it is able to lead."""
    preferred = partition.replicas[0]
    if partition.leader == preferred or preferred not in live or preferred not in partition.isr:
        return None
    return _lead(partition, preferred, partition.isr)


def elect_unclean(partition: PartitionImage, live: Collection[int]) -> PartitionImage | None:
    """Run an unclean election for an operator. Only leaderless partitions are affected."""
    if partition.leader in live:
        return None
    elected = _elect(partition, live, unclean=True)
    return elected if elected is not None and elected.leader != NO_LEADER else None


def reassign(
    partition: PartitionImage, target: Iterable[int], live: Collection[int]
) -> PartitionImage | None:
    """Elect one of the remaining replicas at the end of a reassignment."""
    target = tuple(target)
    if partition.leader in target and partition.leader in live:
        return None
    return _lead(partition, _first(target, partition.isr, live), partition.isr)


def confine(partition: PartitionImage, live: Collection[int]) -> PartitionImage | None:
    """Restrict ISR and leader to the assigned replicas. Return None if no in-sync replica would remain."""
    isr = tuple(replica for replica in partition.isr if replica in partition.replicas)
    if partition.isr and not isr:
        return None
    if partition.leader == NO_LEADER or partition.leader in partition.replicas:
        return partition._replace(isr=isr)
    leader = _first(partition.replicas, isr, live)
    return _lead(partition, NO_LEADER if leader is None else leader, isr)


def imbalanced(
    partitions: Iterable[PartitionImage], live: Collection[int], percentage: int
) -> list[tuple[str, int]]:
    """Return the partitions to give back to their preferred replicas, for brokers that lead too few of their own."""
    preferring: dict[int, list[PartitionImage]] = {}
    for partition in partitions:
        preferring.setdefault(partition.replicas[0], []).append(partition)
    found = []
    for broker, preferred in preferring.items():
        astray = [each for each in preferred if each.leader != broker]
        if broker in live and len(astray) * 100 > percentage * len(preferred):
            found += [(each.topic, each.partition) for each in astray]
    return found


def _elect(
    partition: PartitionImage, live: Collection[int], unclean: bool, returned: Collection[int] = ()
) -> PartitionImage | None:
    leader = _first(partition.replicas, partition.isr, live, returned)
    if leader is not None:
        isr = tuple(each for each in partition.isr if each in live and each in partition.replicas)
        return _lead(partition, leader, isr)
    if unclean:
        leader = _first(partition.replicas, partition.replicas, live)
        if leader is not None:
            return _lead(partition, leader, (leader,))
    if partition.leader == NO_LEADER:
        return None
    return _lead(partition, NO_LEADER, partition.isr)


def _first_state(partition: PartitionImage, live: Collection[int]) -> PartitionImage | None:
    isr = tuple(replica for replica in partition.replicas if replica in live)
    return partition._replace(leader=isr[0], leader_epoch=0, isr=isr) if isr else None


def _first(
    order: Iterable[int], isr: Collection[int], live: Collection[int], returned: Collection[int] = ()
) -> int | None:
    able = [replica for replica in order if replica in isr and replica in live]
    return next((replica for replica in able if replica not in returned), able[0] if able else None)


def _lead(partition: PartitionImage, leader: int | None, isr: tuple[int, ...]) -> PartitionImage | None:
    if leader is None:
        return None
    return partition._replace(leader=leader, leader_epoch=partition.leader_epoch + 1, isr=isr)
