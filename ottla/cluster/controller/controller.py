"""The controller: elects partition leaders, and completes reassignments and topic deletions.

The rules are in `elections` and `reassignment.reassignments`; `PartitionStates` and `Reassigner` write the decisions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress

from ottla.cluster import elections
from ottla.cluster.background_tasks import end_tasks
from ottla.cluster.controller.tool_requests import ToolRequests
from ottla.cluster.elections import Decide, Deposed, PartitionStates
from ottla.cluster.image.change_notifications import CHANGES, KAFKAS_CHANGES, notification, sequence_of
from ottla.cluster.image.image_feed import ImageFeed, PartitionKey
from ottla.cluster.reassignment.reassigner import Reassigner
from ottla.cluster.topics.topic_decisions import remove_topic_nodes
from ottla.metadata import nodes
from ottla.metadata.cluster_image import NO_CONTROLLER, NO_LEADER, ClusterImage, PartitionImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.dynamic_configs.effective_config import TopicConfig
from ottla.metadata.stores.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NodeStore,
    NoNode,
    Operation,
    Set,
    StoreError,
    children_if_any,
)

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 0.3
_UNREGISTER_SECONDS = 3.0
_RETURNED_SECONDS = 10.0  # longest default reconnect backoff of clients
_PURGE_SECONDS = 60.0
_CHANGES_KEPT_SECONDS = 300.0
_CONFIG_CHANGES_KEPT_SECONDS = 900.0
_MAX_CHANGES = 5000


class Controller:
    """Controller logic of one broker. Every broker has an instance; only one is active.

    Invariant: every write of an active controller checks the controller epoch of its election, so a replaced controller
    cannot change anything. Owner: the event loop.
    """

    def __init__(
        self,
        store: NodeStore,
        image: ClusterImage,
        feed: ImageFeed,
        states: PartitionStates,
        config: BrokerConfig,
        broker_id: int,
    ) -> None:
        self._store = store
        self._image = image
        self._feed = feed
        self._states = states
        self.reassigner = Reassigner(store, image, feed)
        self._config = config
        self._broker_id = broker_id
        self._guard: Check | None = None  # held while active
        self._gone: dict[int, int] = {}  # broker id of each dead process → epoch of its registration
        self._unregister_at: dict[int, float] = {}
        self._fallen: tuple[int, int] | None = None  # id of a dead controller and its controller epoch
        # Time of each re-registration, by broker id and epoch.
        self._came_back: dict[tuple[int, int], float] = {}
        self._registered = {(each.broker_id, each.epoch) for each in image.brokers.values()}
        self._ever_registered = {broker_id for broker_id, _ in self._registered}
        self._suspects: set[PartitionKey] = set()
        self._look_at_all = False
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: dict[str, float] = {}  # notification → time when it was first seen
        may_delete = config.get_bool("delete.topic.enable")
        self._tools = ToolRequests(
            store, image, feed, states, self.reassigner, self._wake.set, may_delete=may_delete
        )
        feed.on_brokers.append(self._brokers_changed)
        feed.on_offline.append(self._look_again)
        feed.on_controller.append(self._controller_changed)
        feed.on_partitions.append(self._partitions_changed)
        feed.on_deletions.append(self._wake.set)
        # unclean.leader.election.enable is a topic config, so a change may allow an election.
        feed.configs.on_topic_configs.append(self._topic_configs_changed)
        feed.configs.on_broker_configs.append(self._look_again)

    # Lifecycle

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._run()),
            loop.create_task(self._rebalance()),
            loop.create_task(self._purge()),
        ]
        self._wake.set()

    async def resign(self) -> None:
        """Trigger the election of another broker, and stop for good."""
        await self.stop()
        guard, self._guard = self._guard, None
        if guard is not None:
            with suppress(BadVersion, NoNode):
                await self._store.multi([guard, Delete(nodes.CONTROLLER)])
                logger.info("Resigned")

    async def stop(self) -> None:
        await end_tasks(self._tasks)
        self._tools.end()

    @property
    def is_active(self) -> bool:
        return self._guard is not None

    @property
    def live(self) -> set[int]:
        """Return the registered brokers except those known to be dead."""
        return {
            broker.broker_id
            for broker in self._image.brokers.values()
            if self._gone.get(broker.broker_id) != broker.epoch
        }

    @property
    def returned(self) -> set[int]:
        """Return the brokers that registered again recently. Clients may not have noticed yet."""
        since = time.monotonic() - _RETURNED_SECONDS
        return {broker_id for (broker_id, _), came in self._came_back.items() if came > since}

    # Events

    def broker_gone(self, broker_id: int, epoch: int) -> None:
        """Record that a broker's process has died, even if its session is still open."""
        self._gone[broker_id] = epoch
        loop = asyncio.get_running_loop()
        self._unregister_at[broker_id] = loop.time() + _UNREGISTER_SECONDS
        loop.call_later(_UNREGISTER_SECONDS, self._wake.set)
        if broker_id == self._image.controller_id:
            self._fallen = (broker_id, self._image.controller_epoch)
        self._brokers_changed()

    def broker_back(self, broker_id: int) -> None:
        if self._gone.pop(broker_id, None) is not None:
            logger.info("Broker %d is back", broker_id)
            self._brokers_changed()

    def session_lost(self) -> None:
        """Handle the end of the session, which removed the controller's node."""
        self._step_down("the session was lost")
        self._wake.set()

    def _brokers_changed(self) -> None:
        there = {(each.broker_id, each.epoch) for each in self._image.brokers.values()}
        if there != self._registered and self.is_active:
            self._log_brokers(there)
        for broker in there - self._registered:
            # No client can have noticed the absence of a broker that has just registered for the first time.
            if broker[0] in self._ever_registered:
                self._came_back[broker] = time.monotonic()
        self._came_back = {broker: came for broker, came in self._came_back.items() if broker in there}
        self._registered = there
        self._ever_registered |= {broker_id for broker_id, _ in there}
        self._look_again()

    def _log_brokers(self, there: set[tuple[int, int]]) -> None:
        now, before = {each for each, _ in there}, {each for each, _ in self._registered}
        bounced = {each for each, _ in there - self._registered} & before
        logger.info(
            "Newly added brokers: [%s], deleted brokers: [%s], bounced brokers: [%s], all registered brokers: [%s]",
            *(",".join(map(str, sorted(each))) for each in (now - before, before - now, bounced, now)),
        )

    def _look_again(self) -> None:
        self._look_at_all = True
        self._wake.set()

    def _partitions_changed(self, keys: Iterable[PartitionKey]) -> None:
        if self._guard is not None:
            self._suspects.update(keys)
            self._wake.set()

    def _topic_configs_changed(self, topic: TopicImage) -> None:
        self._partitions_changed((topic.name, index) for index in topic.partitions)

    def _controller_changed(self) -> None:
        if self.is_active and self._image.controller_id not in (self._broker_id, NO_CONTROLLER):
            self._step_down(f"broker {self._image.controller_id} is the controller")
        self._wake.set()

    def _step_down(self, reason: str) -> None:
        if self._guard is not None:
            logger.warning("This broker is no longer the controller: %s", reason)
        self._guard = None
        self._tools.end()

    # Election of the controller

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                if self.is_active and self._image.controller_id == NO_CONTROLLER:
                    await self._check_seat()
                if not self.is_active:
                    await self._campaign()
                if self.is_active:
                    await self._govern()
            except Deposed:
                self._step_down("another broker was elected")
                self._feed.reload()
            except StoreError as error:
                logger.warning("The controller cannot write its decisions and will try again: %s", error)
                await self._try_again()
            except Exception:
                logger.exception("The controller failed and will try again")
                await self._try_again()

    async def _try_again(self) -> None:
        self._look_at_all = True
        await asyncio.sleep(_RETRY_SECONDS)
        self._wake.set()

    async def _check_seat(self) -> None:
        """Verify that this broker still holds the controller's node.

        The image may predate the election, but an operator may also have deleted the node to force a new one.
        """
        [current] = await self._store.get_many([nodes.CONTROLLER])
        if current is None:
            self._step_down("its node is gone")
        else:
            self._image.set_controller(nodes.decode_controller(current.data), self._image.controller_epoch)
            self._controller_changed()

    async def _campaign(self) -> None:
        """Become the controller if none exists or if the current controller's process is dead."""
        stale = self._image.controller_id in (NO_CONTROLLER, self._broker_id)
        fallen = self._fallen == (self._image.controller_id, self._image.controller_epoch)
        if not stale and not fallen:
            return
        current, epoch_node = await self._store.get_many([nodes.CONTROLLER, nodes.CONTROLLER_EPOCH])
        epoch = 0 if epoch_node is None else nodes.decode_controller_epoch(epoch_node.data)
        next_epoch = nodes.encode_controller_epoch(epoch + 1)
        operations: list[Operation] = []
        if current is not None:
            # The node belongs to this broker before its restart, or to a dead broker. If another broker was elected in
            # the meantime, it raised the epoch, and the whole multi fails.
            holder = nodes.decode_controller(current.data)
            if holder != self._broker_id and self._fallen != (holder, epoch):
                return
            operations.append(Delete(nodes.CONTROLLER, current.version))
        now_ms = int(time.time() * 1000)
        operations += [
            Create(nodes.CONTROLLER, nodes.encode_controller(self._broker_id, now_ms), ephemeral=True),
            Create(nodes.CONTROLLER_EPOCH, next_epoch)
            if epoch_node is None
            else Set(nodes.CONTROLLER_EPOCH, next_epoch, epoch_node.version),
        ]
        try:
            await self._store.multi(operations)
        except (NodeExists, BadVersion, NoNode):
            return  # another broker was faster; the feed delivers its id
        self._fallen = None
        self._guard = Check(nodes.CONTROLLER_EPOCH, 0 if epoch_node is None else epoch_node.version + 1)
        self._image.set_controller(self._broker_id, epoch + 1)
        self._look_at_all = True
        self._tools.begin()
        logger.info("This broker is the controller now, in epoch %d", epoch + 1)
        # The image must contain the last writes of the previous controller before this one decides anything.
        await self._feed.sync()

    # Active controller

    async def _govern(self) -> None:
        guard = self._guard
        assert guard is not None
        live = self.live
        if self._look_at_all:
            self._look_at_all = False
            self._suspects.clear()
            suspects = list(self._image.partitions.values())
        else:
            known = (self._image.partitions.get(key) for key in self._suspects)
            suspects = [each for each in known if each is not None]
            self._suspects = set()
        adjust = self._adjusting(live, self.returned)
        keys = [(each.topic, each.partition) for each in suspects if adjust(each) is not None]
        moving = [(each.topic, each.partition) for each in suspects if each.is_moving]
        if keys:
            self._log_states(await self._states.change(keys, adjust, guard=guard))
        if moving:
            await self.reassigner.finish(moving, live, guard)
        await self._unregister(guard)
        for name in sorted(self._image.deleting):
            await self._finish_deletion(name, guard)
        await self._tools.carry_out(live, guard)

    def _log_states(self, changed: Iterable[PartitionKey]) -> None:
        found = [self._image.partitions.get(key) for key in changed]
        led = [each for each in found if each is not None and each.leader != NO_LEADER]
        offline = sorted(
            f"{each.topic}-{each.partition}"
            for each in found
            if each is not None and each.leader == NO_LEADER
        )
        if led:
            logger.info("Changed the leader or the ISR of %d partitions", len(led))
        if offline:
            more = f" and {len(offline) - 10} more" if len(offline) > 10 else ""
            logger.info(
                "No in-sync replica of %s%s is live: they have no leader", ", ".join(offline[:10]), more
            )

    def _adjusting(self, live: set[int], returned: set[int]) -> Decide:
        """Return a function that decides a partition's next state for these brokers, or None for no change."""
        unclean: dict[str, bool] = {}  # by topic: thousands of partitions share one configuration

        def adjust(partition: PartitionImage) -> PartitionImage | None:
            replicas, able = partition.replicas, self._image.able(partition, live)
            if partition.leader in able and all(each in able and each in replicas for each in partition.isr):
                return None
            name = partition.topic
            topic = self._image.topics.get(name)
            if topic is None or name in self._image.deleting:
                return None
            if name not in unclean:
                config = TopicConfig(self._config, topic.configs)
                unclean[name] = config.get_bool("unclean.leader.election.enable")
            # A broker that just disappeared may soon return with all its data. A failed disk will not.
            there = self._image.able(partition, self._image.brokers)
            lose = unclean[name] and not any(each in there for each in partition.isr)
            return elections.adjust(partition, able, unclean=lose, returned=returned)

        return adjust

    async def _unregister(self, guard: Check) -> None:
        """Delete the registrations of dead brokers before their sessions end.

        The deletion is delayed: a client that sees the new leader appear and the old broker disappear in one response
        gets confused (librdkafka for about a second).
        """
        now = asyncio.get_running_loop().time()
        for broker_id, epoch in list(self._gone.items()):
            if now < self._unregister_at[broker_id]:
                continue
            path = nodes.broker_path(broker_id)
            stat = await self._store.exists(path)
            if stat is None or stat.czxid != epoch:
                self._gone.pop(broker_id, None)
                continue
            try:
                await self._store.multi([guard, Delete(path)])
            except NoNode:
                pass
            except BadVersion:
                raise Deposed from None

    async def _finish_deletion(self, name: str, guard: Check) -> None:
        """Remove the nodes of a topic marked for deletion.

        Every broker deletes its logs when it sees the mark, or when it returns. This broker deletes its own logs before
        the nodes: a standalone broker would adopt a log without nodes as a topic.
        """
        if not self._feed.is_settled(name) or self._feed.failure(name) is not None:
            return  # the feed calls again when that changes
        if await self._store.exists(nodes.delete_topic_path(name)) is None:
            return
        logger.info("Topic %s is deleted", name)
        try:
            await remove_topic_nodes(self._store, name, guard=[guard], last=[notification(topics=[name])])
        except BadVersion:
            raise Deposed from None
        except NoNode:
            self._wake.set()  # another broker changed the topic in the meantime: check again

    # Periodic work

    async def _rebalance(self) -> None:
        """Move leadership back to preferred replicas (auto.leader.rebalance.enable)."""
        while True:
            await asyncio.sleep(self._config.get_int("leader.imbalance.check.interval.seconds"))
            guard = self._guard
            if guard is None or not self._config.get_bool("auto.leader.rebalance.enable"):
                continue
            live = self.live
            percentage = self._config.get_int("leader.imbalance.per.broker.percentage")
            keys = elections.imbalanced(self._image.partitions.values(), live, percentage)
            try:
                await self._states.change(keys, self._prefer, guard=guard)
            except Deposed:
                self._step_down("another broker was elected")
            except StoreError as error:
                logger.warning("Cannot let preferred replicas lead again and will try later: %s", error)

    def _prefer(self, partition: PartitionImage) -> PartitionImage | None:
        return elections.prefer(partition, self._image.able(partition, self.live))

    async def _purge(self) -> None:
        while True:
            await asyncio.sleep(_PURGE_SECONDS)
            if self._guard is None:
                self._seen.clear()
                continue
            try:
                await self._purge_changes(CHANGES, _CHANGES_KEPT_SECONDS)
                for parent in KAFKAS_CHANGES:
                    await self._purge_changes(parent, _CONFIG_CHANGES_KEPT_SECONDS)
                await self._purge_changes(nodes.LOG_DIR_EVENT_NOTIFICATION, 0, keep_last=False)
            except StoreError as error:
                logger.warning("Cannot remove old notifications and will try later: %s", error)

    async def _purge_changes(self, parent: str, keep_seconds: float, *, keep_last: bool = True) -> None:
        """Remove notifications that all brokers have read.

        `keep_last` retains the newest one where brokers detect gaps by its number.
        """
        now = time.monotonic()
        names = sorted(await children_if_any(self._store, parent), key=sequence_of)
        if keep_last:
            del names[-1:]
        for index, name in enumerate(names):
            path = f"{parent}/{name}"
            if now - self._seen.setdefault(path, now) >= keep_seconds or index < len(names) - _MAX_CHANGES:
                with suppress(NoNode):
                    await self._store.delete(path)
                self._seen.pop(path, None)
