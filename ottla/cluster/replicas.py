"""The partitions that this broker holds, found by name and by topic id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from ottla.cluster.log_config import log_config
from ottla.cluster.partition import NO_LEADER, Partition
from ottla.log.config import LogConfig
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.metadata.broker_config import BrokerConfig
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class Replicas:
    """Every partition with a log here, opened. Owner: the event loop; logs are created and deleted in threads."""

    def __init__(
        self, broker_id: int, config: BrokerConfig, image: ClusterImage, directories: list[LogDirectory]
    ) -> None:
        self.log_directories = directories
        self._broker_id = broker_id
        self._config = config
        self._image = image
        self._topics: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[bytes, dict[int, Partition]] = {}
        # Coordinators follow the leadership of their internal topics.
        self.on_leading: list[Callable[[Partition], None]] = []
        self.on_leaving: list[Callable[[Partition], None]] = []

    # Looking up

    def leader(self, topic: str, index: int) -> Partition:
        """The partition, if this broker leads it; else the error that tells the client where it stands."""
        try:
            partition = self._topics[topic][index]
        except KeyError:
            raise self._absent(
                self._image.topics.get(topic), index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ) from None
        if partition.leader != self._broker_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def leader_by_id(self, topic_id: bytes, index: int) -> Partition:
        try:
            partition = self._by_id[topic_id][index]
        except KeyError:
            raise self._absent(
                self._image.topics_by_id.get(topic_id), index, ErrorCode.UNKNOWN_TOPIC_ID
            ) from None
        if partition.leader != self._broker_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def _absent(self, topic: TopicImage | None, index: int, unknown: ErrorCode) -> KafkaError:
        if topic is None:
            return KafkaError(unknown)
        known = topic.partitions.get(index)
        if known is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._broker_id in known.replicas:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The log of this partition is offline")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def partitions(self) -> Iterator[Partition]:
        for topic in self._topics.values():
            yield from topic.values()

    def topic(self, name: str) -> dict[int, Partition]:
        return self._topics.get(name, {})

    # Changing

    async def open_topic(self, topic: TopicImage) -> None:
        """Create or open the logs of the topic's partitions that are assigned here and not open yet."""
        missing = [
            index
            for index, partition in topic.partitions.items()
            if self._broker_id in partition.replicas and index not in self._topics.get(topic.name, {})
        ]
        if missing:
            config = log_config(self._config, topic.configs)
            logs = await asyncio.to_thread(self._create_logs, topic, missing, config)
            for index, log in zip(missing, logs, strict=True):
                self.adopt(topic, index, log)

    def _create_logs(self, topic: TopicImage, indexes: list[int], config: LogConfig) -> list[PartitionLog]:
        logs = []
        for index in indexes:
            directory = self._emptiest()
            logs.append(directory.create_log(topic.name, index, topic_id=topic.topic_id, config=config))
        return logs

    def _emptiest(self) -> LogDirectory:
        """New partitions go where the fewest are, as Kafka does it."""
        return min((d for d in self.log_directories if d.online), key=lambda d: len(d.logs))

    def adopt(self, topic: TopicImage, index: int, log: PartitionLog) -> None:
        """Serve a log that is open."""
        state = topic.partitions[index]
        partition = Partition(topic.name, topic.topic_id, index, self._broker_id, log)
        if state.leader == self._broker_id:
            partition.become_leader(state.leader_epoch, state.replicas, state.isr)
        partitions = self._topics.setdefault(topic.name, {})
        partitions[index] = partition
        self._by_id[topic.topic_id] = partitions
        if partition.is_leader:
            for listener in self.on_leading:
                listener(partition)

    async def delete_topic(self, name: str) -> None:
        for partition in self._topics.pop(name, {}).values():
            self._by_id.pop(partition.topic_id, None)
            partition.leader = NO_LEADER
            partition.tell_changed()
            for listener in self.on_leaving:
                listener(partition)
        await asyncio.to_thread(self._delete_logs, name)

    def _delete_logs(self, name: str) -> None:
        """Every log of the topic, also those that are not served: a deletion may be resumed after a crash."""
        for directory in self.log_directories:
            for topic, index in [*directory.logs, *directory.offline_logs]:
                if topic == name:
                    directory.delete_log(topic, index)

    def config_changed(self, topic: TopicImage) -> None:
        config = log_config(self._config, topic.configs)
        for partition in self._topics.get(topic.name, {}).values():
            partition.log.config = config
