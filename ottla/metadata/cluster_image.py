"""In-memory image of the cluster: brokers, topics, leaders, config overrides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from ottla.metadata import nodes
from ottla.metadata.client_quotas import Entity, load_client_quotas
from ottla.metadata.credentials import DelegationToken, load_delegation_tokens, load_scram_credentials
from ottla.metadata.nodes import BrokerRegistration, Endpoint, PartitionState, TopicAssignment, collision_key
from ottla.metadata.stores.store import NodeStore, children_if_any
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_topics import is_internal

K = TypeVar("K")
V = TypeVar("V")

NO_LEADER = -1
NO_CONTROLLER = -1


class BrokerImage(NamedTuple):
    broker_id: int
    endpoints: Mapping[str, Endpoint]  # by listener name
    rack: str | None = None
    epoch: int = -1


class PartitionImage(NamedTuple):
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int  # version of the state's node
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        """Return True during a reassignment."""
        return bool(self.adding_replicas or self.removing_replicas)


class TopicImage(NamedTuple):
    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionImage]
    configs: Mapping[str, str] = MappingProxyType({})
    version: int = 0  # version of the topic's node

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)


class ClusterImage:
    """The cluster as this broker knows it.

    Invariant: `topics`, `topics_by_id` and `partitions` contain the same topics. Their values are immutable and
    replaced as a whole, so a reference to a topic's image stays consistent. `version` grows with each change. Owner:
    the event loop. Change the image through its methods only; read the dicts directly.
    """

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.controller_id = NO_CONTROLLER
        self.controller_epoch = 0
        self.brokers: dict[int, BrokerImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.partitions: dict[tuple[str, int], PartitionImage] = {}
        self.broker_configs: dict[int | None, dict[str, str]] = {}  # None: cluster-wide default
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_metrics: dict[str, dict[str, str]] = {}  # subscriptions by name
        self.deleting: set[str] = set()  # topics marked for deletion
        self.version = 0
        # Replicas in failed log directories, by broker, topic id and partition.
        self.offline_replicas: Mapping[int, frozenset[tuple[bytes, int]]] = {}
        self._offline_on: dict[tuple[bytes, int], set[int]] = {}
        self._names_by_key: dict[str, set[str]] = {}
        self.client_quotas: dict[Entity, dict[str, float]] = {}
        # User → mechanism → credential made by `ottla.security.sasl.scram`.
        self.scram_credentials: dict[str, dict[str, str]] = {}
        self.delegation_tokens: dict[str, DelegationToken] = {}

    # Brokers

    def put_broker(self, broker: BrokerImage) -> None:
        self.brokers[broker.broker_id] = broker
        self.version += 1

    def remove_broker(self, broker_id: int) -> None:
        if self.brokers.pop(broker_id, None) is not None:
            self.version += 1

    def set_controller(self, broker_id: int, epoch: int | None = None) -> None:
        self.controller_id = broker_id
        if epoch is not None:
            self.controller_epoch = epoch
        self.version += 1

    def set_broker_configs(self, broker_id: int | None, configs: Mapping[str, str]) -> None:
        self.broker_configs[broker_id] = dict(configs)
        self.version += 1

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        _put_or_drop(self.group_configs, group_id, configs)

    def set_client_metrics(self, subscription: str, configs: Mapping[str, str]) -> None:
        _put_or_drop(self.client_metrics, subscription, configs)

    # Offline replicas on live brokers

    def set_offline_replicas(self, offline: Mapping[int, frozenset[tuple[bytes, int]]]) -> None:
        self.offline_replicas = offline
        self._offline_on = {}
        for broker_id, replicas in offline.items():
            for replica in replicas:
                self._offline_on.setdefault(replica, set()).add(broker_id)
        self.version += 1

    def offline_on(self, partition: PartitionImage) -> Collection[int]:
        topic = self.topics.get(partition.topic) if self._offline_on else None
        return () if topic is None else self._offline_on.get((topic.topic_id, partition.partition), ())

    def able(self, partition: PartitionImage, brokers: Collection[int]) -> Collection[int]:
        offline = self.offline_on(partition)
        return [each for each in brokers if each not in offline] if offline else brokers

    # Topics

    def put_topic(self, topic: TopicImage) -> None:
        if topic.name in self.topics:
            self._forget(topic.name)
        for partition in topic.partitions.values():
            self.partitions[topic.name, partition.partition] = partition
        self._names_by_key.setdefault(collision_key(topic.name), set()).add(topic.name)
        self._exchange(topic)

    def remove_topic(self, name: str) -> None:
        if name in self.topics:
            self._forget(name)
            self.version += 1

    def _exchange(self, topic: TopicImage) -> None:
        self.topics[topic.name] = topic
        if topic.topic_id != nodes.ZERO_UUID:
            self.topics_by_id[topic.topic_id] = topic
        self.version += 1

    def _forget(self, name: str) -> None:
        topic = self.topics.pop(name)
        self.topics_by_id.pop(topic.topic_id, None)
        for partition in topic.partitions:
            self.partitions.pop((name, partition), None)
        key = collision_key(name)
        self._names_by_key[key].discard(name)
        if not self._names_by_key[key]:
            del self._names_by_key[key]

    def put_partition(self, partition: PartitionImage) -> None:
        topic = self.topics[partition.topic]
        self.partitions[topic.name, partition.partition] = partition
        self._exchange(topic._replace(partitions={**topic.partitions, partition.partition: partition}))

    def put_partitions(self, topic: str, partitions: Iterable[PartitionImage]) -> None:
        before = self.topics[topic]
        changed = {partition.partition: partition for partition in partitions}
        for index, partition in changed.items():
            self.partitions[topic, index] = partition
        self._exchange(before._replace(partitions={**before.partitions, **changed}))

    def set_topic_configs(self, name: str, configs: Mapping[str, str]) -> None:
        self._exchange(self.topics[name]._replace(configs=dict(configs)))

    def colliding_topic(self, name: str) -> str | None:
        """Return a topic whose name differs only in '.' and '_'. Kafka does not allow both."""
        return next(
            (other for other in self._names_by_key.get(collision_key(name), ()) if other != name), None
        )

    def check_collision(self, name: str) -> None:
        """Raises KafkaError, with Kafka's message, if the name exists or collides with another topic."""
        if name in self.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if (other := self.colliding_topic(name)) is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )

    # Loading

    @classmethod
    async def load(cls, store: NodeStore) -> ClusterImage:
        """Read the whole image. The number of round trips does not depend on the number of partitions."""
        image = cls()
        singles = (nodes.CLUSTER_ID, nodes.CONTROLLER, nodes.CONTROLLER_EPOCH)
        cluster_id, controller, epoch = await store.get_many(singles)
        if cluster_id is not None and cluster_id.data:
            image.cluster_id = nodes.decode_cluster_id(cluster_id.data)
        if controller is not None:
            image.controller_id = nodes.decode_controller(controller.data)
        if epoch is not None and epoch.data:
            image.controller_epoch = nodes.decode_controller_epoch(epoch.data)
        await image._load_brokers(store)
        await image._load_topics(store)
        for group_id, configs in (await _read_configs(store, nodes.CONFIG_GROUPS)).items():
            image.set_group_configs(group_id, configs)
        for name, configs in (await _read_configs(store, nodes.CONFIG_CLIENT_METRICS)).items():
            image.set_client_metrics(name, configs)
        image.deleting = set(await children_if_any(store, nodes.DELETE_TOPICS))
        image.client_quotas = await load_client_quotas(store)
        image.scram_credentials = await load_scram_credentials(store)
        image.delegation_tokens = await load_delegation_tokens(store)
        return image

    async def _load_brokers(self, store: NodeStore) -> None:
        for broker in await read_brokers(store):
            self.put_broker(broker)
        entities = await children_if_any(store, nodes.CONFIG_BROKERS)
        paths = [f"{nodes.CONFIG_BROKERS}/{entity}" for entity in entities]
        for entity, node in zip(entities, await store.get_many(paths), strict=True):
            if node is not None:
                broker_id = None if entity == nodes.DEFAULT_ENTITY else int(entity)
                self.set_broker_configs(broker_id, nodes.decode_config(node.data))

    async def _load_topics(self, store: NodeStore) -> None:
        for topic in await read_topics(store, await children_if_any(store, nodes.TOPICS)):
            self.put_topic(topic)


