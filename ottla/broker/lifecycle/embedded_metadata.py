"""A standalone broker joins ZooKeeper: its metadata moves from the embedded store to an empty ensemble.

Both stores hold the same tree, so that moving is copying. The cluster id goes first and claims the ensemble. After a
crash the next start finds its own id there and creates only the missing nodes. The file is renamed at the end, before
the broker serves anybody.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from ottla.cluster.image.change_notifications import CHANGES, KAFKAS_CHANGES
from ottla.metadata import nodes
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import Create, NodeExists, NodeStore, StoreError, ensure_paths, parent_of

logger = logging.getLogger(__name__)

METADATA_FILE = "ottla-metadata.db"
_MOVED_SUFFIX = ".moved"
_COMMITS_SUFFIX = "-commits"
_BATCH = 100
# Sequential nodes tell running brokers about changes. No broker runs yet, and their numbers belong to the old store.
_NOTIFICATIONS = {CHANGES, *KAFKAS_CHANGES, nodes.ISR_CHANGE_NOTIFICATION, nodes.LOG_DIR_EVENT_NOTIFICATION}


async def move_to_zookeeper(log_dirs: Sequence[str], zookeeper: NodeStore, connect: str) -> None:
    """Move the embedded metadata, if a directory has any. Raises StoreError if the ensemble has another cluster."""
    file = next((path for each in log_dirs if (path := Path(each) / METADATA_FILE).exists()), None)
    if file is None:
        return
    embedded = EmbeddedStore(file)
    await embedded.open()
    try:
        [node] = await embedded.get_many([nodes.CLUSTER_ID])
        if node is not None:
            await _claim(zookeeper, nodes.decode_cluster_id(node.data), file, connect)
            copied = await _copy(embedded, zookeeper)
            logger.warning(
                "This broker ran without ZooKeeper so far. Its metadata has moved to ZooKeeper at %s: %d nodes. "
                "The former file is kept as %s%s",
                connect,
                copied,
                file,
                _MOVED_SUFFIX,
            )
    finally:
        await embedded.close()
    # The store would take a missing file beside a file of commits for damage.
    os.replace(f"{file}{_COMMITS_SUFFIX}", f"{file}{_MOVED_SUFFIX}{_COMMITS_SUFFIX}")
    os.replace(file, f"{file}{_MOVED_SUFFIX}")


async def _claim(zookeeper: NodeStore, cluster_id: str, file: Path, connect: str) -> None:
    parent = parent_of(nodes.CLUSTER_ID)
    await ensure_paths(zookeeper, [parent])
    try:
        await zookeeper.create(nodes.CLUSTER_ID, nodes.encode_cluster_id(cluster_id))
    except NodeExists:
        found = nodes.decode_cluster_id((await zookeeper.get(nodes.CLUSTER_ID)).data)
        if found != cluster_id:
            raise StoreError(
                f"{file} holds the metadata of cluster {cluster_id}, which ran without ZooKeeper, but ZooKeeper at "
                f"{connect} belongs to cluster {found}. Name an empty path in zookeeper.connect, such as "
                "localhost:2181/mine, to take the data along; or choose an empty log.dirs to join that cluster"
            ) from None


async def _copy(embedded: EmbeddedStore, zookeeper: NodeStore) -> int:
    """Create every missing node, parents first. Return the number of new nodes."""
    paths = [path async for path in _paths(embedded)]
    created = 0
    for begin in range(0, len(paths), _BATCH):
        batch = paths[begin : begin + _BATCH]
        found = await zookeeper.get_many(batch)
        missing = [path for path, node in zip(batch, found, strict=True) if node is None]
        await zookeeper.multi([Create(path, (await embedded.get(path)).data) for path in missing])
        created += len(missing)
    # Generated broker ids count the writes to this node.
    generated = (await embedded.get(nodes.BROKER_SEQUENCE)).version
    while (await zookeeper.get(nodes.BROKER_SEQUENCE)).version < generated:
        await zookeeper.set(nodes.BROKER_SEQUENCE, b"")
    return created


async def _paths(store: EmbeddedStore) -> AsyncIterator[str]:
    waiting = ["/"]
    for path in waiting:
        if path in _NOTIFICATIONS:
            continue
        for name in await store.children(path):
            child = f"{path.rstrip('/')}/{name}"
            waiting.append(child)
            yield child
