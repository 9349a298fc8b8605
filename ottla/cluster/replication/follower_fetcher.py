"""The follower's half of replication: fetches what another broker leads, with one connection and one fetch session.

The session is KIP-227's with one more rule, which this half and the leader's (`leader_fetch_handler`) both keep: after
records, an error or a divergence, the leader leaves a partition out of its responses until the follower has named it
in a request again. So a request costs as much as has happened, however many partitions are followed; and the follower
may send a second request while the first one waits, to end the wait.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator

from ottla.cluster.background_tasks import start_task
from ottla.cluster.partition import Partition
from ottla.cluster.peer import PeerConnection, PeerError
from ottla.cluster.peers import PeerDialer
from ottla.cluster.replication.follower_requests import (
    FETCH_VERSION,
    FetcherSettings,
    Key,
    ask_offsets,
    fetch_request,
)
from ottla.cluster.replication.log_start_checkpoints import LogStartCheckpoints
from ottla.cluster.replication.replication_throttle import ReplicationThrottle
from ottla.cluster.replication.truncation import truncation_offset
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

logger = logging.getLogger(__name__)

_PASSING_FAILURES = 5
# What one turn of the event loop writes: then others have theirs.
_BYTES_PER_TURN = 1024 * 1024
_FIRST_RETRY = 0.01


class Followed:
    """A partition that is fetched, and the state of that."""

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
        self.named_in = 0  # the request that named it last; what answers an earlier one is not for it
        self.failures = 0  # in a row
        self.timer: asyncio.TimerHandle | None = None  # until it is named again
        self.reserved = 0  # bytes that a throttle allows for it, and that have not come yet
        self.is_near = False  # it has what the leader had committed: little is to come
        self.is_out_of_range = False  # until its log ends within the leader's again
        self.logged: str | None = None  # the last failure that was logged


class FollowerFetcher:
    """Invariant: what is appended was asked for from the end of the log, in the epoch that the partition still has.

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
    ) -> None:
        self._broker_id = broker_id
        self._leader = leader
        self._settings = settings
        self._dialer = dialer
        self._throttle = throttle
        self._log_starts = log_starts
        self._loop = asyncio.get_running_loop()
        self._followed: dict[Key, Followed] = {}
        self._to_name: dict[Key, None] = {}  # to be named in the next request: new, or at another offset
        self._to_forget: dict[Key, None] = {}
        self._named: set[Key] = set()  # what the leader's session has
        self._peer: PeerConnection | None = None
        self._lost: asyncio.Future[OSError] | None = None
        self._session_id = 0
        self._session_epoch = 0
        self._request = 0  # number of the last one
        self._answered = 0
        self._asked_at = 0.0
        self._is_busy = False  # a response is being handled
        self._wanted = asyncio.Event()
        self._poked = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._task = self._loop.create_task(self._run())

    # What is followed

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

    # The connection

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
            if peer.is_lost:  # while no request was in flight that could have failed
                raise PeerError(f"{peer.host}:{peer.port} hung up")
            if peer.in_flight and self._loop.time() - self._asked_at > self._timeout:
                raise PeerError(f"{peer.host}:{peer.port} has not answered for {self._timeout:.0f} s")
        raise lost.result()

    @property
    def _timeout(self) -> float:
        return self._settings.timeout + self._settings.wait_max_ms / 1000

    def _poke(self) -> None:
        """Send a second request while a fetch waits at the leader: that ends the wait."""
        if not self._poked:
            self._poked = True
            self._loop.call_soon(self._send_if_due)

    def _send_if_due(self) -> None:
        self._poked = False
        if self._lost is None or self._lost.done() or self._is_busy:
            return
        # One in flight waits for data, a second one says what is new; a third would be no quicker.
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
                # Until it is named the leader says nothing of it.
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
            # The leader has forgotten the session, or never had room for it: begin anew.
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
        """Take in as many answers as fit in a turn, then ask for more."""
        left = _BYTES_PER_TURN
        for topic_id, data in answers:
            key = (topic_id, data.partition_index)
            followed = self._followed.get(key)
            if followed is None or key in self._to_name or number < followed.named_in:
                continue  # it is an answer to what is no longer asked
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
        """The leader is to know where the log starts, once it certainly does."""
        log = followed.partition.log
        if log.durable_start_offset == log.log_start_offset:
            self._to_name[key] = None
        else:
            self._log_starts.write(followed.partition)

    def _truncate(self, partition: Partition, epoch: int, end_offset: int) -> None:
        """The leader's log has diverged: it ends `epoch` at `end_offset`. See `replication.truncation`."""
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
        """Whether the throttle lets a partition be fetched now. Its share is reserved as soon as it is named."""
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

    # When it fails

    def _on_error(self, key: Key, followed: Followed, error: ErrorCode) -> None:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            followed.is_out_of_range = True
            start_task(self._tasks, self._move_into_range(key, followed))
            return
        # The leader has not heard of its election yet, or no longer leads: the image of one of us is behind. That is
        # so for thousands of partitions after an election, and worth a line only where it lasts.
        level = logging.DEBUG if followed.failures < _PASSING_FAILURES else logging.INFO
        self._retry(key, followed, error.name, level)

    def _retry(
        self, key: Key, followed: Followed, reason: str, level: int, defect: Exception | None = None
    ) -> None:
        """Name it again after a while that grows with each failure."""
        if self._followed.get(key) is not followed:
            return  # its log is offline by now, or it has another leader
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
        """Remove records of epochs above the leader's: bits have flipped where no checksum looks."""
        log = partition.log
        if log.epochs.latest <= partition.leader_epoch:
            return
        _, end = log.epoch_end_offset(partition.leader_epoch)
        reason = (
            f"what follows claims leader epoch {log.epochs.latest}, the leader is in {partition.leader_epoch}"
        )
        self._truncate_to(partition, max(end, log.log_start_offset), reason)

    async def _move_into_range(self, key: Key, followed: Followed) -> None:
        """Our log end offset is outside the leader's log (OFFSET_OUT_OF_RANGE): truncate, or start anew."""
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


def _pause(failures: int, longest: float) -> float:
    """Ten milliseconds, then twice as long each time, never in step with the others."""
    return float(min(_FIRST_RETRY * 2 ** min(failures - 1, 20), longest) * random.uniform(0.8, 1.2))
