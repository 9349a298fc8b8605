"""One entry of `log.dirs`: its lock, identity, checkpoints and logs."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock

from ottla.log.config import (
    CorruptSegmentError,
    DamagedLogError,
    LogConfig,
    LogDirectoryError,
    StorageError,
    UnusableDirectoryError,
    storage_error,
)
from ottla.log.files.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CheckpointError,
    Offsets,
    TopicPartition,
    read_offsets,
    replace_file,
    sync_path,
    write_offsets,
)
from ottla.log.files.live_ends import LIVE_ENDS_FILE, LiveEnds, read_live_ends
from ottla.log.files.meta_properties import (
    ZERO_UUID,
    DirectoryLock,
    KnownLog,
    MetaProperties,
    mark,
    mark_damaged,
    read_damage_mark,
    read_mark,
    read_meta_properties,
    read_partition_metadata,
    remove_damage_mark,
    write_mark,
    write_meta_properties,
)
from ottla.log.future_log import FUTURE_SUFFIX, future_name, parse_future_name
from ottla.log.local_log import LocalLog
from ottla.log.partition_log import PartitionLog
from ottla.log.recovery import FoundLog
from ottla.log.remote.chunk_cache import CACHE_DIRECTORY
from ottla.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
_PROBE_FILE = ".ottla-probe"
_PROBE_BYTES = 256 * 1024
_FOREIGN_SUFFIXES = (FUTURE_SUFFIX, STRAY_SUFFIX)
_NAME_MAX = 255
_THREADS = 4


class LogDirectory:
    """Invariant: while open, only this process uses the directory. `logs` has every usable log, `offline_logs` the
    reason for every unusable one, `future_logs` the copies of logs about to move here; their names are disjoint. The
    clean-shutdown mark exists only while closed.

    Owner: the event loop. Opening, loading, creating, deleting, checkpoints and closing block; they may run in a
    thread, one at a time.
    """

    def __init__(self, path: str, lock: DirectoryLock | None) -> None:
        self.path = Path(path)
        self.online = lock is not None
        self.full = False  # appends failed for lack of space, and nothing was written since
        self._loaded = False
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.offline_logs: dict[TopicPartition, str] = {}
        self.damaged_logs: set[TopicPartition] = (
            set()
        )  # offline logs with damaged files rather than a bad disk
        self.vanished_logs: set[TopicPartition] = set()  # logs with records whose directory is missing
        self.future_logs: dict[TopicPartition, PartitionLog] = {}
        self._retired: list[PartitionLog] = []  # moved to another directory; reads may continue
        self._directory = path
        self._lock = lock
        self._to_delete: list[str] = []
        self._checkpointing = Lock()  # housekeeping and DeleteRecords may both write checkpoints, in threads
        self.meta: MetaProperties | None = None
        self.clean_shutdown = False
        self.siblings: frozenset[str] = frozenset()  # log.dirs of the broker at its last use
        self.left_by_kafka = False  # judging by the files, Apache Kafka used it last
        self._recovery_points: dict[TopicPartition, int] = {}  # as on disk
        self._log_starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._first_dirty: dict[TopicPartition, int] = {}
        self._are_starts_certain = True
        self._ends: LiveEnds | None = None
        self._may_be_torn = True
        self._stale: set[TopicPartition] = (
            set()
        )  # names of deleted logs that checkpoints on disk may still contain
        if lock is not None:
            self._read_all()

    def _read_all(self) -> None:
        self.meta = read_meta_properties(self._directory)
        broker_epoch = _clean_shutdown(self._file(CLEAN_SHUTDOWN_FILE))
        self.clean_shutdown = broker_epoch is not None
        noted = read_mark(self._directory)
        self.siblings = noted or frozenset()
        is_new_here = self.meta is not None and noted is None
        self.left_by_kafka = is_new_here or (broker_epoch is not None and broker_epoch >= 0)
        points, marks = self._read(RECOVERY_POINT_CHECKPOINT), self._read(HIGH_WATERMARK_CHECKPOINT)
        starts = self._read(LOG_START_CHECKPOINT)
        self._recovery_points, self._log_starts = points.by_partition, starts.by_partition
        self.high_watermarks = marks.by_partition
        self._first_dirty = self._read(CLEANER_CHECKPOINT).by_partition
        self._are_starts_certain = starts.is_sealed or self._says_nothing(LOG_START_CHECKPOINT)
        # Kafka rewrites both files soon after it starts, without a checksum.
        for offsets, is_sealed in (points, marks):
            self.left_by_kafka = self.left_by_kafka or (bool(offsets) and not is_sealed)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> LogDirectory:
        """Open the directory, creating it if needed. Raises LogDirectoryError with the reason."""
        directory = os.path.abspath(os.fspath(path))
        try:
            os.makedirs(directory, exist_ok=True)
            lock = DirectoryLock(directory)
        except OSError as error:
            raise UnusableDirectoryError(
                f"{directory} cannot be used as a log directory: {error.strerror or error}"
            ) from None
        try:
            return cls(directory, lock)
        except BaseException as error:
            lock.release()
            if isinstance(error, OSError):
                raise UnusableDirectoryError(
                    f"{directory} cannot be read: {error.strerror or error}"
                ) from None
            raise

    @classmethod
    def unusable(cls, path: str | os.PathLike[str]) -> LogDirectory:
        """Return a placeholder for a directory that could not be opened."""
        return cls(os.path.abspath(os.fspath(path)), None)

    def _file(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _read(self, checkpoint: str) -> Offsets:
        try:
            return read_offsets(self._file(checkpoint))
        except CheckpointError as error:
            # Every checkpoint is expendable; without recovery points everything is scanned.
            logger.warning("%s; the file is ignored and written again", error)
            return Offsets({}, False)

    def _says_nothing(self, checkpoint: str) -> bool:
        """Return True if a checkpoint exists without entries, so it cannot be wrong."""
        try:
            with open(self._file(checkpoint), "rb") as file:
                return file.read(16) == b"0\n0\n"
        except OSError:
            return False

    @property
    def lacks_identity(self) -> bool:
        """True if a broker has used the directory, but the file that identifies it is missing."""
        return self.online and self.meta is None and read_mark(self._directory) is not None

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Verify that the directory belongs to this broker, or claim a new one."""
        if not self.online:
            return
        if self.meta is None:
            write_meta_properties(self._directory, broker_id, cluster_id)
            self.meta = MetaProperties(broker_id, cluster_id)
            return
        if self.meta.broker_id not in (None, broker_id):
            raise LogDirectoryError(
                f"{self._directory} belongs to broker {self.meta.broker_id} by its meta.properties, this is broker "
                f"{broker_id}: correct broker.id or log.dirs"
            )
        if self.meta.cluster_id not in (None, cluster_id):
            raise LogDirectoryError(
                f"{self._directory} belongs to the cluster {self.meta.cluster_id} by its meta.properties, this is "
                f"{cluster_id}: correct log.dirs or the cluster's address"
            )

    def note_siblings(self, log_dirs: Collection[str]) -> None:
        """Record the broker's directories, so that a missing one is noticed at the next start."""
        if self.online and self.siblings != frozenset(log_dirs):
            write_mark(self._directory, log_dirs)

    # Loading

    def load_logs(self, config_for: Callable[[str], LogConfig]) -> None:
        """Open every log, recovering where needed. After this, a crash is detectable."""
        if not self.online:
            return
        clean = self.clean_shutdown
        mark(self._directory)
        with suppress(FileNotFoundError):
            os.unlink(self._file(CLEAN_SHUTDOWN_FILE))
        found: list[tuple[TopicPartition, str]] = []
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if not entry.is_dir():
                    name = parse_directory_name(entry.name)
                    if name is not None:
                        kind = "a link to nowhere" if entry.is_symlink() else "not a directory"
                        self._set_offline(
                            name, f"{entry.path} is {kind}: remove it, or restore the directory"
                        )
                    continue
                if entry.name.endswith(DELETE_SUFFIX):
                    self._to_delete.append(entry.path)
                    continue
                name = parse_directory_name(entry.name) or parse_future_name(entry.name)
                if entry.name == CACHE_DIRECTORY:
                    continue
                if name is None:
                    logger.warning("%s is not the directory of a partition and is not touched", entry.path)
                else:
                    found.append((name, entry.path))
        configs = {topic: config_for(topic) for topic in {topic for (topic, _), _ in found}}
        self._start_live_ends([name for name, path in found if not path.endswith(FUTURE_SUFFIX)])

        def load(item: tuple[TopicPartition, str]) -> None:
            self._load(*item, configs[item[0][0]], clean)

        began = time.monotonic()
        after = "a clean shutdown" if clean else "an unclean shutdown; checking unflushed segments"
        if found:
            logger.info("Loading %d logs from %s, after %s", len(found), self._directory, after)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="log-recovery") as pool:
            for _ in pool.map(load, found, chunksize=16):
                pass
        self._loaded = True
        known = {name for name, point in self._recovery_points.items() if point > 0}
        self.vanished_logs = known - {*self.logs, *self.offline_logs, *self.future_logs}
        logger.info(
            "Loaded %d logs from %s in %.1f s", len(self.logs), self._directory, time.monotonic() - began
        )

    def _start_live_ends(self, names: list[TopicPartition]) -> None:
        known = {} if self.left_by_kafka else read_live_ends(self._directory, names)
        if known is None:
            logger.warning("%s is damaged and is written again", self._file(LIVE_ENDS_FILE))
            self._may_be_torn = False
        try:
            self._ends = LiveEnds(self._directory, known or {})
        except OSError as error:  # for example on a full disk: the log remains usable
            logger.warning(
                "%s cannot keep the ends of its logs: %s", self._directory, error.strerror or error
            )

    def _load(self, name: TopicPartition, path: str, config: LogConfig, clean: bool) -> None:
        is_future = path.endswith(FUTURE_SUFFIX)
        marked = read_damage_mark(path)
        known = KnownLog() if is_future or self._ends is None else self._ends.known(name)
        if marked is not None:
            known = KnownLog(max(known.end_offset, marked.end_offset), *marked[1:])
        try:
            log = PartitionLog.open(
                path,
                *name,
                config,
                topic_id=read_partition_metadata(path) or ZERO_UUID,
                found=FoundLog(
                    log_start_offset=self._log_starts.get(name, 0),
                    is_start_certain=self._are_starts_certain,
                    recovery_point=self._recovery_points.get(name, 0),
                    clean_shutdown=clean,
                    known=known,
                    read_all=marked is not None,
                    use_manifest=not self.left_by_kafka,
                    may_be_torn=self._may_be_torn and marked is None,
                ),
            )
        except (KafkaError, LogDirectoryError, OSError) as error:
            reason = (error.message if isinstance(error, KafkaError) else None) or str(error)
            if is_future:  # the copy can be recreated
                logger.warning(
                    "The unfinished copy of %s-%d in this directory cannot be used: %s", *name, reason
                )
                self._rename_deleted(path, *name)
                return
            self._set_offline(name, reason)
            if isinstance(error, DamagedLogError | CorruptSegmentError):
                mark_damaged(path, known, reason)
            if isinstance(error, DamagedLogError | CorruptSegmentError | LogDirectoryError):
                self.damaged_logs.add(name)
            return
        if marked is not None:
            remove_damage_mark(path)
        if is_future:
            self.future_logs[name] = log
        else:
            log.first_dirty_offset = self._first_dirty.get(name, 0)
            self._adopt(name, log)

    def _set_offline(self, name: TopicPartition, reason: str) -> None:
        logger.error("%s-%d is offline: %s", *name, reason)
        self.offline_logs[name] = reason

    def _adopt(self, name: TopicPartition, log: PartitionLog) -> None:
        self.logs[name] = log
        log.before_shrink = self._before_shrink
        if self._ends is not None:
            log.note_live_end(self._ends.slot(name))

    def _before_shrink(self, log: LocalLog, offset: int) -> None:
        """Lower the recovery point on disk first: a log that ends below it counts as damaged."""
        name = (log.topic, log.partition)
        if self._recovery_points.get(name, 0) > offset:
            log.recovery_point = min(log.recovery_point, offset)
            self.checkpoint()

    # Creation and deletion

    def create_log(self, topic: str, partition: int, *, topic_id: bytes, config: LogConfig) -> PartitionLog:
        name = (topic, partition)
        if name in self.logs:
            return self.logs[name]
        if name in self.offline_logs:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_logs[name])
        path = self._file(f"{topic}-{partition}")
        existed = os.path.exists(path)
        try:
            log = PartitionLog.open(path, topic, partition, config, topic_id=topic_id)
        except KafkaError:
            if not existed:
                shutil.rmtree(path, ignore_errors=True)  # the next attempt must not find a partial log
            raise
        self._adopt(name, log)
        if name in self.vanished_logs:
            self.vanished_logs.discard(name)
            self._stale.add(name)
        if name in self._stale:
            self.write_without_deleted()
        return log

    def write_without_deleted(self) -> None:
        """Remove deleted logs from all checkpoints, because new logs may reuse their names."""
        if not self._stale or not self._loaded:
            return
        self._stale.clear()
        try:
            self.checkpoint()
            self.checkpoint_high_watermarks(self.high_watermarks)
        except OSError as error:
            raise storage_error(f"cannot write the checkpoints of {self._directory}", error) from error

    def delete_log(self, topic: str, partition: int) -> None:
        """Delete a log. Its files are removed by the next `remove_deleted`."""
        self._to_delete.append(self._remove(topic, partition, DELETE_SUFFIX))

    def mark_stray(self, topic: str, partition: int) -> str:
        """Rename a log not assigned to this broker, as Kafka does, keeping its files. Return the new path."""
        return self._remove(topic, partition, STRAY_SUFFIX)

    def _remove(self, topic: str, partition: int, ending: str) -> str:
        name = (topic, partition)
        log = self.logs.pop(name, None)
        if log is not None:
            log.abandon()
        self.offline_logs.pop(name, None)
        self.damaged_logs.discard(name)
        self._forget_offsets(name)
        path = self._renamed_path(topic, partition, ending)
        os.rename(self._file(f"{topic}-{partition}"), path)
        return path

    def _forget_offsets(self, name: TopicPartition) -> None:
        self._stale.add(name)
        for offsets in (self._recovery_points, self._log_starts, self.high_watermarks, self._first_dirty):
            offsets.pop(name, None)
        if self._ends is not None:
            self._ends.forget(name)

    def _renamed_path(self, topic: str, partition: int, ending: str) -> str:
        suffix = f"-{partition}.{uuid.uuid4().hex}{ending}"
        return self._file(topic[: _NAME_MAX - len(suffix)] + suffix)

    def _rename_deleted(self, path: str, topic: str, partition: int) -> None:
        deleted = self._renamed_path(topic, partition, DELETE_SUFFIX)
        os.rename(path, deleted)
        self._to_delete.append(deleted)

    def remove_deleted(self, now_ms: int) -> None:
        """Unlink deleted logs, and deleted segments after file.delete.delay.ms."""
        deleted, self._to_delete = self._to_delete, []
        retired, self._retired = self._retired, []
        for log in retired:
            log.abandon()
        for path in deleted:
            shutil.rmtree(path, ignore_errors=True)
        for log in list(self.logs.values()):
            log.unlink_deleted(now_ms)

    # Moves from other directories

    def create_future(
        self, topic: str, partition: int, *, topic_id: bytes, config: LogConfig, start_offset: int
    ) -> PartitionLog:
        """Create an empty copy."""
        path = self._file(future_name(topic, partition))
        try:
            log = PartitionLog.open(
                path,
                topic,
                partition,
                config,
                topic_id=topic_id,
                found=FoundLog(log_start_offset=start_offset),
            )
        except KafkaError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        self.future_logs[topic, partition] = log
        return log

    def delete_future(self, topic: str, partition: int) -> None:
        log = self.future_logs.pop((topic, partition), None)
        if log is not None:
            log.abandon()
            self._forget_offsets((topic, partition))
            self._rename_deleted(os.fspath(log.path), topic, partition)

    def replace_current_with_future(self, topic: str, partition: int, source: LogDirectory) -> PartitionLog:
        """Replace the log in another directory by the copy here. `remove_deleted` removes the old log."""
        name = (topic, partition)
        future, log = self.future_logs[name], source.logs[name]
        future.rename(self._file(f"{topic}-{partition}"))
        try:
            sync_path(self._directory)  # a power failure must not restore the copy and remove the log
        except OSError as error:
            raise storage_error(f"cannot write {self._directory}", error) from error
        self._adopt(name, self.future_logs.pop(name))
        del source.logs[name]
        source._forget_offsets(name)
        deleted = source._renamed_path(topic, partition, DELETE_SUFFIX)
        log.retire(f"{topic}-{partition} was moved to {self.path}")
        source._retired.append(log)
        try:
            log.rename(deleted)
            source._to_delete.append(deleted)
        except StorageError as error:  # the next start keeps the longer of the two
            logger.warning("The old log of %s-%d could not be removed: %s", topic, partition, error)
        return future

    # Failures

    def probe(self) -> None:
        """Try to write a file of some size. Raises the resulting OSError."""
        replace_file(self._file(_PROBE_FILE), bytes(_PROBE_BYTES))
        os.unlink(self._file(_PROBE_FILE))

    def fail(self, reason: str) -> None:
        """Close every log after a disk failure, keeping only the reason."""
        self.online = False
        for name, log in self.logs.items():
            log.abandon()
            self.offline_logs[name] = reason
        for log in self.future_logs.values():
            log.abandon()
        self.logs.clear()
        self.future_logs.clear()

    def fail_log(self, topic: str, partition: int, reason: str) -> None:
        log = self.logs.pop((topic, partition), None)
        if log is not None:
            log.abandon()
            known = KnownLog(log.log_end_offset)
            mark_damaged(self._file(f"{topic}-{partition}"), known, reason)
        self.offline_logs[topic, partition] = reason

    # Checkpoints and closing

    def checkpoint(self) -> None:
        """Write recovery points and log start offsets."""
        with self._checkpointing:
            self._checkpoint()

    def _checkpoint(self) -> None:
        logs = self.logs | self.future_logs
        recovery_points = {name: log.recovery_point for name, log in logs.items()}
        # Keep entries of offline logs: they reveal missing data.
        kept = {*self.offline_logs, *self.vanished_logs} & self._recovery_points.keys()
        recovery_points |= {name: self._recovery_points[name] for name in kept}
        write_offsets(self._file(RECOVERY_POINT_CHECKPOINT), recovery_points)
        self._recovery_points = recovery_points
        starts = {
            name: log.log_start_offset
            for name, log in logs.items()
            if log.log_start_offset > log.segments.base_offset or log.is_tiered
        }
        starts |= {name: self._log_starts[name] for name in self.offline_logs if name in self._log_starts}
        write_offsets(self._file(LOG_START_CHECKPOINT), starts)
        for name, log in logs.items():
            log.checkpointed_start_offset = starts.get(name, 0)

    def checkpoint_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        with self._checkpointing:
            write_offsets(self._file(HIGH_WATERMARK_CHECKPOINT), offsets)
            self.high_watermarks = dict(offsets)

    def checkpoint_cleaner(self) -> None:
        for name, log in self.logs.copy().items():
            if log.first_dirty_offset or name in self._first_dirty:
                self._first_dirty[name] = log.first_dirty_offset
        write_offsets(self._file(CLEANER_CHECKPOINT), self._first_dirty)

    def close(self) -> None:
        """Close every log. After success, leave the mark that spares the next start the recovery."""
        if not self._loaded or not self.online:
            self.abandon()  # the checkpoints on disk know more than this object
            return
        try:
            with ThreadPoolExecutor(_THREADS, thread_name_prefix="log-close") as pool:
                closed = all(list(pool.map(self._close, [*self.logs.values(), *self.future_logs.values()])))
            self.checkpoint()
            self.checkpoint_cleaner()
            if closed:
                replace_file(self._file(CLEAN_SHUTDOWN_FILE), b'{"version":0,"brokerEpoch":-1}')
                if self._ends is not None:
                    self._ends.remove()
        except OSError as error:
            logger.error("%s could not be closed cleanly: %s", self._directory, error.strerror or error)
        finally:
            self.remove_deleted(0)
            if self._lock is not None:
                self._lock.release()
            self.online = False

    def _close(self, log: PartitionLog) -> bool:
        try:
            log.close()
        except KafkaError as error:
            logger.error("%s", error)
            return False
        return True

    def abandon(self) -> None:
        """Release everything without checkpoint or mark, as in a crash."""
        for log in (*self.logs.values(), *self.future_logs.values()):
            log.abandon()
        if self._ends is not None:
            self._ends.close()
        if self._lock is not None:
            self._lock.release()
        self.online = False


def _clean_shutdown(path: str) -> int | None:
    """Return the broker epoch in the clean-shutdown mark, -1 if it has none; None without a mark."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return int(json.load(file)["brokerEpoch"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return -1  # Kafka left the file empty until 3.8


def parse_directory_name(name: str) -> TopicPartition | None:
    """Parse `topic-partition`. Return None for any other directory."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isdecimal() or name.endswith(_FOREIGN_SUFFIXES):
        return None
    return topic, int(partition)
