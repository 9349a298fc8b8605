"""Decisions about topics, and their nodes in the store."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence

from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.topic_configs import (
    SCHEMA_REGISTRY_URL,
    check_remote_storage,
    check_schema_registry,
    validate_topic_configs,
)
from ottla.metadata.dynamic_configs.effective_config import TopicConfig
from ottla.metadata.nodes import PartitionState, TopicAssignment, validate_topic_name
from ottla.metadata.stores.store import (
    Create,
    Delete,
    Node,
    NodeStore,
    Operation,
    Set,
    children_if_any,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_topics import MIRROR_TOPIC_ID
from ottla.rebalancing import spread_replicas


def check_tiering(config: BrokerConfig, after: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Check a topic's settings of tiered storage together with the broker's defaults. Raises KafkaError."""
    is_enabled = config.get_bool("remote.log.storage.system.enable")
    if is_enabled or "remote.storage.enable" in after or "remote.storage.enable" in before:
        check_remote_storage(TopicConfig(config, after).values, before, is_system_enabled=is_enabled)


# Nodes that create, extend, reassign and delete topics in the metadata store.


def first_state(name: str, index: int, replicas: tuple[int, ...]) -> PartitionImage:
    """Return the state of a new partition: the preferred replica leads, and all replicas are in sync."""
    return PartitionImage(
        name, index, leader=replicas[0], leader_epoch=0, replicas=replicas, isr=replicas, partition_epoch=0
    )


# ZooKeeper rejects requests above one megabyte.
_MAX_BYTES = 700_000
_BYTES_OF_PARTITION = 250
_PER_MULTI = 1000


def fit_at_once(name: str, partitions: int) -> bool:
    """Return True if one write can hold the first states of that many partitions.

    Otherwise the controller writes them when it sees the topic, as in Kafka.
    """
    return partitions * (2 * len(name) + _BYTES_OF_PARTITION) <= _MAX_BYTES


def creation(topic: TopicImage, controller_epoch: int, *, states: bool = True) -> list[Operation]:
    """Return the operations for a new topic except its config; `states` adds the partition states."""
    assignment = {index: partition.replicas for index, partition in topic.partitions.items()}
    return [
        Create(nodes.topic_path(topic.name), nodes.encode_topic(TopicAssignment(assignment, topic.topic_id))),
        Create(nodes.partitions_path(topic.name)),
        *(_partitions(topic.partitions.values(), controller_epoch) if states else ()),
    ]


def extension(
    name: str, node: Node, added: Iterable[PartitionImage], controller_epoch: int, *, states: bool = True
) -> list[Operation]:
    """Return the operations that add partitions to a topic whose node was just read."""
    added = list(added)
    before = nodes.decode_topic(name, node.data)
    replicas = {partition.partition: partition.replicas for partition in added}
    after = before._replace(partitions={**before.partitions, **replicas})
    return [
        Set(nodes.topic_path(name), nodes.encode_topic(after), node.version),
        *(_partitions(added, controller_epoch) if states else ()),
    ]


def reassignment(name: str, node: Node, moved: Iterable[PartitionImage]) -> Set:
    """Return the operation that changes replicas of a topic whose node was just read."""
    before = nodes.decode_topic(name, node.data)
    replicas, adding = dict(before.partitions), dict(before.adding_replicas)
    removing = dict(before.removing_replicas)
    for partition in moved:
        index = partition.partition
        replicas[index] = partition.replicas
        for those, now in ((adding, partition.adding_replicas), (removing, partition.removing_replicas)):
            those.pop(index, None)
            if now:
                those[index] = now
    after = before._replace(partitions=replicas, adding_replicas=adding, removing_replicas=removing)
    return Set(nodes.topic_path(name), nodes.encode_topic(after), node.version)


def next_state(partition: PartitionImage, controller_epoch: int) -> Set:
    """Return the operation that replaces a partition's state."""
    state = PartitionState(partition.leader, partition.leader_epoch, partition.isr, controller_epoch)
    path = nodes.partition_state_path(partition.topic, partition.partition)
    return Set(path, nodes.encode_partition_state(state), partition.partition_epoch)


