"""The canary's topic, with one partition led by each broker."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.admin.topics import add_partitions, create_topic
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode

_REPLICAS = 3
_CONFIGS = {"retention.ms": "3600000", "segment.ms": "600000", "cleanup.policy": "delete"}


def partitions_by_broker(cluster: Cluster, topic: str, replication_factor: int | None) -> dict[int, int]:
    """Return for each broker, live or not, the partition it prefers to lead. New brokers get one.

    Raises ClientError.
    """
    brokers = sorted(cluster.nodes())
    found = _preferred(cluster, topic)
    missing = [broker for broker in brokers if found is None or broker not in found]
    if missing:
        factor = min(replication_factor or _REPLICAS, len(brokers))
        assignment = [replicas(broker, brokers, factor) for broker in missing]
        if found is None:
            try:
                create_topic(cluster, topic, assignment=assignment, configs=_CONFIGS)
            except ClientError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # another canary was faster
                    raise
        else:
            add_partitions(cluster, topic, _count(cluster, topic) + len(missing), assignment)
        found = cluster.retrying(lambda: _complete(cluster, topic, brokers), [topic])
    assert found is not None
    return found


def replicas(broker: int, brokers: Sequence[int], factor: int) -> list[int]:
    at = brokers.index(broker)
    return [brokers[(at + step) % len(brokers)] for step in range(factor)]


def _preferred(cluster: Cluster, topic: str) -> dict[int, int] | None:
    """Return None if the topic does not exist."""
    [found] = cluster.metadata([topic]).topics
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if found.error_code:
        code = ErrorCode(found.error_code)
        raise ClientError(f"Topic '{topic}' cannot be used: {code.name}.", code)
    by_broker: dict[int, int] = {}
    for each in sorted(found.partitions, key=lambda partition: partition.partition_index):
        if each.replica_nodes:
            by_broker.setdefault(each.replica_nodes[0], each.partition_index)
    return by_broker


def _complete(cluster: Cluster, topic: str, brokers: Sequence[int]) -> dict[int, int]:
    found = _preferred(cluster, topic)
    if found is None or any(broker not in found for broker in brokers):
        raise ClientError(f"Topic '{topic}' is not ready yet.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return found


def _count(cluster: Cluster, topic: str) -> int:
    return len(cluster.metadata([topic]).topics[0].partitions)
