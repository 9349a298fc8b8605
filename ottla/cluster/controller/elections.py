"""The rules of leader elections, as Kafka 3.9 has them. Pure: an image goes in, the next one or None comes out.

`PartitionStates.change` writes what is decided here. Callers are the controller (`adjust`, `prefer`), a broker that
starts or leaves (`ClusterMember`) or whose disk fails (`FailedDisks`), ElectLeaders, and reassignments.

The state that comes out has the partition epoch of the one that went in: the write is conditional on it. A new leader
gets a new leader epoch. Taking a replica out of the ISR does not change the leader's epoch: clients need not notice.

There is one difference to Kafka: where several could lead, one that has just come back (`returned`) does not. Clients
that found it gone wait before they connect to it again, librdkafka up to ten seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ottla.metadata.cluster_image import NO_LEADER, PartitionImage

NO_STATE = -1  # the partition epoch of a partition whose state was never written


def adjust(
    partition: PartitionImage,
    live: Collection[int],
    *,
    unclean: bool = False,
    returned: Collection[int] = (),
) -> PartitionImage | None:
    """The controller's election after brokers came or went.

    A live leader stays, and replicas that are gone leave the ISR. Otherwise the first live replica in the ISR leads;
    with `unclean`, the first live replica. If there is none, there is no leader, and the ISR stays as it is, since only
    its members can bring the data back.
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
    """A broker leaves, or starts again after it was away: it leads nothing, and is in no ISR.

    Where it is the last in sync nothing changes: the controller decides when it is gone.
    """
    others = tuple(replica for replica in partition.isr if replica != broker)
    if partition.leader == broker:
        return _lead(partition, _first(partition.replicas, others, live, returned), others)
    if broker in partition.isr and partition.leader in others and partition.leader in live:
        return partition._replace(isr=others)
    return None


def give_up(partition: PartitionImage, broker: int, live: Collection[int]) -> PartitionImage | None:
    """A broker cannot use its log: it leaves the ISR and leads no more, even if the other replicas are away.

    Where it is the last in sync it stays in the ISR, because nobody else has all that is committed. Nobody leads until
    it can.
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
    """A leader that has been away and finds nobody else in sync goes on, in a new epoch.

    So does the only replica of a partition without a leader. `seen_epoch` is the newest epoch in its log: a store that
    was restored from a backup may have forgotten it.
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
    """Preferred leader election: the first replica leads, if it can."""
    preferred = partition.replicas[0]
    if partition.leader == preferred or preferred not in live or preferred not in partition.isr:
        return None
    return _lead(partition, preferred, partition.isr)


def elect_unclean(partition: PartitionImage, live: Collection[int]) -> PartitionImage | None:
    """An unclean election that an operator asks for: only where there is no leader."""
    if partition.leader in live:
        return None
    elected = _elect(partition, live, unclean=True)
    return elected if elected is not None and elected.leader != NO_LEADER else None


def reassign(
    partition: PartitionImage, target: Iterable[int], live: Collection[int]
) -> PartitionImage | None:
    """One of the replicas that stay leads, when a reassignment ends."""
    target = tuple(target)
    if partition.leader in target and partition.leader in live:
        return None
    return _lead(partition, _first(target, partition.isr, live), partition.isr)


def confine(partition: PartitionImage, live: Collection[int]) -> PartitionImage | None:
    """Only replicas are in the ISR and lead; None if that leaves nobody in sync."""
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
    """Partitions whose preferred replica should lead again, of brokers that lead too few of theirs."""
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
