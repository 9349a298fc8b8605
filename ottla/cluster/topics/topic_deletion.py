"""Taking a topic out of the store: the nodes that speak of it, and the mark of its deletion last."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cluster.topics import topic_nodes
from ottla.metadata import nodes
from ottla.metadata.stores.store import Delete, NodeStore, NoNode, Operation

_PER_MULTI = 1000


async def remove_topic_nodes(
    store: NodeStore, name: str, *, guard: Sequence[Operation] = (), last: Sequence[Operation] = ()
) -> None:
    """`guard` goes with every step, `last` with the one after which the topic is gone."""
    try:
        partitions = await store.children(nodes.partitions_path(name))
    except NoNode:
        partitions = []
    doomed = topic_nodes.all_paths(name, map(int, partitions))
    found = await store.get_many(doomed)
    deletions = [Delete(path) for path, node in zip(doomed, found, strict=True) if node is not None]
    while len(deletions) > _PER_MULTI:
        await store.multi([*guard, *deletions[:_PER_MULTI]])
        del deletions[:_PER_MULTI]
    await store.multi([*guard, *deletions, *last])
