"""Replicas that are offline on a live broker because a log directory failed (KIP-112).

Kafka's brokers notify under /log_dir_event_notification, and the controller asks them for their offline replicas. Here
a broker writes the list to /ottla/offline before it notifies, and all brokers read it. The node outlives the broker:
after a restart the broker knows its earlier replicas, so an empty replacement disk does not pass for one that was
always empty.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import NamedTuple

from ottla.metadata import nodes
from ottla.metadata.stores.store import (
    Create,
    Delete,
    NodeExists,
    NodeStore,
    NoNode,
    Operation,
    Set,
    children_if_any,
)

logger = logging.getLogger(__name__)

OFFLINE = "/ottla/offline"

_BELL = f"{nodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_"

# Keyed by topic id, so that a later topic with the same name is unaffected.
Replica = tuple[bytes, int]


class Unusable(NamedTuple):
    """Log directories and replicas that a broker cannot use. Replicas may be inside or outside of these directories."""

    log_dirs: frozenset[str] = frozenset()
    replicas: frozenset[Replica] = frozenset()


def encode_unusable(unusable: Unusable) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic_id, index in sorted(unusable.replicas):
        topics.setdefault(nodes.encode_uuid(topic_id), []).append(index)
    fields = {"version": 1, "log_dirs": sorted(unusable.log_dirs), "topics": topics}
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_unusable(broker_id: int, data: bytes) -> Unusable | None:
    """Decode a node. Return None if it is unreadable, for example because another version wrote it."""
    try:
        fields = json.loads(data)
        return Unusable(
            frozenset(map(str, fields["log_dirs"])),
            frozenset(
                (nodes.decode_uuid(topic_id), int(index))
                for topic_id, indexes in fields["topics"].items()
                for index in indexes
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        logger.warning("Ignoring the node %s/%d, which cannot be read: %s", OFFLINE, broker_id, error)
        return None


async def read_offline_replicas(store: NodeStore) -> Mapping[int, frozenset[Replica]]:
    """Return the offline replicas of each broker that reported any."""
    brokers = [int(name) for name in await children_if_any(store, OFFLINE) if name.isdecimal()]
    found = await store.get_many([f"{OFFLINE}/{broker_id}" for broker_id in brokers])
    return {
        broker_id: unusable.replicas
        for broker_id, node in zip(brokers, found, strict=True)
        if node is not None and (unusable := decode_unusable(broker_id, node.data)) is not None
    }


def log_dir_event(broker_id: int) -> Create:
    """Return the operation that makes all brokers reread the offline replicas."""
    return Create(_BELL, nodes.encode_log_dir_event(broker_id), sequential=True)


async def write_unusable(store: NodeStore, broker_id: int, unusable: Unusable) -> bool:
    """Write this broker's offline replicas and notify. Return False if nothing has changed.

    Each broker writes only its own node.
    """
    path = f"{OFFLINE}/{broker_id}"
    while True:
        [known] = await store.get_many([path])
        before = Unusable() if known is None else decode_unusable(broker_id, known.data)
        if before == unusable:
            return False
        change: Operation
        if unusable == Unusable():
            change = Delete(path)
        elif known is None:
            change = Create(path, encode_unusable(unusable))
        else:
            change = Set(path, encode_unusable(unusable))
        try:
            await store.multi([change, log_dir_event(broker_id)])
        except (NodeExists, NoNode):  # an earlier attempt succeeded, but its response was lost
            continue
        return True