def _partitions(partitions: Iterable[PartitionImage], controller_epoch: int) -> list[Operation]:
    operations: list[Operation] = []
    for partition in partitions:
        state = PartitionState(partition.leader, partition.leader_epoch, partition.isr, controller_epoch)
        path = nodes.partition_path(partition.topic, partition.partition)
        operations.append(Create(path))
        operations.append(Create(f"{path}/state", nodes.encode_partition_state(state)))
    return operations


async def remove_topic_nodes(
    store: NodeStore, name: str, *, guard: Sequence[Operation] = (), last: Sequence[Operation] = ()
) -> None:
    """Delete all nodes of a topic. Every step includes `guard`; the final one also includes `last`."""
    partitions = await children_if_any(store, nodes.partitions_path(name))
    doomed = _all_paths(name, list(map(int, partitions)))
    found = await store.get_many(doomed)
    deletions = [Delete(path) for path, node in zip(doomed, found, strict=True) if node is not None]
    while len(deletions) > _PER_MULTI:
        await store.multi([*guard, *deletions[:_PER_MULTI]])
        del deletions[:_PER_MULTI]
    await store.multi([*guard, *deletions, *last])


def _all_paths(name: str, indexes: Sequence[int]) -> list[str]:
    """Return children before parents, and the deletion mark last."""
    return [
        *(nodes.partition_state_path(name, index) for index in indexes),
        *(nodes.partition_path(name, index) for index in indexes),
        nodes.partitions_path(name),
        nodes.topic_path(name),
        nodes.topic_config_path(name),
        nodes.delete_topic_path(name),
    ]


# Decide the shape of a topic, or reject it, from image and configuration; nothing is written.

Replicas = tuple[int, ...]

DEFAULT = -1
MAX_PARTITIONS_PER_REQUEST = 10_000
TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."
_RESERVED_TOPIC = "__cluster_metadata"


class TopicDecisions:
    """Owner: the event loop."""

    def __init__(self, image: ClusterImage, config: BrokerConfig) -> None:
        self._image = image
        self._config = config

    @property
    def _racks(self) -> dict[int, str | None]:
        return {broker.broker_id: broker.rack for broker in self._image.brokers.values()}

    def new_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        assignment: Sequence[tuple[int, Sequence[int]]],
        configs: Mapping[str, str | None],
    ) -> TopicImage:
        validate_topic_name(name)
        if name == _RESERVED_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        self._image.check_collision(name)
        if name in self._image.deleting:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        validate_topic_configs(configs)
        check_schema_registry(configs, self._config.get_list(SCHEMA_REGISTRY_URL))
        check_tiering(self._config, {name: text for name, text in configs.items() if text is not None}, {})
        placed = self._place(partitions, replication_factor, assignment)
        overrides = {config: value for config, value in configs.items() if value is not None}
        states = {index: first_state(name, index, replicas) for index, replicas in placed.items()}
        return TopicImage(name, self._new_id(overrides), states, overrides)

    def _new_id(self, configs: Mapping[str, str]) -> bytes:
        """Return a topic id. A mirror topic shares its source's id, which distinguishes it from others of that name."""
        given = configs.get(MIRROR_TOPIC_ID)
        if not given:
            return nodes.random_uuid()
        topic_id = nodes.decode_uuid(given)
        if topic_id in self._image.topics_by_id:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{MIRROR_TOPIC_ID}: topic id {given} is in use in this cluster."
            )
        return topic_id

    def _place(
        self, partitions: int, replication_factor: int, assignment: Sequence[tuple[int, Sequence[int]]]
    ) -> dict[int, Replicas]:
        if assignment:
            for what, count in (("replication factor", replication_factor), ("numPartitions", partitions)):
                if count != DEFAULT:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"A manual partition assignment was specified, but {what} was not set to -1.",
                    )
            _check_count(len(assignment))
            return check_manual_assignment(assignment, self._racks)
        if replication_factor == 0 or replication_factor < DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if partitions == 0 or partitions < DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        if partitions == DEFAULT:
            partitions = self._config.get_int("num.partitions")
        if replication_factor == DEFAULT:
            replication_factor = self._config.get_int("default.replication.factor")
        _check_count(partitions)
        racks = self._racks
        check_replication_factor(
            replication_factor, len(racks)
        )  # before the random choice: there may be no broker at all
        start_index, shift = random.randrange(len(racks)), random.randrange(len(racks))
        return place_replicas(racks, partitions, replication_factor, start_index=start_index, shift=shift)

    def more_partitions(
        self, topic: TopicImage, count: int, assignment: Sequence[Sequence[int]] | None
    ) -> dict[int, Replicas]:
        current = len(topic.partitions)
        if any(partition.is_moving for partition in topic.partitions.values()):
            raise KafkaError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic {topic.name}.",
            )
        if count == current:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
        if count < current:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {current} partition(s); {count} would not be an increase.",
            )
        more = count - current
        _check_count(more)
        existing = {index: partition.replicas for index, partition in topic.partitions.items()}
        if assignment is None:
            return place_more_replicas(self._racks, existing, more)
        if len(assignment) != more:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {more} additional partition(s), but only {len(assignment)} assignment(s) were "
                "specified.",
            )
        for replicas in assignment:
            check_manual_replicas(replicas, self._racks, len(existing[0]))
        return {current + index: tuple(replicas) for index, replicas in enumerate(assignment)}


