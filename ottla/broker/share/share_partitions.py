"""Share-partitions led by this broker: loaded on first use, dropped with leadership."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.share.live_share_partition import LiveSharePartition, first_offset, for_member
from ottla.broker.share.state_handlers import READ
from ottla.broker.share.state_persister import StatePersister
from ottla.coordinator.share.state_records import UNINITIALIZED, ShareKey
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_state import ReadStatePartitionData

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.cluster.partitions.partition import Partition


class SharePartitions:
    """Invariant: at most one object per key is in use, and its successor loads only after its last write.

    Owner: the event loop.
    """

    def __init__(self, broker: Broker, persister: StatePersister) -> None:
        self._broker = broker
        self._persister = persister
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
        live = LiveSharePartition(self._broker, self._persister, key, partition, found, begin)
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
