"""Metadata and logs at start-up: logs unknown in the metadata, and the move of embedded metadata to ZooKeeper."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from ottla.cluster.image.change_notifications import CHANGES, KAFKAS_CHANGES
from ottla.cluster.log_config import log_config
from ottla.cluster.topics import topic_decisions as topic_nodes
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.nodes import INTERNAL_TOPICS, SHARE_GROUP_STATE_TOPIC
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import (
    Create,
    NodeExists,
    NodeStore,
    Operation,
    StoreError,
    ensure_paths,
    parent_of,
)

# Logs found at start-up but unknown in the metadata or assigned to other brokers.

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


# A standalone broker joins ZooKeeper: its metadata moves from the embedded store to an empty ensemble.
#
# Both stores hold the same tree, so that moving is copying. The cluster id goes first and claims the ensemble. After a
# crash the next start finds its own id there and creates only the missing nodes. The file is renamed at the end, before
# the broker serves anybody.

METADATA_FILE = "ottla-metadata.db"
_MOVED_SUFFIX = ".moved"
_COMMITS_SUFFIX = "-commits"
_BATCH = 100
# Sequential nodes tell running brokers about changes. No broker runs yet, and their numbers belong to the old store.
_NOTIFICATIONS = {CHANGES, *KAFKAS_CHANGES, nodes.ISR_CHANGE_NOTIFICATION, nodes.LOG_DIR_EVENT_NOTIFICATION}


async def move_to_zookeeper(log_dirs: Sequence[str], zookeeper: NodeStore, connect: str) -> None:
    """Move the embedded metadata, if a directory has any. Raises StoreError if the ensemble has another cluster."""
    file = next((path for each in log_dirs if (path := Path(each) / METADATA_FILE).exists()), None)
    if file is None:
        return
    embedded = EmbeddedStore(file)
    await embedded.open()
    try:
        [node] = await embedded.get_many([nodes.CLUSTER_ID])
        if node is not None:
            await _claim(zookeeper, nodes.decode_cluster_id(node.data), file, connect)
            copied = await _copy(embedded, zookeeper)
            logger.warning(
                "This broker ran without ZooKeeper so far. Its metadata has moved to ZooKeeper at %s: %d nodes. "
                "The former file is kept as %s%s",
                connect,
                copied,
                file,
                _MOVED_SUFFIX,
            )
    finally:
        await embedded.close()
    # The store would take a missing file beside a file of commits for damage.
    os.replace(f"{file}{_COMMITS_SUFFIX}", f"{file}{_MOVED_SUFFIX}{_COMMITS_SUFFIX}")
    os.replace(file, f"{file}{_MOVED_SUFFIX}")


async def _claim(zookeeper: NodeStore, cluster_id: str, file: Path, connect: str) -> None:
    parent = parent_of(nodes.CLUSTER_ID)
    await ensure_paths(zookeeper, [parent])
    try:
        await zookeeper.create(nodes.CLUSTER_ID, nodes.encode_cluster_id(cluster_id))
    except NodeExists:
        found = nodes.decode_cluster_id((await zookeeper.get(nodes.CLUSTER_ID)).data)
        if found != cluster_id:
            raise StoreError(
                f"{file} holds the metadata of cluster {cluster_id}, which ran without ZooKeeper, but ZooKeeper at "
                f"{connect} belongs to cluster {found}. Name an empty path in zookeeper.connect, such as "
                "localhost:2181/mine, to take the data along; or choose an empty log.dirs to join that cluster"
            ) from None


async def _copy(embedded: EmbeddedStore, zookeeper: NodeStore) -> int:
    """Create every missing node, parents first. Return the number of new nodes."""
    paths = [path async for path in _paths(embedded)]
    created = 0
    for begin in range(0, len(paths), _BATCH):
        batch = paths[begin : begin + _BATCH]
        found = await zookeeper.get_many(batch)
        missing = [path for path, node in zip(batch, found, strict=True) if node is None]
        await zookeeper.multi([Create(path, (await embedded.get(path)).data) for path in missing])
        created += len(missing)
    # Generated broker ids count the writes to this node.
    generated = (await embedded.get(nodes.BROKER_SEQUENCE)).version
    while (await zookeeper.get(nodes.BROKER_SEQUENCE)).version < generated:
        await zookeeper.set(nodes.BROKER_SEQUENCE, b"")
    return created


async def _paths(store: EmbeddedStore) -> AsyncIterator[str]:
    waiting = ["/"]
    for path in waiting:
        if path in _NOTIFICATIONS:
            continue
        for name in await store.children(path):
            child = f"{path.rstrip('/')}/{name}"
            waiting.append(child)
            yield child
