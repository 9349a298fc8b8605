"""The state that request handlers work with: configuration, metadata, partitions and coordinators of one broker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.apis import served_keys
from ottla.broker.coordinators.leadership import CoordinatorLeadership, PartitionStateLog
from ottla.broker.coordinators.settings import ImageTopics, StreamsTopics, group_config, transaction_config
from ottla.broker.coordinators.transactions import PartitionMarkers
from ottla.broker.faults import Faults
from ottla.broker.fetch.fetch_sessions import FetchSessions
from ottla.broker.fetch.follower_fetch import FollowerSessions
from ottla.broker.network.dispatch import Dispatcher
from ottla.broker.quotas import ClientQuotas
from ottla.broker.remote_log.metadata_log import RemoteMetadataLog
from ottla.broker.remote_log.remote_log_manager import RemoteLogManager
from ottla.broker.requests.inspections import Inspections
from ottla.broker.requests.schema_validation import SchemaRegistry, SchemaValidation
from ottla.broker.security.delegation_tokens import DelegationTokens
from ottla.broker.share.share_partitions import Sharing
from ottla.broker.telemetry import ClientTelemetry
from ottla.cluster.peers import PeerDialer, Peers
from ottla.cluster.producer_ids import ProducerIds
from ottla.cluster.replicas import Replicas
from ottla.cluster.replication.replica_selector import selects_by_rack
from ottla.cluster.topics.topic_admin import Charge, TopicAdmin, free
from ottla.coordinator.groups.group_coordinator import GroupCoordinator
from ottla.coordinator.transactions.coordinator import TransactionCoordinator
from ottla.log.cleaner.log_cleaner import LogCleaner
from ottla.log.remote.storage import RemoteStorage
from ottla.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.nodes import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    validate_topic_name,
)
from ottla.metadata.stores.store import NodeStore, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_topics import REMOTE_LOG_METADATA_TOPIC
from ottla.security.authorizer import Authorizer

if TYPE_CHECKING:
    from ottla.broker.lifecycle.cluster_member import ClusterMember
    from ottla.broker.metrics.broker_metrics import BrokerMetrics
    from ottla.broker.metrics.helper_processes import CountAudit, OtlpExport

logger = logging.getLogger(__name__)


class InternalTopic(NamedTuple):
    """Creation parameters of an internal topic. All fields but the fixed `configs` name broker settings."""

    partitions: str
    replication_factor: str
    settings: dict[str, str]
    configs: dict[str, str]


_INTERNAL_TOPICS = {
    GROUP_METADATA_TOPIC: InternalTopic(
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        {"segment.bytes": "offsets.topic.segment.bytes"},
        {"cleanup.policy": "compact", "compression.type": "producer"},
    ),
    TRANSACTION_STATE_TOPIC: InternalTopic(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        {
            "min.insync.replicas": "transaction.state.log.min.isr",
            "segment.bytes": "transaction.state.log.segment.bytes",
        },
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    ),
    SHARE_GROUP_STATE_TOPIC: InternalTopic(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        {
            "min.insync.replicas": "share.coordinator.state.topic.min.isr",
            "segment.bytes": "share.coordinator.state.topic.segment.bytes",
        },
        # Updates build on each other; compaction would remove updates that later ones need.
        {"cleanup.policy": "delete", "retention.ms": "-1"},
    ),
    REMOTE_LOG_METADATA_TOPIC: InternalTopic(
        "rlmm.config.remote.log.metadata.topic.num.partitions",
        "rlmm.config.remote.log.metadata.topic.replication.factor",
        {},
        {"cleanup.policy": "delete", "retention.ms": "-1"},
    ),
}


class Node(NamedTuple):
    """Address of a broker for clients."""

    id: int
    host: str
    port: int
    rack: str | None


class Broker:
    """The state of the process. Owner: the event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        store: NodeStore,
        image: ClusterImage,
        replicas: Replicas,
        topic_admin: TopicAdmin,
        producer_ids: ProducerIds,
        dialer: PeerDialer,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.config = config
        self.authorizer = authorizer  # None: no restrictions
        self.store = store
        self.image = image
        self.replicas = replicas
        self.topic_admin = topic_admin
        self.producer_ids = producer_ids
        self.groups = GroupCoordinator(
            group_config(config, image),
            PartitionStateLog(replicas, GROUP_METADATA_TOPIC),
            topics=ImageTopics(image),
        )
        self.dialer = dialer
        self.peers = Peers(dialer, config.get_int("request.timeout.ms") / 1000)
        self.markers = PartitionMarkers(
            replicas, self.groups, self.now_ms, config.broker_id, image, self.peers
        )
        self.transactions = TransactionCoordinator(
            transaction_config(config),
            PartitionStateLog(replicas, TRANSACTION_STATE_TOPIC),
            self.markers,
            producer_ids.allocate,
        )
        self.node_id = config.broker_id
        self.cluster_id = image.cluster_id
        self.quotas = ClientQuotas(config)
        self.quotas.set_quotas(image.client_quotas)
        self.auto_create_topics = config.get_bool("auto.create.topics.enable")
        self.verify_transactions = config.get_bool("transaction.partition.verification.enable")
        self.selects_replicas = selects_by_rack(config)
        self.fetch_max_bytes = config.get_int("fetch.max.bytes")
        self.fetch_sessions = FetchSessions(config.get_int("max.incremental.fetch.session.cache.slots"))
        self.follower_sessions = FollowerSessions(replicas)
        self.purgatory = replicas.leader_context.purgatory
        self.inspections = Inspections()
        registry = SchemaRegistry.of(config)
        self.schema_validation = (
            None if registry is None else SchemaValidation(image, registry, self.inspections)
        )
        self.faults: Faults | None = None
        self.metrics: BrokerMetrics | None = None
        self.telemetry = ClientTelemetry.of(config, image)
        self.count_audit: CountAudit | None = None
        self.otlp_export: OtlpExport | None = None
        self.cleaner: LogCleaner | None = None
        self.remote_log: RemoteLogManager | None = None
        self.member: ClusterMember  # set by the server, which creates it from this object
        self.loop = asyncio.get_running_loop()
        self.dispatcher = Dispatcher(self, served_keys())
        self.sharing = Sharing(self)
        self.streams_topics = StreamsTopics(topic_admin)
        self.delegation_tokens = DelegationTokens(config, store, image)
        # Groups come first: transactions that end during start-up may carry committed offsets.
        self._leadership = {
            runtime.topic: CoordinatorLeadership(runtime, replicas, image)
            for runtime in (self.groups.runtime, self.transactions.runtime, self.sharing.coordinator.runtime)
        }
        self._creating: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        for leadership in self._leadership.values():
            await leadership.start()
        self.groups.start()
        self.transactions.start()

    def start_remote_log(self, storage: RemoteStorage) -> None:
        peers = Peers(self.dialer, self.config.get_int("request.timeout.ms") / 1000)

        async def create_topic() -> None:
            await asyncio.shield(self._create_in_background(REMOTE_LOG_METADATA_TOPIC))

        metadata = RemoteMetadataLog(
            self.node_id, self.replicas, self.image, peers, create_topic, self.now_ms
        )
        self.remote_log = RemoteLogManager(
            self.config, self.replicas, self.image, self.store, metadata, storage, self.now_ms
        )
        self.replicas.fetchers.rebuilt_state = self.remote_log.rebuilt_state
        self.remote_log.start()

    async def coordinators_loaded(self) -> None:
        for leadership in self._leadership.values():
            await leadership.settle()

    def close(self) -> None:
        self.dispatcher.lane.close()
        self.inspections.close()
        if self.telemetry is not None:
            self.telemetry.forwarder.close()
        self.peers.close()
        self.transactions.close()
        self.groups.close()
        self.sharing.close()
        self.streams_topics.close()
        for task in self._creating.values():
            task.cancel()

    @staticmethod
    def now_ms() -> int:
        return int(time.time() * 1000)

    def nodes(self, listener: str) -> list[Node]:
        """Return the brokers on this listener with their advertised addresses."""
        found = []
        for broker in self.image.brokers.values():
            endpoint = broker.endpoints.get(listener)
            if endpoint is not None:
                found.append(Node(broker.broker_id, endpoint.host, endpoint.port, broker.rack))
        return found

    def node(self, broker_id: int, listener: str) -> Node | None:
        return next((node for node in self.nodes(listener) if node.id == broker_id), None)

    def leader_of(self, partition: PartitionImage) -> int:
        """Return the leader to report to clients.

        Return NO_LEADER while the leader's broker is down, or while this broker has yet to open the log. If this broker
        cannot be sure that it still leads, it names the replica that the others would have elected. A client connected
        only to this broker would otherwise never find the new leader.
        """
        brokers = self.image.brokers
        if partition.leader == self.node_id:
            if partition.partition not in self.replicas.topic(partition.topic):
                return NO_LEADER
            if not self.replicas.leads_for_certain:
                for replica in partition.replicas:
                    if replica != self.node_id and replica in partition.isr and replica in brokers:
                        return replica
        return partition.leader if partition.leader in brokers else NO_LEADER

    def offline_replicas(self, partition: PartitionImage) -> Sequence[int]:
        brokers, offline = self.image.brokers, self.image.offline_on(partition)
        is_here = (partition.topic, partition.partition) not in self.replicas.offline
        return [
            replica
            for replica in partition.replicas
            if replica not in brokers or replica in offline or (replica == self.node_id and not is_here)
        ]

    # Automatic topic creation

    def auto_create(self, name: str, charge: Charge = free) -> ErrorCode:
        """Start creating a requested topic. Return the error code for the client in the meantime."""
        validate_topic_name(name)
        self._create_in_background(name, charge)
        return ErrorCode.LEADER_NOT_AVAILABLE

    async def delete_topic(self, name: str, timeout_ms: int = 30_000, charge: Charge = free) -> None:
        topic = self.image.topics.get(name)
        await self.topic_admin.delete_topic(name, timeout_ms, charge)
        if topic is not None:
            await self.member.forgotten(topic.topic_id, timeout_ms / 1000)

    async def topic_gone(self, topic: TopicImage) -> None:
        if self.cleaner is not None:
            self.cleaner.forget(topic.name)
        await self.groups.topics_deleted([topic.name])
        await self.sharing.topic_deleted(topic.topic_id)

    async def ensure_internal_topic(self, name: str) -> None:
        if name not in self.image.topics or name in self._creating:
            await asyncio.shield(self._create_in_background(name))
            if name not in self.image.topics:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        leadership = self._leadership.get(name)
        if leadership is not None:
            await leadership.settle()

    def _create_in_background(self, name: str, charge: Charge = free) -> asyncio.Task[None]:
        task = self._creating.get(name)
        if task is None:
            task = self._creating[name] = self.loop.create_task(self._create(name, charge))
            task.add_done_callback(lambda _: self._creating.pop(name, None))
        return task

    async def _create(self, name: str, charge: Charge) -> None:
        try:
            if name in _INTERNAL_TOPICS:
                partitions, factor, configs = self.internal_topic(name)
                await self.topic_admin.create_topic(
                    name, partitions=partitions, replication_factor=factor, configs=configs
                )
            else:
                await self.topic_admin.create_topic(name, charge=charge)
        except KafkaError as error:
            if error.code not in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
                logger.warning("Topic %s could not be created: %s", name, error)
        except StoreError as error:
            logger.error("Topic %s could not be created: %s", name, error)

    def internal_topic(self, name: str) -> tuple[int, int, dict[str, str]]:
        topic = _INTERNAL_TOPICS.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is reserved")
        get = self.config.get_int
        configs = {config: str(get(setting)) for config, setting in topic.settings.items()}
        return get(topic.partitions), get(topic.replication_factor), {**topic.configs, **configs}
