"""The partitions held by this broker, by name and by topic id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from pathlib import Path
from time import monotonic

from ottla.cluster.log_config import log_config
from ottla.cluster.log_dir_moves import LogDirMoves
from ottla.cluster.partitions.leader_state import LeaderContext
from ottla.cluster.partitions.partition import NO_LEADER, Partition
from ottla.cluster.partitions.topic_counts import CountedTopics
from ottla.cluster.peers import PeerDialer
from ottla.cluster.replication.fetcher_pool import FetcherPool
from ottla.cluster.replication.replication_throttle import ReplicationThrottle
from ottla.log.config import CorruptSegmentError, LogConfig, StorageError, is_of_disk, is_temporary
from ottla.log.files import descriptors
from ottla.log.files.meta_properties import ZERO_UUID
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class Replicas:
    """Every open partition with a local log. Owner: the event loop; threads create and delete logs."""

    def __init__(
        self, config: BrokerConfig, image: ClusterImage, directories: list[LogDirectory], dialer: PeerDialer
    ) -> None:
        broker_id = config.broker_id
        self.log_directories = directories
        self._broker_id = broker_id
        self._config = config
        self._image = image
        self._topics: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[bytes, dict[int, Partition]] = {}
        # Coordinators follow the leadership of their internal topics.
        self.on_leading: list[Callable[[Partition], None]] = []
        self.on_leaving: list[Callable[[Partition], None]] = []
        # Called with one sentence when the last directory has failed.
        self.on_all_failed: Callable[[str], None] | None = None
        # Called for each partition that goes offline, so that another broker takes over.
        self.on_offline: Callable[[str, int], None] | None = None
        # Called for each partition with a full disk, so that another broker leads for the time being.
        self.on_full: Callable[[str, int], None] | None = None
        self._offline: set[tuple[str, int]] = set()  # partitions with unusable logs
        self._unopened: set[str] = set()  # topics whose logs could not be created yet
        # Time until which this broker is certain of its leadership; None where no other broker could lead.
        self.lease: Callable[[], float] | None = None
        self.leader_context = LeaderContext(
            config.get_int("replica.lag.time.max.ms") / 1000, self._can_follow
        )
        self.fetchers = FetcherPool(config, image, directories, dialer)
        self.leader_throttle = ReplicationThrottle.of_leaders(broker_id, config, image)
        self.log_dir_moves = LogDirMoves(self, broker_id, config, image)
        self.counts: CountedTopics | None = None  # only with metrics
        self._logs_lock = asyncio.Lock()  # log directories allow one creation or deletion at a time

    # Lookup

    def leader(self, topic: str, index: int) -> Partition:
        """Return the partition if this broker leads it. Otherwise raise the error that sends the client elsewhere."""
        try:
            partition = self._topics[topic][index]
        except KeyError:
            raise self._absent(
                self._image.topics.get(topic), index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ) from None
        if partition.leader != self._broker_id or not self.leads_for_certain:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def leader_by_id(self, topic_id: bytes, index: int) -> Partition:
        try:
            partition = self._by_id[topic_id][index]
        except KeyError:
            raise self._absent(
                self._image.topics_by_id.get(topic_id), index, ErrorCode.UNKNOWN_TOPIC_ID
            ) from None
        if partition.leader != self._broker_id or not self.leads_for_certain:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    @property
    def leads_for_certain(self) -> bool:
        """Return True if no other broker can have been elected for the partitions led here."""
        return self.lease is None or monotonic() <= self.lease()

    def held(self, topic: str | bytes, index: int) -> Partition:
        """Return a partition with a leader, by name or topic id: consumers may read from followers."""
        found = self._topics.get(topic) if isinstance(topic, str) else self._by_id.get(topic)
        partition = None if found is None else found.get(index)
        if partition is not None and partition.leader not in (self._broker_id, NO_LEADER):
            return partition
        return self.leader(topic, index) if isinstance(topic, str) else self.leader_by_id(topic, index)

    def _absent(self, topic: TopicImage | None, index: int, unknown: ErrorCode) -> KafkaError:
        if topic is None:
            return KafkaError(unknown)
        known = topic.partitions.get(index)
        if known is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if (topic.name, index) in self._offline or topic.name in self._unopened:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The log of this partition is offline")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def partitions(self) -> Iterator[Partition]:
        for topic in self._topics.values():
            yield from topic.values()

    def topic(self, name: str) -> dict[int, Partition]:
        return self._topics.get(name, {})

    def _can_follow(self, topic: str, index: int, broker_id: int) -> bool:
        partition = self._image.partitions.get((topic, index))
        return broker_id in self._image.brokers and (
            partition is None or broker_id not in self._image.offline_on(partition)
        )

    def stop_waiting(self) -> None:
        """Fail the producers that wait for followers, because the lease is over and the leader may have changed."""
        for partition in self.partitions():
            if partition.leading is not None:
                partition.leading.close()

    # Changes

    def apply(self, topic: TopicImage, changed: Iterable[int]) -> Awaitable[None]:
        """Apply the image to the local replicas of these partitions. The image already contains the topic.

        Roles of open logs have changed on return; the awaitable creates and deletes logs.
        """
        missing = False
        leaving: list[int] = []
        for index in changed:
            state = topic.partitions.get(index)
            held = self._topics.get(topic.name, {}).get(index)
            is_mine = state is not None and self._broker_id in state.replicas
            if held is not None and is_mine and held.topic_id == topic.topic_id:
                assert state is not None
                self._assume(held, state)
                continue
            if held is not None:
                self._stop(held)
            leaving.append(index)  # an unserved log of another topic with the same name may exist
            missing |= is_mine
        if not missing and not leaving:
            done = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        return asyncio.ensure_future(self._exchange_logs(topic, leaving, missing))

    async def _exchange_logs(self, topic: TopicImage, leaving: list[int], missing: bool) -> None:
        async with self._logs_lock:
            for directory, index in self._strange_logs(topic, leaving):
                logger.info(
                    "Deleting the log of %s-%d, which is not assigned to this broker", topic.name, index
                )
                await asyncio.to_thread(directory.delete_log, topic.name, index)
                for other in self.log_directories:
                    await asyncio.to_thread(other.delete_future, topic.name, index)
        if missing:
            current = self._image.topics.get(topic.name)
            if current is not None and current.topic_id == topic.topic_id:
                await self.open_topic(current)

    def _strange_logs(self, topic: TopicImage, indexes: list[int]) -> list[tuple[LogDirectory, int]]:
        """Return logs of these partitions that belong to an earlier topic or are no longer assigned to this broker."""
        current = self._image.topics.get(topic.name) or topic
        found = []
        for directory in self.log_directories:
            for index in indexes:
                log = directory.logs.get((topic.name, index))
                state = current.partitions.get(index)
                is_mine = state is not None and self._broker_id in state.replicas
                if log is not None and not (is_mine and log.topic_id in (current.topic_id, ZERO_UUID)):
                    found.append((directory, index))
        return found

    def _assume(self, partition: Partition, state: PartitionImage) -> None:
        """Take the role that a state gives this broker. Ignore states older than the current one."""
        if (state.leader_epoch, state.partition_epoch) < (partition.leader_epoch, partition.partition_epoch):
            return
        if state.leader == self._broker_id:
            self.fetchers.unfollow(partition)
            if partition.become_leader(state):
                for listener in self.on_leading:
                    listener(partition)
            return
        was_leader = partition.is_leader
        changed = partition.become_follower(state)
        if was_leader:
            for listener in self.on_leaving:
                listener(partition)
        if state.leader == NO_LEADER:
            self.fetchers.unfollow(partition)
        elif changed:
            self.fetchers.follow(partition)
        elif self._broker_id not in state.isr:
            self.fetchers.show(partition)

    def _stop(self, partition: Partition) -> None:
        self.log_dir_moves.stop((partition.topic, partition.index))
        self._topics.get(partition.topic, {}).pop(partition.index, None)
        if not self._topics.get(partition.topic):
            self._topics.pop(partition.topic, None)
            self._by_id.pop(partition.topic_id, None)
        self.fetchers.unfollow(partition)
        partition.resign()
        if self.counts is not None and partition.topic not in self._topics:
            self.counts.forget(partition.topic)
        for listener in self.on_leaving:
            listener(partition)

    def check_in_sync(self) -> None:
        """Remove lagging followers from ISRs; called every half `replica.lag.time.max.ms`."""
        for partition in list(self.partitions()):
            if partition.leading is not None:
                partition.leading.check()
            elif self._broker_id not in partition.isr:
                # The leader may have learned of this later than this broker, and reset this follower's offset.
                self.fetchers.show(partition)

    async def close(self) -> None:
        """Stop fetching, and stop moving logs."""
        await self.log_dir_moves.close()
        await self.fetchers.close()
        for task in list(self.leader_context.tasks):
            task.cancel()
        self.leader_context.purgatory.close()

    async def open_topic(self, topic: TopicImage) -> None:
        """Create or open the missing logs of the topic's partitions assigned to this broker."""
        async with self._logs_lock:
            await self._open_topic(topic)

    async def _open_topic(self, topic: TopicImage) -> None:
        missing = [
            index
            for index, partition in topic.partitions.items()
            if self._broker_id in partition.replicas
            and index not in self._topics.get(topic.name, {})
            and (topic.name, index) not in self._offline
        ]
        config = log_config(self._config, topic.configs)
        self._unopened.discard(topic.name)
        while missing:
            made, refused, failure = await asyncio.to_thread(self._create_logs, topic, missing, config)
            for index, log in made.items():
                self.adopt(topic, index, log)
            if made:
                logger.info("Opened the logs of topic %s: partitions %s", topic.name, shown_numbers(made))
            for index, refusal in refused.items():
                logger.error("%s-%d is offline: %s", topic.name, index, refusal)
                self.take_offline(topic.name, index)
            missing = [index for index in missing if index not in made and index not in refused]
            if failure is None:
                return
            directory, error = failure
            self.directory_failed(directory, error.cause)
            if directory.online or not any(each.online for each in self.log_directories):
                self._unopened.add(topic.name)
                raise error

    async def open_unopened(self) -> None:
        """Create the logs that a full disk prevented."""
        for name in list(self._unopened):
            topic = self._image.topics.get(name)
            if topic is None:
                self._unopened.discard(name)
            else:
                await self.open_topic(topic)

    def _create_logs(
        self, topic: TopicImage, indexes: list[int], config: LogConfig
    ) -> tuple[dict[int, PartitionLog], dict[int, KafkaError], tuple[LogDirectory, StorageError] | None]:
        """Return the usable logs, the refused partitions, and the failed directory if any."""
        logs: dict[int, PartitionLog] = {}
        refused: dict[int, KafkaError] = {}
        for index in indexes:
            directory = self._directory_for(topic.name, index)
            try:
                logs[index] = directory.create_log(topic.name, index, topic_id=topic.topic_id, config=config)
            except StorageError as error:
                return logs, refused, (directory, error)
            except KafkaError as error:  # the log exists and is damaged
                refused[index] = error
        return logs, refused, None

    def _directory_for(self, topic: str, index: int) -> LogDirectory:
        """Choose the directory with the fewest partitions, as Kafka does."""
        online = [directory for directory in self.log_directories if directory.online]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is left")
        name = (topic, index)
        having = (each for each in online if name in each.logs or name in each.offline_logs)
        wanted = next(having, None) or self.log_dir_moves.preferred(name)
        return wanted or min(online, key=lambda directory: len(directory.logs))

    def adopt(self, topic: TopicImage, index: int, log: PartitionLog) -> None:
        """Serve an open log in the role given by the newest image of the topic."""
        newest = self._image.topics.get(topic.name)
        if newest is not None and newest.topic_id == topic.topic_id and index in newest.partitions:
            topic = newest
        state = topic.partitions[index]
        if self._broker_id not in state.replicas:
            return
        name = (topic.name, index)
        known = next((d.high_watermarks for d in self.log_directories if d.logs.get(name) is log), {})
        partition = Partition(
            topic.name,
            topic.topic_id,
            index,
            self._broker_id,
            log,
            self.leader_context,
            high_watermark=known.get(name, 0),
        )
        partition.on_storage_error = self.storage_failed
        if self.counts is not None:
            partition.counts = self.counts.of(topic.name)
        partitions = self._topics.setdefault(topic.name, {})
        partitions[index] = partition
        self._by_id[topic.topic_id] = partitions
        self._assume(partition, state)
        self.log_dir_moves.resume(partition)

    def adopt_found(self) -> None:
        """Serve the existing logs when a standalone broker starts, including logs with another topic id.

        In a cluster such a log belongs to a deleted topic. A standalone broker has no other copy to rely on.
        """
        for directory in self.log_directories:
            for (name, index), log in directory.logs.items():
                topic = self._image.topics.get(name)
                if topic is not None and index in topic.partitions and (name, index) not in self._offline:
                    self.adopt(topic, index, log)

    async def delete_topic(self, name: str) -> None:
        for partition in list(self._topics.get(name, {}).values()):
            self._stop(partition)
        async with self._logs_lock:
            await asyncio.to_thread(self._delete_logs, name)
            logger.info("Deleted the logs of topic %s", name)
            self._offline = {each for each in self._offline if each[0] != name}

    def _delete_logs(self, name: str) -> None:
        """Delete all logs of the topic, even unserved ones: this may resume a deletion after a crash."""
        away = [directory for directory in self.log_directories if not directory.online]
        for directory in self.log_directories:
            if directory in away:
                continue
            for topic, index in [*directory.logs, *directory.offline_logs]:
                if topic == name:
                    directory.delete_log(topic, index)
            for topic, index in list(directory.future_logs):
                if topic == name:
                    directory.delete_future(topic, index)
            directory.write_without_deleted()
        # A cluster deletes logs without a topic when their directory returns. A standalone broker would adopt them.
        if away and not self._config.zookeeper_connect:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{away[0].path} is offline and may hold a part of {name}: it will be deleted when the "
                "directory is back",
            )

    def config_changed(self, topic: TopicImage) -> None:
        config = log_config(self._config, topic.configs)
        for partition in self._topics.get(topic.name, {}).values():
            partition.log.config = config
            if partition.leading is not None:
                partition.leading.configure()

    # Failures

    def storage_failed(self, log: PartitionLog, error: Exception) -> bool:
        """Take the failed log or directory offline. Return False if the error is not a storage failure."""
        cause = error.cause if isinstance(error, StorageError) else error
        name = (log.topic, log.partition)
        directory = next((each for each in self.log_directories if each.logs.get(name) is log), None)
        if directory is None:
            return True  # already gone
        if isinstance(error, CorruptSegmentError) and self._others_have(*name):
            self._log_failed(directory, name, error)
            return True
        if not isinstance(cause, OSError):
            return False
        if is_temporary(cause) or is_of_disk(cause):
            self.directory_failed(directory, cause)
            if is_temporary(cause) and self.on_full is not None:
                self.on_full(*name)
            return True
        try:
            directory.probe()
        except OSError as fault:
            if not is_temporary(fault):
                self.directory_failed(directory, fault)
                return True
        self._log_failed(directory, name, error)
        return True

    def file_failed(self, path: str, error: OSError) -> None:
        """Handle a segment that could not be read during sending: its disk has failed."""
        for directory in self.log_directories:
            if directory.path in Path(path).parents:
                self.directory_failed(directory, error)

    def _others_have(self, topic: str, index: int) -> bool:
        """Return True if another broker can serve a damaged partition. Otherwise the readable part stays available
        here.
        """
        partition = self._topics.get(topic, {}).get(index)
        return partition is not None and any(each != self._broker_id for each in partition.isr)

    def _log_failed(self, directory: LogDirectory, name: tuple[str, int], error: Exception) -> None:
        logger.error("%s-%d is offline until the broker is restarted: %s", *name, error)
        directory.fail_log(*name, str(error))
        self.take_offline(*name)

    def directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        """Handle a failed directory. A full disk may recover; any other failure takes the whole directory offline."""
        reason = error.strerror or str(error)
        if not directory.online:
            return
        if is_temporary(error):
            if not directory.full and descriptors.ran_out(error):
                logger.error("%s cannot be written to: %s.", directory.path, descriptors.shortage())
            elif not directory.full:
                logger.error(
                    "%s is full: %s. Records are refused until there is room again.", directory.path, reason
                )
            directory.full = True
            return
        lost = list(directory.logs)
        directory.fail(reason)
        logger.error(
            "%s failed: %s. Its %d partitions are offline until the broker is restarted.",
            directory.path,
            reason,
            len(lost),
        )
        for name in lost:
            self.take_offline(*name)
        if not any(each.online for each in self.log_directories) and self.on_all_failed is not None:
            self.on_all_failed(f"No log directory is left, the last one ({directory.path}) failed: {reason}.")

    def directory_works(self, directory: LogDirectory) -> None:
        if directory.full:
            directory.full = False
            logger.warning("%s takes records again", directory.path)

    def take_offline(self, topic: str, index: int) -> None:
        """Take a partition's log offline: it is not served, and no new log replaces it."""
        self._offline.add((topic, index))
        partition = self._topics.get(topic, {}).get(index)
        if partition is not None:
            self._stop(partition)
        if self.on_offline is not None:
            self.on_offline(topic, index)

    def keep_offline(self, names: Iterable[tuple[str, int]]) -> None:
        """Mark partitions offline at startup, when the broker itself arranges for other leaders."""
        self._offline.update(names)

    def leave_offline(self, names: Iterable[tuple[str, int]]) -> None:
        """Let partitions whose logs were missing get new ones."""
        self._offline.difference_update(names)

    def set_aside(self, topic: str, index: int) -> str:
        """Rename a damaged log to make room for a new one, keeping its files. Return the new path."""
        name = (topic, index)
        directory = next(each for each in self.log_directories if name in each.damaged_logs)
        path = directory.mark_stray(topic, index)
        self._offline.discard(name)
        return path

    def forget_offline(self, topic: str) -> None:
        """Forget a deleted topic, so that a new one with the same name starts with new logs."""
        self._offline = {name for name in self._offline if name[0] != topic}

    @property
    def offline(self) -> Collection[tuple[str, int]]:
        return self._offline


def shown_numbers(numbers: Iterable[int]) -> str:
    """Format numbers as ranges such as `0-3,7`: a topic may have thousands of partitions."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ",".join("-".join(map(str, each)) for each in ranges)
