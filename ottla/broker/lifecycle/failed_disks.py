"""Failed and full disks, damaged logs, and logs missing at start-up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from ottla.cluster import elections
from ottla.cluster.background_tasks import start_task
from ottla.cluster.image.image_feed import PartitionKey
from ottla.cluster.image.offline_replicas import Unusable, write_unusable
from ottla.log.log_directory import LogDirectory
from ottla.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.dynamic_configs.effective_config import TopicConfig
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.lifecycle.cluster_member import ClusterMember

# Handling of failed and full disks.

logger = logging.getLogger(__name__)

_FULL_SECONDS = 5.0
_RETRY_SECONDS = 1.0


class FailedDisks:
    """Moves leadership of unreadable or unwritable partitions to other brokers.

    Invariant: the store lists a replica as offline before this broker gives up leadership, so that the controller does
    not return it. Owner: the event loop.
    """

    def __init__(self, broker: Broker, member: ClusterMember, tasks: set[asyncio.Task[None]]) -> None:
        self._id = broker.node_id
        self._image = broker.image
        self._store = broker.store
        self._replicas = broker.replicas
        self._member = member
        self._tasks = tasks  # tasks of the cluster member, which ends them
        self._lost: list[PartitionKey] = []  # partitions on failed disks, to be led by others
        self._missing: set[PartitionKey] = (
            set()
        )  # partitions whose logs disappeared while the broker was down
        self._full: set[PartitionKey] = set()  # partitions on full disks, to be led by others
        # Time at which leadership was given up because of a full disk
        self._given_away: dict[PartitionKey, float] = {}
        broker.replicas.on_offline = self._partition_offline
        broker.replicas.on_full = self._disk_full

    # Failed

    def keep_offline(self, keys: Iterable[PartitionKey]) -> None:
        keys = sorted(keys)
        if not keys:
            return
        named = ", ".join(f"{topic}-{index}" for topic, index in keys[:3])
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        logger.error(
            "The logs of %s%s are missing, and no other broker is in sync: the partitions stay offline, so that you "
            "can bring the logs back and restart this broker. To give their records up and start with empty logs, run: "
            "kafka-leader-election --bootstrap-server %s --election-type unclean --all-topic-partitions",
            named,
            more,
            self._member.address,
        )
        self._missing.update(keys)
        self._replicas.keep_offline(keys)

    async def start_empty(self, keys: Iterable[PartitionKey]) -> set[PartitionKey]:
        """Replace missing logs with empty ones: an operator asked for an unclean election, and gives the records up."""
        chosen = self._missing.intersection(keys)
        if not chosen:
            return chosen
        self._missing -= chosen
        self._replicas.leave_offline(chosen)
        for name in sorted({topic for topic, _ in chosen} & self._image.topics.keys()):
            await self._replicas.open_topic(self._image.topics[name])
        logger.warning("%d partitions whose logs were missing start with empty logs", len(chosen))
        await self.publish()
        return chosen

    async def publish(self) -> None:
        topics = self._image.topics
        unusable = Unusable(
            frozenset(str(each.path) for each in self._replicas.log_directories if not each.online),
            frozenset(
                (topics[name].topic_id, index) for name, index in self._replicas.offline if name in topics
            ),
        )
        if await write_unusable(self._store, self._id, unusable):
            await self._member.feed.read_offline()

    def _partition_offline(self, topic: str, index: int) -> None:
        self._lost.append((topic, index))
        if len(self._lost) == 1:
            start_task(self._tasks, self._give_up())

    async def _give_up(self) -> None:
        def decide(partition: PartitionImage) -> PartitionImage | None:
            return elections.give_up(partition, self._id, self._image.able(partition, self._member.others))

        logged = False
        while self._lost:
            keys = list(self._lost)
            try:
                await self.publish()
                await self._member.states.change(keys, decide)
            except StoreError as error:
                if not logged:
                    logger.error(
                        "Cannot hand over the partitions of a failed disk and will try again: %s", error
                    )
                logged = True
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            del self._lost[: len(keys)]

    # Full

    def _disk_full(self, topic: str, index: int) -> None:
        """Move leadership away while the disk is full, so that producers need not wait for free space."""
        key, now = (topic, index), monotonic()
        partition = self._image.partitions.get(key)
        if partition is None or key in self._full:
            return
        if partition.leader == self._id:
            if now < self._given_away.get(key, 0.0) + _FULL_SECONDS:
                return  # all disks are full: leadership must not circulate endlessly
            self._given_away[key] = now
        self._full.add(key)
        start_task(self._tasks, self._leave_to_others(key))

    async def _leave_to_others(self, key: PartitionKey) -> None:
        try:
            await self._member.let_others_lead([key])
        except StoreError as error:
            logger.error("Cannot hand over %s-%d, whose disk is full: %s", *key, error)
        finally:
            self._full.discard(key)


# Recovery of damaged logs: in a cluster the broker fetches them again from their leaders.

_LOOK_AGAIN_SECONDS = 1.0


class DamagedReplicas:
    """Restarts a damaged replica once another broker leads the partition.

    Invariant: a log is discarded only while another broker leads and this one is outside the ISR, so every committed
    record exists elsewhere. Its files are renamed, not deleted. Owner: the event loop.
    """

    def __init__(self, broker: Broker, disks: FailedDisks) -> None:
        self._id = broker.node_id
        self._image = broker.image
        self._replicas = broker.replicas
        self._disks = disks

    async def rebuild(self) -> None:
        while damaged := self._damaged():
            for key in filter(self._others_have, damaged):
                await self._start_anew(key)
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def _damaged(self) -> list[PartitionKey]:
        return [
            name
            for directory in self._replicas.log_directories
            if directory.online
            for name in directory.damaged_logs
            if name in self._image.partitions
        ]

    def _others_have(self, key: PartitionKey) -> bool:
        partition = self._image.partitions[key]
        return (
            self._id in partition.replicas
            and self._id not in partition.isr
            and partition.leader not in (self._id, NO_LEADER)
            and partition.leader in self._image.brokers
        )

    async def _start_anew(self, key: PartitionKey) -> None:
        topic = self._image.topics.get(key[0])
        if topic is None:
            return
        try:
            path = await asyncio.to_thread(self._replicas.set_aside, *key)
            logger.warning(
                "%s-%d is damaged here and is fetched again from broker %d. The damaged files are in %s: remove them "
                "when you do not need them",
                *key,
                self._image.partitions[key].leader,
                path,
            )
            await self._replicas.open_topic(topic)
            await self._disks.publish()
        except (OSError, KafkaError, StoreError) as error:
            logger.error("%s-%d could not be fetched again: %s", *key, error)


# Logs missing at start-up although the metadata assigns them to this broker.


def out_of_reach(
    directories: Sequence[LogDirectory], image: ClusterImage, broker_id: int
) -> list[PartitionKey]:
    """Return partitions of this broker whose log may be in an unreadable directory.

    An empty log in its place might become leader, and followers would truncate theirs. As in Kafka, this includes every
    partition without a log while any directory is offline: the directory may return with a second log of the partition.
    """
    damaged = {name for directory in directories for name in directory.offline_logs}
    all_online = all(directory.online for directory in directories)
    return [key for key, _ in _without_log(directories, image, broker_id) if not all_online or key in damaged]


def lost_logs(
    directories: Sequence[LogDirectory], image: ClusterImage, broker_id: int, *, disks_changed: bool
) -> list[PartitionKey]:
    """Return partitions of this broker that had a log once and have none now. They restart empty and leave the ISR.

    A partition created just before a crash also has no log, and nothing is lost. Loss must be assumed if a directory is
    new or was removed, if the log was offline, or if a recovery point shows that it had records.
    """
    unreachable = set(out_of_reach(directories, image, broker_id))
    vanished = {name for directory in directories for name in directory.vanished_logs}
    were_offline = image.offline_replicas.get(broker_id, frozenset())
    return [
        key
        for key, partition in _without_log(directories, image, broker_id)
        if key not in unreachable
        and (
            disks_changed
            or key in vanished
            or (image.topics[partition.topic].topic_id, partition.partition) in were_offline
        )
    ]


def irreplaceable(
    lost: Collection[PartitionKey], image: ClusterImage, config: BrokerConfig, broker_id: int
) -> list[PartitionKey]:
    """Return lost partitions without another in-sync replica in topics that forbid unclean elections."""
    found = []
    for key in lost:
        partition = image.partitions.get(key)
        if partition is not None and partition.isr == (broker_id,):
            settings = TopicConfig(config, image.topics[partition.topic].configs)
            if not settings.get_bool("unclean.leader.election.enable"):
                found.append(key)
    return found


def _without_log(
    directories: Sequence[LogDirectory], image: ClusterImage, broker_id: int
) -> Iterator[tuple[PartitionKey, PartitionImage]]:
    logs = {name for directory in directories for name in directory.logs}
    for key, partition in image.partitions.items():
        if broker_id in partition.replicas and key not in logs:
            yield key, partition
