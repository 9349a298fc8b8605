"""Move replicas between log directories of this broker during reads and writes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ottla.cluster.background_tasks import end_tasks
from ottla.cluster.replication.replication_throttle import ReplicationThrottle
from ottla.log.cold_reads import cold_range
from ottla.log.config import CorruptSegmentError, StorageError, is_temporary
from ottla.log.files.checkpoint import TopicPartition
from ottla.log.files.descriptors import FileRegion
from ottla.log.future_log import align, copy, inherit
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.config_defs import LOG_DIR_RATE
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.cluster.partitions.partition import Partition
    from ottla.cluster.replicas import Replicas

T = TypeVar("T")

logger = logging.getLogger(__name__)

_CHUNK = 1 << 20
_FLUSH_BYTES = 64 << 20
# Bytes that the final step may copy on the event loop, which prevents appends in the meantime.
_LAST_BYTES = 256 * 1024
_PAUSE_SECONDS = 0.1
_FULL_DISK_SECONDS = 1.0


class _Move:
    """One replica in transit. Only the move's own task writes to `future`."""

    def __init__(self, partition: Partition, directory: LogDirectory, future: PartitionLog) -> None:
        self.partition = partition
        self.directory = directory
        self.future = future
        # The copy is as clean as the log was at the start of the move.
        self.first_dirty_offset = partition.log.first_dirty_offset
        self.truncations = -1
        self.unflushed = 0
        self.task: asyncio.Task[None] | None = None

    @property
    def name(self) -> TopicPartition:
        return self.partition.topic, self.partition.index


