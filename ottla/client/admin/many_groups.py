"""Committed offsets of many groups, with one request per coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.client.admin.groups import committed_offsets
from ottla.client.admin.offsets import Partition
from ottla.client.cluster import Cluster, CoordinatorType, Node
from ottla.client.errors import ClientError
from ottla.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

_FIRST_WITH_MANY_GROUPS = 8  # version of OffsetFetch
_LAST_WITH_NAMES = 9


def committed_by_group(cluster: Cluster, groups: Sequence[str]) -> dict[str, dict[Partition, int]]:
    """Return offsets by group. Groups without an answer from their coordinator are omitted."""
    found: dict[str, dict[Partition, int]] = {}
    if not groups:
        return found
    by_node: dict[Node, list[str]] = {}
    for group, node in cluster.coordinators(CoordinatorType.GROUP, groups).items():
        by_node.setdefault(node, []).append(group)
    for node, asked in by_node.items():
        found |= _ask(cluster, node, asked)
    return found


def _ask(cluster: Cluster, node: Node, groups: Iterable[str]) -> dict[str, dict[Partition, int]]:
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    )
    connection = cluster.connection(node.address)
    if connection.version(request) < _FIRST_WITH_MANY_GROUPS:
        return _one_by_one(cluster, groups)
    answer = connection.request(request, OffsetFetchResponse, max_version=_LAST_WITH_NAMES)
    return {
        group.group_id: {
            (topic.name, each.partition_index): each.committed_offset
            for topic in group.topics
            for each in topic.partitions
            if each.committed_offset >= 0 and not each.error_code
        }
        for group in answer.groups
        if not group.error_code
    }


def _one_by_one(cluster: Cluster, groups: Iterable[str]) -> dict[str, dict[Partition, int]]:
    found = {}
    for group in groups:
        try:
            found[group] = committed_offsets(cluster, group)
        except ClientError:
            continue
    return found
