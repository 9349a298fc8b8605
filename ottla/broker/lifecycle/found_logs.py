"""Logs found at start-up but unknown in the metadata or assigned to other brokers."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.cluster.log_config import log_config
from ottla.cluster.topics import topic_nodes
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.stores.store import Create, NodeStore, Operation
from ottla.metadata.topic_names import INTERNAL_TOPICS, SHARE_GROUP_STATE_TOPIC

logger = logging.getLogger(__name__)


async def take_over_topics(
    store: NodeStore, image: ClusterImage, config: BrokerConfig, directories: Sequence[LogDirectory]
) -> None:
    """Take over topics unknown to the store of a standalone broker, for example after Apache Kafka wrote them."""
    unknown: dict[str, dict[int, PartitionLog]] = {}
    for directory in directories:
        for (name, index), log in directory.logs.items():
            known = name in image.topics or name in image.deleting
            if not known and not name.startswith("__cluster_metadata"):
                unknown.setdefault(name, {})[index] = log
    operations: list[Operation] = []
    for name, logs in unknown.items():
        topic = _topic_of(name, logs, config.broker_id)
        operations += topic_nodes.creation(topic, image.controller_epoch)
        operations.append(Create(nodes.topic_config_path(name), nodes.encode_config(topic.configs)))
        image.put_topic(topic)
        for log in logs.values():
            log.config = log_config(config, topic.configs)
        logger.warning("Topic %s was found in the log directory and taken over", name)
    if operations:
        await store.multi(operations)


def _topic_of(name: str, logs: dict[int, PartitionLog], broker_id: int) -> TopicImage:
    topic_id = next(iter(logs.values())).topic_id
    if topic_id == nodes.ZERO_UUID:
        topic_id = nodes.random_uuid()
    configs = {"cleanup.policy": "compact"} if name in INTERNAL_TOPICS else {}
    if name == SHARE_GROUP_STATE_TOPIC:
        configs = {"cleanup.policy": "delete", "retention.ms": "-1"}
    mine = (broker_id,)
    partitions = {
        # The broker leads in the next epoch, above the newest epoch in the log.
        index: PartitionImage(name, index, broker_id, -1, mine, mine, partition_epoch=0)
        for index in range(max(logs) + 1)
    }
    return TopicImage(name, topic_id, partitions, configs)


def remove_strays(directories: Sequence[LogDirectory], image: ClusterImage, broker_id: int) -> None:
    """Delete logs of topics that were deleted or moved while this broker was down.

    Applies only to directories known to belong to this cluster. Kafka keeps such logs, and its topic deletions finish
    only once all brokers are up. A log left by Kafka may be the last copy, so it is set aside as in Kafka.
    """
    for directory in directories:
        for (name, index), log in list(directory.logs.items()):
            topic = image.topics.get(name)
            partition = None if topic is None else topic.partitions.get(index)
            if (
                topic is not None
                and partition is not None
                and broker_id in (*partition.replicas, *partition.adding_replicas)
                and log.topic_id in (nodes.ZERO_UUID, topic.topic_id)
            ):
                continue
            if directory.left_by_kafka and name not in image.deleting:
                path = directory.mark_stray(name, index)
                logger.warning(
                    "The log of %s-%d is not this broker's and is set aside as %s", name, index, path
                )
                continue
            logger.warning("The log of %s-%d is deleted: it is not this broker's any more", name, index)
            directory.delete_log(name, index)
            for other in directories:
                other.delete_future(name, index)