def _put_or_drop(table: dict[K, dict[str, V]], key: K, values: Mapping[str, V]) -> None:
    if values:
        table[key] = dict(values)
    else:
        table.pop(key, None)


async def _read_configs(store: NodeStore, root: str) -> dict[str, dict[str, str]]:
    entities = await children_if_any(store, root)
    found = await store.get_many([f"{root}/{entity}" for entity in entities])
    return {
        nodes.name_of_config(entity): nodes.decode_config(node.data)
        for entity, node in zip(entities, found, strict=True)
        if node is not None
    }


async def read_brokers(store: NodeStore) -> list[BrokerImage]:
    brokers = []
    ids = [int(name) for name in await children_if_any(store, nodes.BROKER_IDS) if name.isdecimal()]
    for broker_id, node in zip(ids, await store.get_many(list(map(nodes.broker_path, ids))), strict=True):
        stat = await store.exists(nodes.broker_path(broker_id))
        if node is not None and stat is not None:
            brokers.append(broker_image(nodes.decode_broker(broker_id, node.data), stat.czxid))
    return brokers


async def read_topics(store: NodeStore, names: Sequence[str]) -> list[TopicImage]:
    found = await store.get_many([nodes.topic_path(name) for name in names])
    configs = await store.get_many([nodes.topic_config_path(name) for name in names])
    topics = {
        name: (nodes.decode_topic(name, node.data), node.version, config.data if config else b"")
        for name, node, config in zip(names, found, configs, strict=True)
        if node is not None
    }
    keys = [(name, partition) for name, (topic, _, _) in topics.items() for partition in topic.partitions]
    states = await store.get_many([nodes.partition_state_path(*key) for key in keys])
    state_of = {
        key: (nodes.decode_partition_state(*key, node.data), node.version)
        for key, node in zip(keys, states, strict=True)
        if node is not None
    }
    images = []
    for name, (topic, version, config) in topics.items():
        partitions = {
            partition: partition_image(name, partition, topic, *state_of.get((name, partition), (None, -1)))
            for partition in sorted(topic.partitions)
        }
        topic_id = topic.topic_id or nodes.ZERO_UUID
        images.append(TopicImage(name, topic_id, partitions, nodes.decode_config(config), version))
    return images


def broker_image(registration: BrokerRegistration, epoch: int) -> BrokerImage:
    endpoints = {endpoint.listener: endpoint for endpoint in registration.endpoints}
    return BrokerImage(registration.broker_id, endpoints, registration.rack, epoch)


def partition_image(
    name: str, partition: int, topic: TopicAssignment, state: PartitionState | None, version: int
) -> PartitionImage:
    """Build a partition's image from its nodes. Without a state the partition has no leader yet."""
    return PartitionImage(
        name,
        partition,
        state.leader if state else NO_LEADER,
        state.leader_epoch if state else 0,
        topic.partitions[partition],
        state.isr if state else (),
        version,
        topic.adding_replicas.get(partition, ()),
        topic.removing_replicas.get(partition, ()),
    )
