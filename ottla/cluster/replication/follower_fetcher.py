"""The follower's side of replication: fetches from one leader, with one connection and one fetch session.

The session follows KIP-227 plus one rule shared with the leader's side (`leader_fetch_handler`): after records, an
error or a divergence, the leader omits a partition from its responses until a request names the partition again. The
cost of a request therefore depends on the number of events, not of partitions. The follower may also send a second
request to end the wait of the first.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator

from ottla.cluster.background_tasks import start_task
from ottla.cluster.partitions.partition import Partition
from ottla.cluster.peers import PeerConnection, PeerDialer, PeerError
from ottla.cluster.replication.follower_requests import (
    FETCH_VERSION,
    FetcherSettings,
    Key,
    RebuildState,
    ask_local_start,
    ask_offsets,
    fetch_request,
    truncation_offset,
)
from ottla.cluster.replication.log_start_checkpoints import LogStartCheckpoints
from ottla.cluster.replication.replication_throttle import ReplicationThrottle
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

logger = logging.getLogger(__name__)

_PASSING_FAILURES = 5
# Bytes written per turn of the event loop, so that other tasks get their turns.
_BYTES_PER_TURN = 1024 * 1024
_FIRST_RETRY = 0.01


class Followed:
    """State of a followed partition."""

    __slots__ = (
        "failures",
        "is_near",
        "is_out_of_range",
        "logged",
        "named_in",
        "partition",
        "reserved",
        "timer",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.named_in = 0  # number of the last request that named it; answers to earlier ones are ignored
        self.failures = 0  # consecutive
        self.timer: asyncio.TimerHandle | None = None  # runs until the partition is named again
        self.reserved = 0  # bytes granted by a throttle and not yet received
        self.is_near = False  # has everything that the leader had committed: little is outstanding
        self.is_out_of_range = False  # until the log ends within the leader's range again
        self.logged: str | None = None  # last failure that was logged


class FollowerFetcher:
    """Invariant: appended records were requested at the log end offset, in the partition's current epoch.

    Owner: the event loop.
    """

    def __init__(
        self,
        broker_id: int,
        leader: int,
        settings: FetcherSettings,
        dialer: PeerDialer,
        throttle: ReplicationThrottle,
        log_starts: LogStartCheckpoints,
        rebuilt_state: RebuildState,
    ) -> None:
        self._broker_id = broker_id
        self._leader = leader
        self._settings = settings
        self._dialer = dialer
        self._throttle = throttle
        self._log_starts = log_starts
        self._rebuilt_state = rebuilt_state
        self._loop = asyncio.get_running_loop()
        self._followed: dict[Key, Followed] = {}
        self._to_name: dict[Key, None] = {}  # for the next request: new, or at another offset
        self._to_forget: dict[Key, None] = {}
        self._named: set[Key] = set()  # contents of the leader's session
        self._peer: PeerConnection | None = None
        self._lost: asyncio.Future[OSError] | None = None
        self._session_id = 0
        self._session_epoch = 0
        self._request = 0  # number of the last request
        self._answered = 0
        self._asked_at = 0.0
        self._is_busy = False  # a response is being processed
        self._wanted = asyncio.Event()
        self._poked = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._task = self._loop.create_task(self._run())

    # Followed partitions

    def add(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        self._followed[key] = Followed(partition)
        self._to_forget.pop(key, None)
        self._name(key)

    def remove(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        followed = self._followed.pop(key, None)
        if followed is not None and followed.timer is not None:
            followed.timer.cancel()
        self._to_name.pop(key, None)
        if key in self._named:
            self._to_forget[key] = None
            self._poke()

    def show(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        followed = self._followed[key]
        if followed.timer is None and not followed.is_out_of_range:
            self._name(key)

    def _name(self, key: Key) -> None:
        self._to_name[key] = None
        self._wanted.set()
        self._poke()

    async def close(self) -> None:
        self._task.cancel()
        for task in self._tasks:
            task.cancel()
        for followed in self._followed.values():
            if followed.timer is not None:
                followed.timer.cancel()
        self._followed.clear()
        if self._peer is not None:
            self._peer.close()
        await asyncio.gather(self._task, *self._tasks, return_exceptions=True)

    # Connection

    async def _run(self) -> None:
        failures = 0
        while True:
            if not self._followed:
                self._wanted.clear()
                await self._wanted.wait()
            started = self._loop.time()
            try:
                await self._fetch_until_lost()
            except OSError as error:
                log = logger.warning if failures == 1 else logger.debug
                log("Fetching from broker %d failed, trying again: %s", self._leader, error)
            except Exception:
                logger.exception("Fetching from broker %d failed, trying again", self._leader)
            finally:
                if self._peer is not None:
                    self._peer.close()
                    self._peer = None
            failures = failures + 1 if self._loop.time() - started < 1 else 1
            await asyncio.sleep(_pause(failures, self._settings.backoff))

    async def _fetch_until_lost(self) -> None:
        peer = self._peer = self._dialer.connection_to(self._leader, "fetcher")
        await peer.connect()
        self._session_id = self._session_epoch = 0
        self._is_busy = False
        self._named.clear()
        self._to_forget.clear()
        self._answered = self._request
        for key, followed in self._followed.items():
            if followed.timer is None and not followed.is_out_of_range:
                self._to_name[key] = None
        lost = self._lost = self._loop.create_future()
        self._send()
        while not lost.done():
            await asyncio.wait([lost], timeout=1.0)
            if lost.done():
                break
            if peer.is_lost:  # lost while no request was in flight to notice it
                raise PeerError(f"{peer.host}:{peer.port} hung up")
            if peer.in_flight and self._loop.time() - self._asked_at > self._timeout:
                raise PeerError(f"{peer.host}:{peer.port} has not answered for {self._timeout:.0f} s")
        raise lost.result()

    @property
    def _timeout(self) -> float:
        return self._settings.timeout + self._settings.wait_max_ms / 1000

    def _poke(self) -> None:
        """Send a second request to end the wait of a fetch at the leader."""
        if not self._poked:
            self._poked = True
            self._loop.call_soon(self._send_if_due)

    def _send_if_due(self) -> None:
        self._poked = False
        if self._lost is None or self._lost.done() or self._is_busy:
            return
        # One request waits for data, a second one carries changes; a third would not be quicker.
        if self._request - self._answered < 2 and (self._to_name or self._to_forget):
            self._send()

    def _send(self) -> None:
        peer = self._peer
        if peer is None:
            return
        if not peer.is_open:
            self._on_lost(PeerError(f"{peer.host}:{peer.port} hung up"))
            return
        if not self._followed and not self._to_forget:
            return
        if self._session_id == 0 and self._request != self._answered:
            return  # the session is being opened
        self._request += 1
        if self._request - self._answered == 1:
            self._asked_at = self._loop.time()
        number = self._request
        peer.send(
            self._next_request(),
            FETCH_VERSION,
            lambda response: self._on_response(number, response),
            self._on_lost,
        )

    def _on_lost(self, error: OSError) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(error)

    def _next_request(self) -> FetchRequest:
        named = []
        for key in list(self._to_name):
            followed = self._followed[key]
            if not self._may_fetch(followed):
                # The leader does not mention the partition until it is named.
                del self._to_name[key]
                self._name_later(key, followed, self._throttle.wait())
                continue
            followed.named_in = self._request
            named.append((followed.partition, followed.reserved or self._settings.max_bytes))
        self._named.update(self._to_name)
        self._named.difference_update(self._to_forget)
        request = fetch_request(self._broker_id, self._settings, named, self._to_forget)
        request.session_id, request.session_epoch = self._session_id, self._session_epoch
        self._to_name.clear()
        self._to_forget.clear()
        self._session_epoch += 1
        return request

    # Responses

    def _on_response(self, number: int, response: FetchResponse) -> None:
        self._answered = number
        self._asked_at = self._loop.time()
        if response.error_code:
            assert self._peer is not None
            # The leader forgot the session, or had no room for it: start a new one.
            logger.info("Broker %d: %s", self._leader, ErrorCode(response.error_code).name)
            self._peer.close()
            self._on_lost(PeerError(ErrorCode(response.error_code).name))
            return
        if response.session_id:
            self._session_id = response.session_id
        self._is_busy = True
        self._handle(
            number,
            ((topic.topic_id, data) for topic in response.responses for data in topic.partitions),
            self._peer,
        )

    def _handle(
        self, number: int, answers: Iterator[tuple[bytes, PartitionData]], peer: PeerConnection | None
    ) -> None:
        """Process as many answers as fit in a turn, then fetch more."""
        left = _BYTES_PER_TURN
        for topic_id, data in answers:
            key = (topic_id, data.partition_index)
            followed = self._followed.get(key)
            if followed is None or key in self._to_name or number < followed.named_in:
                continue  # the partition is no longer followed, or was named again since
            self._take_in(key, followed, data)
            left -= len(data.records or b"")
            if left <= 0:
                assert peer is not None
                peer.hold()
                self._loop.call_soon(self._handle, number, answers, peer)
                return
        if peer is None or peer is not self._peer:
            return
        self._is_busy = False
        if self._request == self._answered or self._to_name or self._to_forget:
            self._send()
        peer.release()

    def _take_in(self, key: Key, followed: Followed, data: PartitionData) -> None:
        partition = followed.partition
        try:
            if data.error_code:
                self._on_error(key, followed, ErrorCode(data.error_code))
            elif data.diverging_epoch is not None:
                self._truncate(partition, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
                self._to_name[key] = None
            else:
                if data.records:
                    partition.append_from_leader(data.records)
                    self._to_name[key] = None
                    if followed.reserved or self._throttle.covers(partition, self._broker_id):
                        self._throttle.take(len(data.records) - followed.reserved)
                        followed.reserved = 0
                followed.is_near = partition.log.log_end_offset >= data.high_watermark
                if partition.follow_offsets(data.high_watermark, data.log_start_offset):
                    self._start_moved(key, followed)
                if followed.failures:
                    followed.failures, followed.logged = 0, None
        except KafkaError as error:
            self._retry(key, followed, str(error), logging.ERROR)
        except Exception as error:
            self._retry(key, followed, repr(error), logging.ERROR, error)

    def _start_moved(self, key: Key, followed: Followed) -> None:
        """Report the new log start offset to the leader, once it is on disk."""
        log = followed.partition.log
        if log.durable_start_offset == log.log_start_offset:
            self._to_name[key] = None
        else:
            self._log_starts.write(followed.partition)

    def _truncate(self, partition: Partition, epoch: int, end_offset: int) -> None:
        """Truncate after a divergence: the leader's log ends `epoch` at `end_offset`. See `replication.truncation`."""
        log = partition.log
        offset = truncation_offset(
            log.log_end_offset, partition.high_watermark, log.epoch_end_offset(epoch), (epoch, end_offset)
        )
        level = logging.WARNING if offset < partition.high_watermark else logging.INFO
        self._truncate_to(partition, offset, "the logs diverge there", level)

    def _truncate_to(
        self, partition: Partition, offset: int, reason: str, level: int = logging.WARNING
    ) -> None:
        if offset < partition.log.log_end_offset:
            logger.log(
                level,
                "Truncating %s-%d, led by broker %d, from offset %d to %d: %s",
                partition.topic,
                partition.index,
                self._leader,
                partition.log.log_end_offset,
                offset,
                reason,
            )
        partition.truncate_to(offset)

    def _may_fetch(self, followed: Followed) -> bool:
        """Return True if the throttle permits fetching a partition now. Naming the partition reserves its share."""
        throttle = self._throttle
        if followed.reserved:
            throttle.take(-followed.reserved)
            followed.reserved = 0
        if not followed.is_near and throttle.covers(followed.partition, self._broker_id):
            followed.reserved = throttle.reserve(self._settings.max_bytes)
            return followed.reserved > 0
        return True

    def _name_later(self, key: Key, followed: Followed, seconds: float) -> None:
        def again() -> None:
            followed.timer = None
            if self._followed.get(key) is followed:
                self._name(key)

        followed.timer = self._loop.call_later(seconds, again)

    # Failures

    def _on_error(self, key: Key, followed: Followed, error: ErrorCode) -> None:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            followed.is_out_of_range = True
            start_task(self._tasks, self._move_into_range(key, followed))
            return
        if error is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            followed.is_out_of_range = True
            start_task(self._tasks, self._start_above_remote(key, followed))
            return
        # The leader has not yet learned of its election, or no longer leads: one of the images is behind. This happens
        # to thousands of partitions after an election and is worth a log line only if it lasts.
        level = logging.DEBUG if followed.failures < _PASSING_FAILURES else logging.INFO
        self._retry(key, followed, error.name, level)

    def _retry(
        self, key: Key, followed: Followed, reason: str, level: int, defect: Exception | None = None
    ) -> None:
        """Name the partition again after a pause that grows with each failure."""
        if self._followed.get(key) is not followed:
            return  # its log is offline, or it has another leader
        if followed.logged != reason and logger.isEnabledFor(level):
            followed.logged = reason
            partition = followed.partition
            logger.log(
                level,
                "Cannot fetch %s-%d from its leader and will try again: %s",
                partition.topic,
                partition.index,
                reason,
                exc_info=defect,
            )
        followed.failures += 1
        self._name_later(key, followed, _pause(followed.failures, self._settings.backoff))

    def _truncate_future_epochs(self, partition: Partition) -> None:
        """Remove records with epochs above the leader's, caused by flipped bits outside of the checksum."""
        log = partition.log
        if log.epochs.latest <= partition.leader_epoch:
            return
        _, end = log.epoch_end_offset(partition.leader_epoch)
        reason = f"the next batch claims leader epoch {log.epochs.latest}, the leader is in {partition.leader_epoch}"
        self._truncate_to(partition, max(end, log.log_start_offset), reason)

    async def _move_into_range(self, key: Key, followed: Followed) -> None:
        """Handle OFFSET_OUT_OF_RANGE: the log end offset is outside the leader's log, so truncate or start over."""
        partition = followed.partition
        try:
            self._truncate_future_epochs(partition)
            if self._peer is None:
                raise PeerError("not connected")
            start, end = await ask_offsets(self._peer, self._broker_id, partition)
            if self._followed.get(key) is not followed:
                return
            log_end = partition.log.log_end_offset
            if end < log_end:
                self._truncate_to(partition, end, "the leader's log ends there")
            elif start > log_end:
                logger.warning(
                    "Restarting the log of %s-%d at offset %d: it ended at %d, and the leader has deleted what follows",
                    partition.topic,
                    partition.index,
                    start,
                    log_end,
                )
                partition.truncate_fully_and_start_at(start)
            followed.failures = 0
            self._name(key)
        except OSError:
            self._retry(key, followed, "the leader was lost", logging.DEBUG)
        except KafkaError as error:
            self._retry(key, followed, str(error), logging.INFO)
        except Exception as error:
            self._retry(key, followed, repr(error), logging.ERROR, error)
        finally:
            followed.is_out_of_range = False

    async def _start_above_remote(self, key: Key, followed: Followed) -> None:
        """Restart where the leader's local log begins, with producers and leader epochs from remote storage."""
        partition = followed.partition
        try:
            if self._peer is None:
                raise PeerError("not connected")
            start, local_start, epoch = await ask_local_start(self._peer, self._broker_id, partition)
            offset, epochs, producers = await self._rebuilt_state(partition, local_start, epoch)
            if self._followed.get(key) is not followed:
                return
            logger.info(
                "Starting the log of %s-%d at offset %d: the leader has the records from %d on in remote storage",
                partition.topic,
                partition.index,
                offset,
                start,
            )
            partition.restart_above_remote(offset, start, epochs, producers)
            followed.failures = 0
            self._name(key)
        except Exception as error:
            self._retry(key, followed, str(error) or repr(error), logging.WARNING)
        finally:
            followed.is_out_of_range = False


def _pause(failures: int, longest: float) -> float:
    """Return ten milliseconds, doubled with each failure, with jitter."""
    return float(min(_FIRST_RETRY * 2 ** min(failures - 1, 20), longest) * random.uniform(0.8, 1.2))
