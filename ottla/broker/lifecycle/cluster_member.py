"""The lifecycle of a broker in its cluster: start, take part, and leave without clients noticing.

A standalone broker is a cluster of one: the same objects, with no peers to watch or hand over to.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from ottla.broker.lifecycle.failed_disks import DamagedReplicas, FailedDisks, irreplaceable
from ottla.cluster import elections
from ottla.cluster.background_tasks import end_tasks, start_task
from ottla.cluster.controller.controller import Controller
from ottla.cluster.controller.failure_detection import FailureDetector, Presence, Suspicions, probe
from ottla.cluster.elections import PartitionStates
from ottla.cluster.image.image_feed import ImageFeed, PartitionKey
from ottla.cluster.membership import Membership
from ottla.cluster.peers import PeerAddress
from ottla.cluster.replication.follower_requests import FollowerConfirmation
from ottla.metadata import nodes
from ottla.metadata.cluster_image import PartitionImage, TopicImage
from ottla.metadata.nodes import BrokerRegistration, Endpoint
from ottla.metadata.stores.store import NodeStore, SessionState, StoreError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 60.0
_HAND_OVER_SECONDS = 5.0
_LEASE_CHECK_SECONDS = 0.1
_SUCCESSOR_CHECK_SECONDS = 0.1
_NAMED = 5
# Served only by Apache Kafka brokers: Ottla's controller sends no requests to brokers.
_LEADER_AND_ISR = 4
# A leaving broker answers for this long, so that clients learn their new leaders from it.
_FAREWELL_SECONDS = 0.15


class ClusterMember:
    """The broker's part in its cluster. Owner: the event loop."""

    def __init__(
        self,
        broker: Broker,
        store: NodeStore,
        feed: ImageFeed,
        endpoints: tuple[Endpoint, ...],
        lost: Collection[PartitionKey] = (),
    ) -> None:
        """`lost` lists partitions with missing logs; they restart with empty logs."""
        self._broker = broker
        self._store = store
        self._image = broker.image
        self._id = broker.node_id
        self._endpoints = endpoints
        self.feed = feed
        self.states = PartitionStates(store, broker.image, feed)
        self.controller = Controller(store, broker.image, feed, self.states, broker.config, self._id)
        self.membership = Membership(
            store,
            broker.image,
            self._registration,
            broker.config.get_int("zookeeper.session.timeout.ms") / 1000,
        )
        self._suspicions = Suspicions(store, self._id, broker.dialer)
        self._detector = FailureDetector(
            broker.dialer,
            self._suspicions.is_gone,
            lambda target: self.controller.broker_gone(target.broker_id, target.epoch),
            lambda target: self.controller.broker_back(target.broker_id),
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._forgetting: dict[bytes, asyncio.Task[None]] = {}  # cleanup of deleted topics, by topic id
        # Number of expired sessions after which the broker has yet to catch up on the cluster's decisions.
        self._lost_sessions = 0
        self._unreachable = False
        self._follower_confirmation = FollowerConfirmation(
            self._id, broker.replicas.partitions, broker.follower_sessions.followers
        )
        self._lost = frozenset(lost)
        # Registered brokers that are gone, if no other broker would notice
        self._gone: list[PeerAddress] = []
        self._disks = FailedDisks(broker, self, self._tasks)
        broker.replicas.leader_context.isr_store = self.states
        if store.lease_until < math.inf:
            broker.replicas.lease = self.lease
        feed.configs.on_quotas.append(lambda: broker.quotas.set_quotas(broker.image.client_quotas))
        for throttle in (broker.replicas.leader_throttle, broker.replicas.fetchers.throttle):
            throttle.configure()
            feed.configs.on_broker_configs.append(throttle.configure)
        feed.on_topic_deleted.append(self._topic_deleted)
        feed.on_brokers.append(self._peers_changed)
        # A follower that caught up before its registration can join the ISR now.
        feed.on_brokers.append(broker.replicas.check_in_sync)
        feed.on_controller.append(self._peers_changed)
        feed.on_offline.append(broker.replicas.check_in_sync)
        store.on_session.append(self._session_changed)

    def _registration(self) -> BrokerRegistration:
        config = self._broker.config
        rack = config.get_optional_str("broker.rack")
        return BrokerRegistration(self._id, self._endpoints, rack, timestamp_ms=self._broker.now_ms())

    @property
    def address(self) -> str:
        """Where clients reach this broker."""
        return f"{self._endpoints[0].host}:{self._endpoints[0].port}"

    async def start_empty(self, keys: Collection[PartitionKey]) -> set[PartitionKey]:
        """Give up the records of partitions whose logs are missing here, and return these partitions."""
        return await self._disks.start_empty(keys)

    # Start

    async def prepare(self) -> None:
        """Prepare for registration: leave the ISRs, open the logs, and publish offline replicas."""
        await self.membership.wait_for_id()
        self._gone = await self._begin_again()
        if not self._broker.config.zookeeper_connect:
            self._broker.replicas.adopt_found()
        self.feed.start(self._broker.replicas)
        topics = [*self._image.topics, *self._image.deleting]
        await self.feed.until(lambda: all(map(self.feed.is_settled, topics)), _SETTLE_SECONDS)
        await self._disks.publish()

    async def start(self) -> None:
        await self.membership.register()
        await self.feed.sync()
        self.feed.on_brokers.append(self.membership.check)
        self._suspicions.start()
        self.controller.start()
        self._peers_changed()
        for target in self._gone:
            start_task(self._tasks, self._find_out(target))
        if self._broker.replicas.lease is not None:
            start_task(self._tasks, self._watch_lease())
            start_task(self._tasks, DamagedReplicas(self._broker, self._disks).rebuild())
        else:
            # Standalone: clients find a controller from the start, and deletions interrupted by a crash are completed.
            await self.feed.until(self._is_governed, _SETTLE_SECONDS)

    def _is_governed(self) -> bool:
        unfinished = (name for name in self._image.deleting if self.feed.failure(name) is None)
        return self.controller.is_active and not any(unfinished)

    async def _begin_again(self) -> list[PeerAddress]:
        """Give up leadership from before the restart, because unflushed records may be lost.

        Other replicas lead and this broker catches up. Where it was the last in-sync replica, it leads again in a new
        epoch. Return the brokers that are registered but gone, if no other broker is there to notice.
        """
        peers = await self._peers()
        live = {target.broker_id for target, found in peers.items() if found is Presence.SERVING}
        offline = self._lost | set(self._broker.replicas.offline)
        directories = self._broker.replicas.log_directories
        seen = {name: log.epochs.latest for each in directories for name, log in each.logs.items()}

        def decide(partition: PartitionImage) -> PartitionImage | None:
            key, able = (partition.topic, partition.partition), self._image.able(partition, live)
            if key in offline:
                return elections.give_up(partition, self._id, able)
            return elections.without(partition, self._id, able) or elections.lead_again(
                partition, self._id, able, seen_epoch=seen.get(key, -1)
            )

        await self.states.change(self._mine(), decide)
        self._disks.keep_offline(irreplaceable(self._lost, self._image, self._broker.config, self._id))
        return [] if live else [target for target, found in peers.items() if found is Presence.GONE]

    async def _find_out(self, target: PeerAddress) -> None:
        """Check a silent peer. The peer may be gone, or this broker may be cut off."""
        try:
            if await self._suspicions.is_gone(target):
                self.controller.broker_gone(target.broker_id, target.epoch)
        except StoreError as error:
            logger.warning("Cannot find out whether broker %d is gone: %s", target.broker_id, error)

    async def _peers(self) -> dict[PeerAddress, Presence]:
        """Probe the other registered brokers; registrations outlive a crash."""
        dialer = self._broker.dialer
        targets = dialer.addresses(set(self._image.brokers) - {self._id}).values()
        answers = await asyncio.gather(*(probe(dialer, target) for target in targets))
        for target, (_, apis) in zip(targets, answers, strict=True):
            if _LEADER_AND_ISR in apis:
                raise StoreError(
                    f"Broker {target.broker_id} at {target.host}:{target.port} is Apache Kafka, and the two cannot "
                    "share a cluster: stop all brokers of Kafka before the first of Ottla starts"
                )
        return {target: found for target, (found, _) in zip(targets, answers, strict=True)}

    def _mine(self) -> list[PartitionKey]:
        return [
            key
            for key, partition in self._image.partitions.items()
            if self._id == partition.leader or self._id in partition.isr
        ]

    # Operation

    def lease(self) -> float:
        """Return the time until which this broker is certain of its leadership.

        The lease lasts as long as its session cannot have expired. While ZooKeeper is unreachable, the lease also holds
        as long as every electable broker keeps fetching from this one.
        """
        if self._lost_sessions:
            return 0.0
        until, now = self._store.lease_until, monotonic()
        if now <= until:
            return until
        return self._follower_confirmation.until(now)

    async def _watch_lease(self) -> None:
        """After the lease expires, answer waiting requests with an error; new requests are refused elsewhere."""
        while True:
            await asyncio.sleep(_LEASE_CHECK_SECONDS)
            if not self._broker.replicas.leads_for_certain:
                self._broker.replicas.stop_waiting()

    def _session_changed(self, state: SessionState) -> None:
        if self._unreachable and state is not SessionState.SUSPENDED:
            # The broker learns that its session expired only when ZooKeeper answers again.
            ended = state is SessionState.EXPIRED
            logger.info("ZooKeeper is back, and the session %s", "has ended" if ended else "goes on")
        self._unreachable = state is SessionState.SUSPENDED
        if state is SessionState.EXPIRED:
            self._lost_sessions += 1
            self.controller.session_lost()
            self.membership.register_again()
            start_task(self._tasks, self._catch_up())
        elif state is SessionState.SUSPENDED:
            logger.warning(
                "ZooKeeper is unreachable: until it is back no leader is elected and no topic or ISR changes"
            )

    async def _catch_up(self) -> None:
        """Suspend leadership until the image includes the cluster's decisions from the meantime."""
        self.feed.reload()
        await self.feed.sync()
        self._lost_sessions -= 1
        if not self._lost_sessions:
            logger.info("This broker is up to date with the cluster again and leads its partitions")

    async def read_group_config(self, group_id: str) -> None:
        """Read the config from the store: another broker may have answered before its notification arrives here."""
        await self._store.sync()
        await self.feed.configs.read_entity(nodes.group_config_path(group_id).removeprefix("/config/"))

    def _peers_changed(self) -> None:
        """The controller watches all brokers, and all brokers watch the controller."""
        watched = set(self._image.brokers) if self.controller.is_active else {self._image.controller_id}
        self._detector.watch(self._broker.dialer.addresses(watched - {self._id}))

    def _topic_deleted(self, topic: TopicImage) -> None:
        self._broker.replicas.forget_offline(topic.name)
        task = start_task(self._tasks, self._broker.topic_gone(topic))
        self._forgetting[topic.topic_id] = task
        task.add_done_callback(lambda _: self._forgetting.pop(topic.topic_id))

    async def forgotten(self, topic_id: bytes, seconds: float) -> None:
        task = self._forgetting.get(topic_id)
        if task is not None:
            await asyncio.wait([task], timeout=seconds)

    # Shutdown

    async def leave(self) -> None:
        """Controlled shutdown: hand over leadership before this broker stops."""
        if self.others and self._broker.config.get_bool("controlled.shutdown.enable"):
            await self._wait_for_successors()
        await self._detector.stop()
        await self._suspicions.stop()
        await self._broker.replicas.close()
        try:
            async with asyncio.timeout(_HAND_OVER_SECONDS):
                if self.others and self._broker.config.get_bool("controlled.shutdown.enable"):
                    led = sum(each.is_leader for each in self._broker.replicas.partitions())
                    await self.let_others_lead(self._mine())
                    logger.info(
                        "Controlled shutdown: %d partitions that this broker led are handed over", led
                    )
                    await asyncio.sleep(_FAREWELL_SECONDS)
                await self.controller.resign()
                await self.membership.leave()
        except (StoreError, TimeoutError):
            logger.warning(
                "ZooKeeper is unreachable: other brokers will lead when this broker's session has ended"
            )
        await self.controller.stop()

    async def _wait_for_successors(self) -> None:
        """Wait, within a bound, until a running replica of each partition led here has caught up and can lead.

        Kafka tries to hand over `controlled.shutdown.max.retries` times, with a pause in between.
        """
        get = self._broker.config.get_int
        seconds = get("controlled.shutdown.max.retries") * get("controlled.shutdown.retry.backoff.ms") / 1000
        deadline = monotonic() + seconds
        without = self._led_without_successor()
        # Without ZooKeeper no ISR can grow.
        while without and monotonic() < deadline and self._broker.replicas.leads_for_certain:
            await asyncio.sleep(_SUCCESSOR_CHECK_SECONDS)
            without = self._led_without_successor()
        if without:
            names = ", ".join(f"{topic}-{index}" for topic, index in without[:_NAMED])
            more = f" and {len(without) - _NAMED} more" if len(without) > _NAMED else ""
            logger.warning(
                "Controlled shutdown: no other replica has caught up in %g s, so nobody leads %s%s until this broker "
                "is back",
                seconds,
                names,
                more,
            )

    def _led_without_successor(self) -> list[PartitionKey]:
        """Return partitions led here that have a running replica elsewhere, but none in the ISR."""
        found = []
        for key, partition in self._image.partitions.items():
            if partition.leader == self._id and len(partition.replicas) > 1:
                able = set(self._image.able(partition, self.others)) & set(partition.replicas)
                if able and not able & set(partition.isr):
                    found.append(key)
        return found

    @property
    def others(self) -> set[int]:
        return self.controller.live - {self._id}

    async def let_others_lead(self, keys: Sequence[PartitionKey]) -> None:
        live, returned = self.others, self.controller.returned
        await self.states.change(
            keys,
            lambda each: elections.without(each, self._id, self._image.able(each, live), returned=returned),
        )

    async def abandon(self) -> None:
        await self._detector.stop()
        await self._suspicions.stop()
        await self.controller.stop()
        await self._broker.replicas.close()
        await self.stop()

    async def stop(self) -> None:
        await self.feed.stop()
        await end_tasks(self._tasks)
