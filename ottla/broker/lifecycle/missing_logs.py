"""Logs missing at start-up although the metadata assigns them to this broker."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ottla.cluster.image.image_feed import PartitionKey
from ottla.log.log_directory import LogDirectory
from ottla.metadata.cluster_image import ClusterImage, PartitionImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.dynamic_configs.effective_config import TopicConfig


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
