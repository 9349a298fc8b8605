"""Notifications under /ottla/changes, which announce new partition states and topics to brokers.

Kafka's controller sends requests to every broker; here each broker follows the store. A notification carries the new
states themselves, so that following costs one read regardless of the number of changed partitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from ottla.metadata import nodes
from ottla.metadata.acl_nodes import EXTENDED_CHANGES, LITERAL_CHANGES
from ottla.metadata.nodes import PartitionState
from ottla.metadata.stores.store import Create, Delete, NodeStore, children_if_any

CHANGES = "/ottla/changes"
#: Paths where Kafka notifies brokers of changed configs, ACLs and tokens.
KAFKAS_CHANGES = (
    nodes.CONFIG_CHANGES,
    LITERAL_CHANGES,
    EXTENDED_CHANGES,
    nodes.DELEGATION_TOKEN_CHANGES,
)
MAX_PARTITIONS = 500  # per change

_PREFIX = f"{CHANGES}/change_"
_DIGITS = 10
_KEPT = 100  # fewer do not justify a write


class ChangedPartition(NamedTuple):
    topic: str
    topic_id: bytes  # distinguishes a recreated topic, whose versions start over
    partition: int
    state: PartitionState
    partition_epoch: int


class Change(NamedTuple):
    """Contents of a notification: states to apply, and entities to reread.

    `topics` were created, deleted, or got other partitions or replicas; `configs` are entities such as groups/g.
    """

    partitions: tuple[ChangedPartition, ...] = ()
    topics: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()


def notification(partitions: Iterable[ChangedPartition] = (), topics: Iterable[str] = ()) -> Create:
    """Return the operation that notifies all brokers, to be added to the multi that makes the change."""
    return Create(_PREFIX, encode_change(Change(tuple(partitions), tuple(topics))), sequential=True)


def config_notification(config_path: str) -> Create:
    """Return the notification for a config change, in Kafka's format.

    Kafka 3.9 does not know group configs and must not see their notifications.
    """
    entity = config_path.removeprefix("/config/")
    if entity.startswith("groups/"):
        return Create(_PREFIX, encode_change(Change(configs=(entity,))), sequential=True)
    return Create(
        f"{nodes.CONFIG_CHANGES}/config_change_", nodes.encode_config_change(entity), sequential=True
    )


async def remove_old_notifications(store: NodeStore) -> None:
    """Remove old notifications when a standalone broker starts. Its controller may not live long enough to purge them.

    The newest notification stays, so that gaps are noticed.
    """
    for parent in (CHANGES, *KAFKAS_CHANGES):
        old = sorted(await children_if_any(store, parent), key=sequence_of)[:-1]
        if len(old) > _KEPT:
            await store.multi([Delete(f"{parent}/{name}") for name in old])


def sequence_of(name: str) -> int:
    """Return the number of a sequential node, or -1 for any other node."""
    digits = name[-_DIGITS:]
    return int(digits) if len(digits) == _DIGITS and digits.isdecimal() else -1


def encode_change(change: Change) -> bytes:
    fields: dict[str, object] = {"version": 1}
    if change.partitions:
        fields["partitions"] = [
            {
                "topic": each.topic,
                "topic_id": nodes.encode_uuid(each.topic_id),
                "partition": each.partition,
                "leader": each.state.leader,
                "leader_epoch": each.state.leader_epoch,
                "isr": each.state.isr,
                "controller_epoch": each.state.controller_epoch,
                "partition_epoch": each.partition_epoch,
            }
            for each in change.partitions
        ]
    if change.topics:
        fields["topics"] = change.topics
    if change.configs:
        fields["configs"] = change.configs
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_change(data: bytes) -> Change:
    try:
        fields = json.loads(data)
        return Change(
            tuple(
                ChangedPartition(
                    str(each["topic"]),
                    nodes.decode_uuid(each["topic_id"]),
                    int(each["partition"]),
                    PartitionState(
                        int(each["leader"]),
                        int(each["leader_epoch"]),
                        tuple(map(int, each["isr"])),
                        int(each["controller_epoch"]),
                    ),
                    int(each["partition_epoch"]),
                )
                for each in fields.get("partitions", ())
            ),
            tuple(map(str, fields.get("topics", ()))),
            tuple(map(str, fields.get("configs", ()))),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise nodes.BadNode(f"A node under {CHANGES} cannot be read: {error}") from None
