"""The topic with all schemas. It must have one partition and be compacted."""

from __future__ import annotations

import logging

from ottla.client.admin.configs import Resource, describe_configs
from ottla.client.admin.topics import create_topic, describe_topics
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, TopicNotFound
from ottla.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)


class UnusableTopic(Exception):
    """An unsuitable topic. The message gives the operator problem and fix in one sentence."""


def ensure_topic(cluster: Cluster, name: str, replication_factor: int) -> None:
    """Create or check the topic. Raises UnusableTopic or ClientError."""
    found = describe_topics(cluster, [name], skip_missing=True)
    if not found:
        _create(cluster, name, replication_factor)
        return
    [topic] = found
    if len(topic.partitions) != 1:
        raise UnusableTopic(
            f"The schema topic {name} should have only 1 partition but has {len(topic.partitions)}: name another "
            "topic in kafkastore.topic."
        )
    if topic.replication_factor < min(replication_factor, len(cluster.nodes())):
        _log.warning(
            "The replication factor of the schema topic %s is %d, less than the desired one of %d: with few "
            "replicas schemas can get lost.",
            name,
            topic.replication_factor,
            replication_factor,
        )
    policy = _cleanup_policy(cluster, name)
    if policy != "compact":
        raise UnusableTopic(
            f"The cleanup policy of the schema topic {name} is {policy}, which deletes schemas: set its "
            "cleanup.policy to compact."
        )


def _cleanup_policy(cluster: Cluster, name: str) -> str | None:
    try:
        entries = describe_configs(cluster, Resource("topic", name))
    except ClientError as error:
        if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        _log.warning("Not authorized to read the settings of %s: it is taken to be compacted.", name)
        return "compact"
    return next((entry.value for entry in entries if entry.name == "cleanup.policy"), None)


def _create(cluster: Cluster, name: str, replication_factor: int) -> None:
    replicas = min(replication_factor, len(cluster.nodes()))
    try:
        create_topic(
            cluster,
            name,
            partitions=1,
            replication_factor=max(1, replicas),
            configs={"cleanup.policy": "compact"},
        )
    except ClientError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        # Another node created it first.
    cluster.retrying(lambda: _require(cluster, name))


def _require(cluster: Cluster, name: str) -> None:
    if name not in cluster.topics([name]):
        raise TopicNotFound(name)