def _check_count(partitions: int) -> None:
    if partitions > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)


# Assignment of new partitions to brokers


def place_replicas(
    racks: Mapping[int, str | None], partitions: int, replication_factor: int, *, start_index: int, shift: int
) -> dict[int, Replicas]:
    """Assign the partitions of a new topic. Raises KafkaError if there are too few brokers."""
    check_replication_factor(replication_factor, len(racks))
    return spread_replicas(racks, partitions, replication_factor, start_index=start_index, shift=shift)


def place_more_replicas(
    racks: Mapping[int, str | None], existing: Mapping[int, Replicas], partitions: int
) -> dict[int, Replicas]:
    """Assign added partitions, continuing the order that starts with the first partition's leader."""
    first = existing[min(existing)]
    start_index = next((index for index, broker in enumerate(sorted(racks)) if broker >= first[0]), 0)
    check_replication_factor(len(first), len(racks))
    return spread_replicas(
        racks,
        partitions,
        len(first),
        start_index=start_index,
        shift=start_index,
        first_partition=len(existing),
    )


def check_replication_factor(replication_factor: int, brokers: int) -> None:
    if replication_factor > brokers:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {brokers} broker(s) are registered.",
        )


def check_manual_replicas(
    replicas: Sequence[int], brokers: Collection[int], replication_factor: int | None
) -> None:
    """Check a client's replicas for one partition. `replication_factor` is that of the earlier partitions."""
    if not replicas:
        raise _refused("an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in brokers:
            raise _refused(f"broker {broker}, but no such broker is registered.")
        if broker == previous:
            raise _refused(f"the broker {broker} more than once.")
        previous = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _refused(
            f"a partition with {len(replicas)} replica(s), but this is not consistent with previous partitions, "
            f"which have {replication_factor} replica(s)."
        )


def check_manual_assignment(
    assignment: Sequence[tuple[int, Sequence[int]]], brokers: Collection[int]
) -> dict[int, Replicas]:
    """Check a client's assignment for a new topic: partition numbers from 0, each once."""
    checked: dict[int, Replicas] = {}
    replication_factor = None
    for partition, replicas in assignment:
        if partition in checked:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        check_manual_replicas(replicas, brokers, replication_factor)
        replication_factor = len(replicas)
        checked[partition] = tuple(replicas)
    if sorted(checked) != list(range(len(checked))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return checked


def _refused(what: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {what}"
    )
