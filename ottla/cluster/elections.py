"""Election of leaders: the rule, and the states of partitions in the store."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from ottla.cluster.image.change_notifications import ChangedPartition, notification
from ottla.cluster.image.image_feed import ImageFeed, PartitionKey
from ottla.metadata import nodes
from ottla.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionImage
from ottla.metadata.nodes import PartitionState
from ottla.metadata.stores.store import (
    BadVersion,
    Check,
    Create,
    NodeExists,
    NodeStore,
    NoNode,
    Operation,
    Set,
    StoreError,
    ensure_paths,
)
from ottla.monitoring.metrics.text import Histogram

# Rules of leader election, as in Kafka 3.9. Pure functions: they map an image to the next one, or to None.
#
# `PartitionStates.change` writes the decisions. Callers are the controller (`adjust`, `prefer`), a broker that starts,
# leaves (`ClusterMember`) or loses a disk (`FailedDisks`), ElectLeaders, and reassignments.
#
# The new state keeps the partition epoch of the old one, because the write is conditional on it. A new
# leader gets a new leader epoch. Removing a replica from the ISR does not change the leader epoch: clients
# need not notice.
#
# One difference from Kafka: if several replicas could lead, a broker that has just come back (`returned`)
# is passed over. Clients that found it down wait before they reconnect, librdkafka up to ten seconds.

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


# Write partition states: one conditional write stores the state and notifies all brokers.

logger = logging.getLogger(__name__)

_PER_MULTI = 250
_MAX_ATTEMPTS = 10

Decide = Callable[[PartitionImage], PartitionImage | None]


class Deposed(Exception):
    """The guard failed: another broker is the controller."""


class PartitionStates:
    """Writer of partition states. Any broker may write, since every write names the version it is based on.

    Invariant: the image contains the written states when the coroutine returns. Owner: the event loop.
    """

    def __init__(self, store: NodeStore, image: ClusterImage, feed: ImageFeed) -> None:
        self._store = store
        self._image = image
        self._feed = feed
        self._alterations: list[tuple[PartitionImage, asyncio.Future[int]]] = []
        self._altering: asyncio.Task[None] | None = None
        # Controller metrics: duration of its writes (µs), and number of elections that may have lost records.
        self.election_times = Histogram()
        self.unclean_elections = 0

    async def change(
        self, keys: Iterable[PartitionKey], decide: Decide, *, guard: Check | None = None
    ) -> list[PartitionKey]:
        """Give each partition the state that `decide` derives from the current one. Return the partitions written.

        If another broker was faster, reread the state and decide again. The rules are in `elections`.
        """
        stored: list[PartitionKey] = []
        todo = list(keys)
        for _ in range(_MAX_ATTEMPTS):
            again: list[PartitionKey] = []
            for first in range(0, len(todo), _PER_MULTI):
                chunk = todo[first : first + _PER_MULTI]
                wanted = self._decisions(chunk, decide)
                before = [self._image.partitions.get((each.topic, each.partition)) for each in wanted]
                began = time.monotonic()
                try:
                    await self._write(wanted, guard)
                except (BadVersion, NoNode, NodeExists) as error:
                    if guard is not None and error.path == guard.path:
                        raise Deposed from None
                    again += [(each.topic, each.partition) for each in wanted]
                else:
                    stored += [(each.topic, each.partition) for each in wanted]
                    if guard is not None:
                        self._count_elections(before, wanted, time.monotonic() - began)
            if not again:
                return stored
            await self._refresh(again)
            todo = again
        raise StoreError("The states of some partitions change faster than they can be read.")

    def _count_elections(
        self, before: Sequence[PartitionImage | None], after: Sequence[PartitionImage], seconds: float
    ) -> None:
        elections = 0
        for old, new in zip(before, after, strict=True):
            if old is not None and new.leader not in (old.leader, NO_LEADER):
                elections += 1
                self.unclean_elections += bool(old.isr) and new.leader not in old.isr
        if elections:
            self.election_times.add(int(seconds * 1e6), elections)

    async def alter(
        self, topic: str, index: int, *, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int
    ) -> int:
        """Write the ISR chosen by a leader. Return the new partition epoch.

        Requests that arrive during a write share the next one: when a broker comes back, thousands of leaders expand
        their ISR at once.
        """
        partition = self._image.partitions.get((topic, index))
        path = nodes.partition_state_path(topic, index)
        if partition is None:
            raise NoNode(path)
        if (partition.leader_epoch, partition.partition_epoch) != (leader_epoch, partition_epoch):
            raise BadVersion(path)
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[int] = loop.create_future()
        self._alterations.append((partition._replace(isr=isr), stored))
        if self._altering is None:
            self._altering = loop.create_task(self._write_alterations())
        return await stored

    async def _write_alterations(self) -> None:
        some: list[tuple[PartitionImage, asyncio.Future[int]]] = []
        try:
            while self._alterations:
                some = self._alterations[:_PER_MULTI]
                del self._alterations[:_PER_MULTI]
                try:
                    await self._alter_all(some)
                except (BadVersion, NoNode):  # one of the states is outdated: try each on its own
                    for each in some:
                        await self._alter_one(*each)
        finally:
            # Always reset this: otherwise a leader without an answer could never alter its ISR again.
            self._altering = None
            left = some + self._alterations
            self._alterations.clear()
            for _, stored in left:
                _fail(stored, StoreError("The writing of partition states was ended."))

    async def _alter_all(self, some: Sequence[tuple[PartitionImage, asyncio.Future[int]]]) -> None:
        try:
            await self._write([partition for partition, _ in some], None)
        except (BadVersion, NoNode):
            raise
        except StoreError as error:
            for _, stored in some:
                _fail(stored, error)
            return
        for partition, stored in some:
            if not stored.done():
                stored.set_result(partition.partition_epoch + 1)

    async def _alter_one(self, partition: PartitionImage, stored: asyncio.Future[int]) -> None:
        try:
            await self._alter_all([(partition, stored)])
        except (BadVersion, NoNode) as error:
            try:
                await self._refresh([(partition.topic, partition.partition)])
            except StoreError as failure:
                logger.warning(
                    "Cannot read the state of %s-%d again: %s", partition.topic, partition.partition, failure
                )
            finally:
                _fail(stored, error)

    def _decisions(self, keys: Sequence[PartitionKey], decide: Decide) -> list[PartitionImage]:
        wanted = []
        for key in keys:
            before = self._image.partitions.get(key)
            after = None if before is None else decide(before)
            if after is not None:
                wanted.append(after)
        return wanted

    async def _write(self, wanted: Sequence[PartitionImage], guard: Check | None) -> None:
        if not wanted:
            return
        first = [nodes.partition_path(p.topic, p.partition) for p in wanted if p.partition_epoch == NO_STATE]
        changed = [self._changed(partition) for partition in wanted]
        operations = [*map(_write_of, changed), notification(changed)]
        guards: list[Operation] = [guard] if guard is not None else []
        try:
            # Most partitions without a state lack the parent node as well.
            await self._store.multi([*guards, *map(Create, first), *operations])
        except (NodeExists, NoNode):
            if not first:
                raise
            await ensure_paths(self._store, first)
            await self._store.multi([*guards, *operations])
        self._feed.learn(changed)

    def _changed(self, partition: PartitionImage) -> ChangedPartition:
        topic = self._image.topics.get(partition.topic)
        if topic is None:
            raise NoNode(nodes.topic_path(partition.topic))
        epoch = self._image.controller_epoch
        state = PartitionState(partition.leader, partition.leader_epoch, partition.isr, epoch)
        return ChangedPartition(
            partition.topic, topic.topic_id, partition.partition, state, partition.partition_epoch + 1
        )

    async def _refresh(self, keys: Sequence[PartitionKey]) -> None:
        """Reread the states. Topics without a state are reread completely."""
        paths = [nodes.partition_state_path(*key) for key in keys]
        learned, odd = [], set()
        for (name, index), node in zip(keys, await self._store.get_many(paths), strict=True):
            topic = self._image.topics.get(name)
            if node is None or topic is None:
                odd.add(name)
                continue
            state = nodes.decode_partition_state(name, index, node.data)
            learned.append(ChangedPartition(name, topic.topic_id, index, state, node.version))
        self._feed.learn(learned)
        if odd:
            await self._feed.read_topics(sorted(odd))


def _write_of(changed: ChangedPartition) -> Operation:
    path = nodes.partition_state_path(changed.topic, changed.partition)
    data, before = nodes.encode_partition_state(changed.state), changed.partition_epoch - 1
    return Create(path, data) if before == NO_STATE else Set(path, data, before)


def _fail(stored: asyncio.Future[int], error: StoreError) -> None:
    if not stored.done():
        stored.set_exception(error)
