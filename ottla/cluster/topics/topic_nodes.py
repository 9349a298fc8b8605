"""Nodes that create, extend, reassign and delete topics in the metadata store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.metadata import nodes
from ottla.metadata.cluster_image import PartitionImage, TopicImage
from ottla.metadata.nodes import PartitionState, TopicAssignment
from ottla.metadata.stores.store import (
    Create,
    Delete,
    Node,
    NodeStore,
    Operation,
    Set,
    children_if_any,
)


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
