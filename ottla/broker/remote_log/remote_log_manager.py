"""Tiered storage of one broker (KIP-405): copies segments that it leads, deletes expired ones, and answers reads.

Local segments are deleted by retention, and only below `copied_upto` of their log. This module alone sets it, from the
finished segments in the metadata log.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from ottla.broker.remote_log.metadata_log import RemoteMetadataLog
from ottla.broker.remote_log.orphans import gave_up_remote_records, is_orphaned
from ottla.broker.remote_log.segment_upload import UploadError, describe_segment, producers_at, verified_copy
from ottla.cluster.background_tasks import start_task
from ottla.cluster.partitions.partition import Partition
from ottla.cluster.replicas import Replicas
from ottla.log.remote.chunk_cache import CACHE_DIRECTORY, ChunkCache
from ottla.log.remote.expiration import expired_upto
from ottla.log.remote.objects import RemoteSegmentError
from ottla.log.remote.segment_copy import delete_segment
from ottla.log.remote.segment_metadata import RemoteLogSegment, SegmentState, TopicIdPartition
from ottla.log.remote.segment_reader import SegmentReader
from ottla.log.remote.storage import RemoteStorage, RemoteStorageError
from ottla.log.segments.segment import LogSegment
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.stores.store import NodeStore, StoreError
from ottla.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

T = TypeVar("T")

STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED
DELETING, DELETED = SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED

# A topic that this broker has never seen may be new. After this time it has certainly been deleted.
_UNKNOWN_TOPIC_MS = 10 * 60 * 1000

# Errors of the stores, of the metadata topic, and of other brokers: the next round tries again.
PASSING = (RemoteStorageError, RemoteSegmentError, UploadError, KafkaError, StoreError, OSError)


class RebuiltState(NamedTuple):
    """State of a log at an offset, for a follower whose next records are only in remote storage."""

    offset: int
    leader_epochs: list[tuple[int, int]]
    producers: bytes


class RemoteLogManager:
    """Owner: the event loop. Threads copy, delete and read; they own nothing."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        image: ClusterImage,
        store: NodeStore,
        metadata: RemoteMetadataLog,
        storage: RemoteStorage,
        now_ms: Callable[[], int],
    ) -> None:
        self._broker_id = config.broker_id
        self._replicas = replicas
        self._image = image
        self._store = store
        self.metadata = metadata
        self.storage = storage
        self._now_ms = now_ms
        self._interval = config.get_int("remote.log.manager.task.interval.ms") / 1000
        self._copiers = ThreadPoolExecutor(
            config.get_int("remote.log.manager.copier.thread.pool.size"), "remote-log-copier"
        )
        self._readers = ThreadPoolExecutor(config.get_int("remote.log.reader.threads"), "remote-log-reader")
        cache = ChunkCache(
            Path(config.log_dirs[0]) / CACHE_DIRECTORY, config.get_int("ottla.remote.storage.cache.bytes")
        )
        chunk_bytes = config.get_int("ottla.remote.storage.chunk.bytes")
        self.reader = SegmentReader(storage, cache, chunk_bytes, self._readers.submit)
        self._busy: set[TopicIdPartition] = set()
        self._copying: set[bytes] = set()
        self._seen_topics: set[bytes] = set()
        self._logged: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        start_task(self._tasks, self._run())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.metadata.close()
        for pool in (self._copiers, self._readers):
            pool.shutdown(wait=False, cancel_futures=True)

    async def in_reader(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *arguments)

    async def _in_copier(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._copiers, work, *arguments)

    # Rounds

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except PASSING as error:
                self.failed("tiered storage", "of this broker", error)
            except Exception:
                logger.exception("Tiered storage failed and will be tried again")
            await asyncio.sleep(self._interval)

    async def _round(self) -> None:
        self._seen_topics |= self._image.topics_by_id.keys()
        tiered = {partition_id(each): each for each in self._replicas.partitions() if each.log.is_tiered}
        if tiered or self.metadata.exists:
            await self.metadata.follow(tiered)
        for name, partition in tiered.items():
            if not partition.is_leader:
                self._note_copied(partition)
            elif name not in self._busy:
                self._busy.add(name)
                start_task(self._tasks, self._tend(name, partition))
        for name in self.metadata.known():
            if name not in self._busy and self._is_orphaned(name):
                self._busy.add(name)
                start_task(self._tasks, self._delete_all(name))

    async def _tend(self, name: TopicIdPartition, partition: Partition) -> None:
        try:
            await self._tend_led(name, partition, partition.leader_epoch)
            self.works("copy", str(name))
        except PASSING as error:
            self.failed("copy", str(name), error)
        except Exception:
            logger.exception("Tiered storage of %s failed and will be tried again", name)
        finally:
            self._busy.discard(name)

    async def _tend_led(self, name: TopicIdPartition, partition: Partition, epoch: int) -> None:
        if not await self.metadata.caught_up(name):
            return
        await self._clean_up(name)
        self._note_copied(partition)
        if partition.log.config.copies_segments:
            while (segment := self._next_to_copy(partition)) is not None:
                if not self._leads(partition, epoch):
                    return
                await self._copy(name, partition, segment, epoch)
                self._note_copied(partition)
        if self._leads(partition, epoch):
            await self._expire(name, partition)

    def _leads(self, partition: Partition, epoch: int) -> bool:
        """Return True if this broker is certain to lead the partition, still in this epoch."""
        held = self._replicas.topic(partition.topic).get(partition.index)
        return (
            held is partition
            and partition.is_leader
            and partition.leader_epoch == epoch
            and self._replicas.leads_for_certain
        )

    def _note_copied(self, partition: Partition) -> None:
        log = partition.log
        segments = self.metadata.segments(partition_id(partition))
        log.copied_upto = segments.highest_offset(log.epochs.entries) + 1

    # Copying

    def _next_to_copy(self, partition: Partition) -> LogSegment | None:
        log = partition.log
        start = max(log.copied_upto, log.log_start_offset)
        stable = partition.last_stable_offset
        segments = list(log.segments)
        for segment, following in itertools.pairwise(segments):
            if following.base_offset > stable:
                return None
            if following.base_offset > start:
                return segment
        return None

    async def _copy(
        self, name: TopicIdPartition, partition: Partition, local: LogSegment, epoch: int
    ) -> None:
        log = partition.log
        producers = await self._in_copier(producers_at, log, log.segments.end_of(local))
        if not self._leads(partition, epoch):
            return
        segment, files = describe_segment(name, log, local, producers, self._broker_id, self._now_ms())
        self._copying.add(segment.id)
        try:
            await self.metadata.add(segment)
            try:
                await self._in_copier(verified_copy, self.storage, segment, files)
                if not self._leads(partition, epoch):
                    raise UploadError(f"another broker leads {name} now")
                if not await self.metadata.update(segment, FINISHED):
                    raise UploadError(f"another leader of {name} has discarded the copy")
            except PASSING:
                with suppress(*PASSING):  # otherwise the next round deletes it
                    await self._delete(segment)
                raise
        finally:
            self._copying.discard(segment.id)
        logger.info(
            "[RemoteLogManager=%d partition=%s] Copied the segment at %d, %d bytes, to %s",
            self._broker_id,
            name,
            segment.start_offset,
            segment.size,
            self.storage,
        )

    async def _clean_up(self, name: TopicIdPartition) -> None:
        """Delete what interrupted copies and deletions have left."""
        grace_ms = 2000 * self._interval
        for segment in self.metadata.segments(name).unfinished:
            # Another broker may have lost the leadership just now, and be about to notice.
            is_theirs = segment.state is STARTED and segment.broker_id != self._broker_id
            if is_theirs and self._now_ms() - segment.event_timestamp_ms < grace_ms:
                continue
            if segment.id not in self._copying:
                await self._delete(segment)

    # Deletion

    async def _delete(self, segment: RemoteLogSegment) -> None:
        current = self.metadata.segments(segment.partition).get(segment.id)
        if current is not None and current.state is not DELETING:
            await self.metadata.update(segment, DELETING)
        await self._in_copier(delete_segment, self.storage, segment)
        if self.metadata.segments(segment.partition).get(segment.id) is not None:
            await self.metadata.update(segment, DELETED)

    async def _expire(self, name: TopicIdPartition, partition: Partition) -> None:
        """Advance the log start offset by retention, and delete the remote segments below it."""
        log, segments = partition.log, self.metadata.segments(name)
        only_local = sum(
            each.size for each in log.segments if each.base_offset >= log.copied_upto or each is log.active
        )
        upto = expired_upto(segments.finished, log.config, log.log_start_offset, only_local, self._now_ms())
        upto = min(upto, partition.high_watermark)
        if upto > log.log_start_offset:
            partition.delete_records(upto)
            logger.info(
                "[RemoteLogManager=%d partition=%s] Retention has moved the log start offset to %d",
                self._broker_id,
                name,
                upto,
            )
        oldest_epoch = log.epochs.entries[0][0] if log.epochs.entries else -1
        for segment in segments.finished:
            is_unreferenced = all(epoch < oldest_epoch for epoch in segment.leader_epochs)
            if segment.end_offset < log.log_start_offset or is_unreferenced:
                await self._delete(segment)

    def _is_orphaned(self, name: TopicIdPartition) -> bool:
        """Return True for segments that this broker probably has to delete: their topic is gone, or gave them up."""
        if not self.metadata.owns(name) or not self._replicas.leads_for_certain:
            return False
        topic = self._image.topics_by_id.get(name.topic_id)
        if topic is not None:
            return gave_up_remote_records(topic.configs)
        newest = max(each.event_timestamp_ms for each in self.metadata.segments(name))
        return name.topic_id in self._seen_topics or self._now_ms() - newest > _UNKNOWN_TOPIC_MS

    async def _delete_all(self, name: TopicIdPartition) -> None:
        try:
            if not await is_orphaned(self._store, name):
                return
            segments = list(self.metadata.segments(name))
            for segment in segments:
                await self._delete(segment)
            self.works("deletion", str(name))
            logger.info("Deleted %d remote segments of %s", len(segments), name)
        except PASSING as error:
            self.failed("deletion", str(name), error)
        except Exception:
            logger.exception("The remote segments of %s could not be deleted; trying again", name)
        finally:
            self._busy.discard(name)

    # Followers

    async def rebuilt_state(self, partition: Partition, leader_local_start: int, epoch: int) -> RebuiltState:
        """Return the state at the end of the segment before the leader's local log. Raises one of PASSING."""
        name = partition_id(partition)
        await self.metadata.follow([name])
        if not await self.metadata.caught_up(name):
            raise RemoteSegmentError(f"the metadata of the remote segments of {name} cannot be read yet")
        offset = leader_local_start - 1
        found: list[tuple[int, int, RemoteLogSegment]] = []
        for segment in self.metadata.segments(name).finished:
            if segment.start_offset <= offset <= segment.end_offset:
                at = max(each for each, start in segment.leader_epochs.items() if start <= offset)
                if at <= epoch or epoch < 0:
                    found.append((at, segment.event_timestamp_ms, segment))
        if not found:
            raise RemoteSegmentError(f"no remote segment of {name} has offset {offset}")
        segment = max(found, key=lambda each: each[:2])[2]
        epochs = await self.in_reader(self.reader.leader_epochs, segment)
        producers = await self.in_reader(self.reader.producer_snapshot, segment)
        return RebuiltState(segment.end_offset + 1, epochs, producers)

    # Log lines: once per failure, until it is over.

    def failed(self, duty: str, name: str, error: Exception) -> None:
        key, text = f"{duty} {name}", str(error) or repr(error)
        if self._logged.get(key) != text:
            self._logged[key] = text
            logger.error("The %s of %s failed and will be tried again: %s", duty, name, text)

    def works(self, duty: str, name: str) -> None:
        if self._logged.pop(f"{duty} {name}", None) is not None:
            logger.info("The %s of %s works again", duty, name)


def partition_id(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic, partition.topic_id, partition.index)
