"""Share-partitions led by this broker: loaded on first use, dropped with leadership."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.coordinators.leadership import PartitionStateLog
from ottla.broker.share.dead_letters import DeadLetterWriter
from ottla.broker.share.live_share_partition import LiveSharePartition, first_offset, for_member
from ottla.broker.share.share_sessions import ShareSession, ShareSessions
from ottla.broker.share.state_persister import READ, StatePersister
from ottla.cluster.peers import Peers
from ottla.coordinator.share.share_coordinator import UNINITIALIZED, ShareCoordinator, ShareKey
from ottla.metadata.nodes import SHARE_GROUP_STATE_TOPIC
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_state import ReadStatePartitionData

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.cluster.partitions.partition import Partition

# Share-partitions led by this broker: loaded on first use, dropped with leadership.


class SharePartitions:
    """Invariant: at most one object per key is in use, and its successor loads only after its last write.

    Owner: the event loop.
    """

    def __init__(self, broker: Broker, persister: StatePersister, dead_letters: DeadLetterWriter) -> None:
        self._broker = broker
        self._persister = persister
        self._dead_letters = dead_letters
        self._live: dict[ShareKey, LiveSharePartition] = {}
        self._loading: dict[ShareKey, tuple[int, asyncio.Task[LiveSharePartition]]] = {}
        self._ending: dict[ShareKey, list[LiveSharePartition]] = {}
        broker.replicas.on_leaving.append(self._not_led)

    def get(
        self, group_id: str, topic_id: bytes, index: int
    ) -> LiveSharePartition | asyncio.Task[LiveSharePartition]:
        """Return the share-partition, or a task that loads it. This call or the task raises KafkaError."""
        partition = self._broker.replicas.leader_by_id(topic_id, index)
        key = ShareKey(group_id, topic_id, index)
        live = self._live.get(key)
        if live is not None:
            if live.is_of(partition):
                return live
            self._end(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        epoch, loading = self._loading.get(key, (-1, None))
        if loading is None or epoch != partition.leader_epoch:
            if loading is not None:
                loading.cancel()
            loading = self._broker.loop.create_task(self._load(key, partition))
            loading.add_done_callback(self._loaded(key))
            self._loading[key] = (partition.leader_epoch, loading)
        return loading

    def known(self, group_id: str, topic_id: bytes, index: int) -> LiveSharePartition | None:
        return self._live.get(ShareKey(group_id, topic_id, index))

    def end_group(self, group_id: str) -> None:
        """Drop the group's share-partitions after its last member stopped fetching. The next member reloads them."""
        for key in [key for key in self._live if key.group_id == group_id]:
            self._end(key)

    def end_topic(self, topic_id: bytes) -> None:
        for key in [key for key in self._live if key.topic_id == topic_id]:
            self._end(key, ErrorCode.UNKNOWN_TOPIC_ID)

    def close(self) -> None:
        for key in list(self._live):
            self._end(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for _, loading in list(self._loading.values()):
            loading.cancel()
        for ending in self._ending.values():
            for live in ending:
                live.abandon()

    # Internals

    def _not_led(self, partition: Partition) -> None:
        name = (partition.topic_id, partition.index)
        for key in [key for key in self._live if (key.topic_id, key.partition) == name]:
            self._end(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end(self, key: ShareKey, error: ErrorCode = ErrorCode.NONE) -> None:
        live = self._live.pop(key)
        live.end(error)
        self._ending = {k: found for k, found in self._ending.items() if any(one.is_writing for one in found)}
        if live.is_writing:
            self._ending.setdefault(key, []).append(live)

    async def _load(self, key: ShareKey, partition: Partition) -> LiveSharePartition:
        for live in self._ending.pop(key, ()):
            await live.until_stored()
        epoch = partition.leader_epoch
        try:
            found = self._persister.ask(READ, key, ReadStatePartitionData(leader_epoch=epoch))
            if inspect.isawaitable(found):
                found = await found
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_REQUEST:
                # The first heartbeat initializes the state; an earlier fetch has to wait.
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
            raise for_member(error) from error
        begin = UNINITIALIZED
        if found.start_offset == UNINITIALIZED:
            try:
                await self._broker.member.read_group_config(key.group_id)
            except StoreError as error:  # a wrong start offset could not be undone
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
            begin = await first_offset(self._broker, key.group_id, partition)
        if partition.leader_epoch != epoch or not partition.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        live = LiveSharePartition(
            self._broker, self._persister, self._dead_letters, key, partition, found, begin
        )
        live.on_fenced = self._fenced
        self._live[key] = live
        return live

    def _loaded(self, key: ShareKey) -> Callable[[asyncio.Task[LiveSharePartition]], None]:
        def done(task: asyncio.Task[LiveSharePartition]) -> None:
            if self._loading.get(key, (0, None))[1] is task:
                del self._loading[key]
            if not task.cancelled():
                task.exception()  # the client may be gone

        return done

    def _fenced(self, live: LiveSharePartition) -> None:
        """Drop stale state after another leader read it or it was reset."""
        if self._live.get(live.key) is live:
            self._end(live.key, ErrorCode.NOT_LEADER_OR_FOLLOWER)


# Share state, share-partitions and share sessions of a broker.

log = logging.getLogger(__name__)

# Maximum wait for a share coordinator before COORDINATOR_NOT_AVAILABLE.
_PATIENCE_SECONDS = 15.0
# Time for a coordinator beyond the replication timeout.
_MARGIN_SECONDS = 1.0


class Sharing:
    """Owner: the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        timeout_ms = config.get_int("share.coordinator.write.timeout.ms")
        self.coordinator = ShareCoordinator(
            PartitionStateLog(broker.replicas, SHARE_GROUP_STATE_TOPIC, timeout_ms),
            broker.now_ms,
            config.get_int("share.coordinator.snapshot.update.records.per.snapshot"),
        )
        # Separate connections: requests waiting for replicas would delay transaction markers.
        peers = Peers(broker.dialer, timeout_ms / 1000 + _MARGIN_SECONDS)
        self.persister = StatePersister(
            config.broker_id, self.coordinator, broker.image, peers, _PATIENCE_SECONDS
        )
        self._dead_letter_peers = Peers(broker.dialer, timeout_ms / 1000 + _MARGIN_SECONDS)
        self.partitions = SharePartitions(
            broker, self.persister, DeadLetterWriter(broker, self._dead_letter_peers, timeout_ms)
        )
        self.sessions = ShareSessions(
            config.get_int("group.share.max.share.sessions"), self._session_ended, self.partitions.end_group
        )
        broker.groups.share.persister = self.persister

    async def ensure_topic(self) -> None:
        """Create the state topic with the first share group."""
        await self._broker.ensure_internal_topic(SHARE_GROUP_STATE_TOPIC)

    async def topic_deleted(self, topic_id: bytes) -> None:
        self.partitions.end_topic(topic_id)
        try:
            for pending in self.coordinator.delete_topics({topic_id}):
                await pending
        except KafkaError as error:
            log.warning("Cannot delete the share state of a deleted topic: %s", error)

    def close(self) -> None:
        self.partitions.close()
        self.persister.close()
        self._dead_letter_peers.close()
        self.coordinator.runtime.close()

    def _session_ended(self, group_id: str, member_id: str, session: ShareSession) -> None:
        """Release the member's locks immediately."""
        for topic_id, index in session.partitions:
            live = self.partitions.known(group_id, topic_id, index)
            if live is not None:
                live.release(member_id)
