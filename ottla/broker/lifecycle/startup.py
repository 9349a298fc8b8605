"""What happens between an open store and the first request: registering, and finding the topics' logs again."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.cluster.log_config import log_config
from ottla.cluster.replicas import Replicas
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, PartitionImage, TopicImage, broker_image
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.nodes import BrokerRegistration, Endpoint, PartitionState, TopicAssignment
from ottla.metadata.stores.store import Create, NodeStore, Operation, Set, ensure_paths
from ottla.metadata.topic_names import INTERNAL_TOPICS, SHARE_GROUP_STATE_TOPIC
from ottla.protocol.errors import KafkaError

logger = logging.getLogger(__name__)


async def register(
    store: NodeStore,
    image: ClusterImage,
    config: BrokerConfig,
    endpoints: tuple[Endpoint, ...],
    cluster_id: str | None,
    now_ms: int,
) -> None:
    """Announce this broker, and make it the controller of its cluster of one."""
    await ensure_paths(store, nodes.PERSISTENT_PATHS)
    operations: list[Operation] = []
    if not image.cluster_id:
        image.cluster_id = cluster_id or nodes.encode_uuid(nodes.random_uuid())
        await ensure_paths(store, ["/cluster"])
        operations.append(Create(nodes.CLUSTER_ID, nodes.encode_cluster_id(image.cluster_id)))
    epoch = image.controller_epoch + 1
    new_epoch = nodes.encode_controller_epoch(epoch)
    if await store.exists(nodes.CONTROLLER_EPOCH) is None:
        operations.append(Create(nodes.CONTROLLER_EPOCH, new_epoch))
    else:
        operations.append(Set(nodes.CONTROLLER_EPOCH, new_epoch))
    registration = BrokerRegistration(
        config.broker_id, endpoints, config.get_optional_str("broker.rack"), timestamp_ms=now_ms
    )
    path = nodes.broker_path(config.broker_id)
    operations.append(Create(path, nodes.encode_broker(registration), ephemeral=True))
    operations.append(
        Create(nodes.CONTROLLER, nodes.encode_controller(config.broker_id, now_ms), ephemeral=True)
    )
    await store.multi(operations)
    stat = await store.exists(path)
    assert stat is not None
    image.put_broker(broker_image(registration, stat.czxid))
    image.set_controller(config.broker_id, epoch)


async def restore_topics(
    store: NodeStore,
    image: ClusterImage,
    config: BrokerConfig,
    replicas: Replicas,
    directories: Sequence[LogDirectory],
) -> None:
    """Lead every partition whose log is here, each in a new leader epoch.

    A directory may hold topics that the store does not know, because Apache Kafka wrote it: they are taken over.
    """
    logs = {(log.topic, log.partition): log for directory in directories for log in directory.logs.values()}
    operations: list[Operation] = []
    for topic in _unknown_topics(image, config, logs, operations):
        image.put_topic(topic)
    for topic in list(image.topics.values()):
        if topic.name not in image.deleting:
            _start_epochs(image, topic, config.broker_id, logs, operations)
    if operations:
        await store.multi(operations)
    all_online = all(directory.online for directory in directories)
    offline = {name for directory in directories for name in directory.offline_logs}
    lacking = 0
    for topic in list(image.topics.values()):
        if topic.name in image.deleting:
            continue
        missing = False
        settings = log_config(config, topic.configs)
        for index in topic.partitions:
            log = logs.get((topic.name, index))
            if log is not None:
                log.config = settings
                replicas.adopt(topic, index, log)
            elif all_online and (topic.name, index) not in offline:
                missing = True
            else:
                # Its data may be where it cannot be reached now: an empty log would take its place for good.
                replicas.take_offline(topic.name, index)
                lacking += 1
        if missing:
            # A crash between the decision to create a topic and its logs leaves some of them to be made.
            try:
                await replicas.open_topic(topic)
            except KafkaError as error:
                logger.error("The logs of topic %s could not be made yet: %s", topic.name, error)
    if lacking:
        logger.error("%d partitions are offline, because their logs cannot be used", lacking)


def _start_epochs(
    image: ClusterImage,
    topic: TopicImage,
    broker_id: int,
    logs: dict[tuple[str, int], PartitionLog],
    operations: list[Operation],
) -> None:
    """Raise the leader epoch of each partition, beyond whatever its log has seen."""
    partitions = {}
    for index, partition in topic.partitions.items():
        log = logs.get((topic.name, index))
        epoch = max(partition.leader_epoch, -1 if log is None else log.epochs.latest) + 1
        state = PartitionState(broker_id, epoch, (broker_id,), image.controller_epoch)
        operations.append(
            Set(nodes.partition_state_path(topic.name, index), nodes.encode_partition_state(state))
        )
        partitions[index] = PartitionImage(
            topic.name,
            index,
            leader=broker_id,
            leader_epoch=epoch,
            replicas=partition.replicas,
            isr=(broker_id,),
            partition_epoch=partition.partition_epoch + 1,
        )
    image.put_topic(TopicImage(topic.name, topic.topic_id, partitions, topic.configs, topic.version))


def _unknown_topics(
    image: ClusterImage,
    config: BrokerConfig,
    logs: dict[tuple[str, int], PartitionLog],
    operations: list[Operation],
) -> list[TopicImage]:
    found: dict[str, dict[int, PartitionLog]] = {}
    for (name, index), log in logs.items():
        if name not in image.topics and not name.startswith("__cluster_metadata"):
            found.setdefault(name, {})[index] = log
    broker_id = config.broker_id
    topics = []
    for name, partitions in found.items():
        topic_id = next(iter(partitions.values())).topic_id
        if topic_id == nodes.ZERO_UUID:
            topic_id = nodes.random_uuid()
        indexes = range(max(partitions) + 1)
        configs = {"cleanup.policy": "compact"} if name in INTERNAL_TOPICS else {}
        if name == SHARE_GROUP_STATE_TOPIC:
            configs = {"cleanup.policy": "delete", "retention.ms": "-1"}
        assignment = TopicAssignment(dict.fromkeys(indexes, (broker_id,)), topic_id)
        operations.append(Create(nodes.topic_path(name), nodes.encode_topic(assignment)))
        operations.append(Create(nodes.topic_config_path(name), nodes.encode_config(configs)))
        operations.append(Create(nodes.partitions_path(name)))
        for index in indexes:
            operations.append(Create(nodes.partition_path(name, index)))
            operations.append(Create(nodes.partition_state_path(name, index)))
        images = {index: PartitionImage(name, index, -1, -1, (broker_id,), (), 0) for index in indexes}
        topics.append(TopicImage(name, topic_id, images, configs))
        logger.warning("Topic %s was found in the log directory and taken over", name)
    return topics