class LogDirMoves:
    """Invariant: a partition has at most one copy, in another directory than its log. One step of the event loop swaps
    copy and log, with the same batches. Owner: the event loop; threads do the copying.
    """

    def __init__(self, replicas: Replicas, broker_id: int, config: BrokerConfig, image: ClusterImage) -> None:
        self._replicas = replicas
        self._image = image
        self._moves: dict[TopicPartition, _Move] = {}
        self._preferred: dict[TopicPartition, LogDirectory] = {}  # for replicas not yet on this broker
        self._throttle = ReplicationThrottle(LOG_DIR_RATE, "", broker_id, config, image)
        self._asking = asyncio.Lock()  # starts one copy at a time
        # As in Kafka, the number of concurrent copies equals the number of directories.
        self._turn = asyncio.Semaphore(max(1, len(replicas.log_directories)))
        # A log stays in place during its compaction.
        self.is_busy: Callable[[TopicPartition], bool] = lambda name: False

    # Requests

    async def move(self, topic: str, index: int, path: str) -> None:
        """Move a replica to a directory, replacing any earlier move. Raises KafkaError if it cannot be moved."""
        name = (topic, index)
        directory = self._directory(path)
        if not directory.online or name in self._replicas.offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{path} or the log of {topic}-{index} is offline"
            )
        partition = self._replicas.topic(topic).get(index)
        if partition is None:
            if name not in self._image.partitions:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._preferred[name] = directory
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        async with self._asking:
            await self._begin(partition, directory)

    async def _begin(self, partition: Partition, directory: LogDirectory) -> None:
        topic, index = name = (partition.topic, partition.index)
        going = self._moves.get(name)
        if going is not None and going.directory is directory:
            return
        self.cancel(name)
        if directory.logs.get(name) is partition.log:
            return
        try:
            future = await asyncio.to_thread(
                directory.create_future,
                topic,
                index,
                topic_id=partition.topic_id,
                config=partition.log.config,
                start_offset=partition.log.local_start_offset,
            )
        except StorageError:
            self._target_failed(directory)
            raise
        if self._replicas.topic(topic).get(index) is not partition:
            directory.delete_future(topic, index)  # the partition disappeared in the meantime
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        self._start(_Move(partition, directory, future))

    def _directory(self, path: str) -> LogDirectory:
        for directory in self._replicas.log_directories:
            if path == str(directory.path):
                return directory
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not one of log.dirs")

    def cancel(self, name: TopicPartition) -> None:
        """Stop the move and discard the copy."""
        self._preferred.pop(name, None)
        move = self._moves.get(name)
        if move is not None:
            self.stop(name)
            try:
                move.directory.delete_future(*name)
            except OSError as error:
                self._replicas.directory_failed(move.directory, error)

    def stop(self, name: TopicPartition) -> None:
        """Stop copying for now. The copy stays until the partition is opened again."""
        move = self._moves.pop(name, None)
        if move is not None and move.task is not None:
            move.task.cancel()

    def resume(self, partition: Partition) -> None:
        """Resume a move begun before the broker restarted, now that the partition is open."""
        name = (partition.topic, partition.index)
        for directory in self._replicas.log_directories:
            future = directory.future_logs.get(name)
            if future is None or name in self._moves:
                continue
            if future.topic_id != partition.topic_id:
                directory.delete_future(*name)  # belongs to an earlier topic with that name
                continue
            logger.info("Resuming the move of %s-%d to %s", *name, directory.path)
            self._start(_Move(partition, directory, future))

    def preferred(self, name: TopicPartition) -> LogDirectory | None:
        """Return the requested directory for a replica that is new here."""
        directory = self._preferred.pop(name, None)
        return directory if directory is not None and directory.online else None

    def lag(self, future: PartitionLog) -> int:
        """Return the copy's lag in offsets, or -1 if no copy is in progress."""
        move = self._moves.get((future.topic, future.partition))
        if move is None or move.future is not future:
            return -1
        return move.partition.log.log_end_offset - future.log_end_offset

    async def close(self) -> None:
        await end_tasks([move.task for move in self._moves.values() if move.task is not None])
        self._moves.clear()

    # Copying

    def _start(self, move: _Move) -> None:
        self._moves[move.name] = move
        move.task = asyncio.get_running_loop().create_task(self._run(move))

    async def _run(self, move: _Move) -> None:
        try:
            async with self._turn:
                while not await self._step(move):
                    pass
        except KafkaError as error:
            self._give_up(move, error)
        except Exception as error:
            logger.exception("Moving %s-%d to %s failed: this is a bug", *move.name, move.directory.path)
            self._give_up(move, error)

    async def _step(self, move: _Move) -> bool:
        """Copy one chunk. Return True once the copy has replaced the log."""
        log, future = move.partition.log, move.future
        if move.truncations != log.truncations or future.log_end_offset < log.local_start_offset:
            move.truncations = log.truncations
            align(future, log)
        if self._is_near(move):
            return await self._try_to_finish(move)
        self._throttle.configure()
        wait = self._throttle.wait()
        if wait > 0:
            await asyncio.sleep(wait)
            return False
        size = min(_CHUNK, self._throttle.share() or _CHUNK)
        cold = cold_range(log, future.log_end_offset, size)
        if cold is not None:
            await _in_thread(cold.read)
            if move.truncations != log.truncations or future.log_end_offset < log.local_start_offset:
                return False  # the log was truncated in the meantime
        region = self._read(move, size)
        try:
            if not region.size:
                await _in_thread(future.skip_to, log.log_end_offset)
                return False
            copied = await _in_thread(copy, region, future)
            self._throttle.take(copied)
            move.unflushed += copied
            if move.unflushed >= _FLUSH_BYTES:
                await _in_thread(future.flush)
                move.unflushed = 0
        except StorageError as error:
            self._target_failed(move.directory)
            if not is_temporary(error.cause):
                raise
            await asyncio.sleep(_FULL_DISK_SECONDS)
        return False

    def _read(self, move: _Move, size: int) -> FileRegion:
        """Return the next part of the log that the copy lacks, or an empty region if compaction has removed it."""
        log = move.partition.log
        try:
            return log.read(move.future.log_end_offset, size, upto=log.log_end_offset, min_one=True)
        except (StorageError, CorruptSegmentError) as error:
            self._replicas.storage_failed(log, error)
            raise

    def _is_near(self, move: _Move) -> bool:
        """Return True if the rest is small enough to copy on the event loop."""
        log, end = move.partition.log, move.future.log_end_offset
        if end >= log.log_end_offset:
            return True
        if end < log.active.base_offset:
            return False
        found = log.active.locate(end)
        return found is None or log.active.size - found.position <= _LAST_BYTES

    async def _try_to_finish(self, move: _Move) -> bool:
        log, future = move.partition.log, move.future
        await _in_thread(future.flush)  # flush early, because the final step blocks everything
        if self.is_busy(move.name):
            await asyncio.sleep(_PAUSE_SECONDS)
            return False
        # Nothing else runs from here on: no append, no truncation.
        if move.partition.log is not log or move.truncations != log.truncations:
            return False
        copied = 0
        while future.log_end_offset < log.log_end_offset and copied <= 2 * _LAST_BYTES:
            region = self._read(move, _LAST_BYTES)
            if not region.size:
                future.skip_to(log.log_end_offset)
                break
            copied += copy(region, future)
        if future.log_end_offset != log.log_end_offset:
            return False  # the log grows faster than the copy
        self._exchange(move, log)
        return True

    def _exchange(self, move: _Move, log: PartitionLog) -> None:
        directories = self._replicas.log_directories
        source = next((each for each in directories if each.logs.get(move.name) is log), None)
        if source is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.path} is not served any more")
        inherit(move.future, log, move.first_dirty_offset)
        move.partition.log = move.directory.replace_current_with_future(*move.name, source)
        del self._moves[move.name]
        logger.info("%s-%d has moved to %s", *move.name, move.directory.path)

    # Failures

    def _target_failed(self, directory: LogDirectory) -> None:
        try:
            directory.probe()
        except OSError as error:
            self._replicas.directory_failed(directory, error)

    def _give_up(self, move: _Move, error: Exception) -> None:
        """Give up the move. A later request may start it again."""
        if self._moves.get(move.name) is not move:
            return
        logger.error(
            "Cannot move %s-%d to %s, it stays where it is: %s", *move.name, move.directory.path, error
        )
        move.task = None
        self.cancel(move.name)


async def _in_thread(work: Callable[..., T], *arguments: object) -> T:
    """Run `work` in a thread and wait for it even after a cancellation: its files stay in use until it ends."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        running.exception()
        raise
