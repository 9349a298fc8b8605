"""The three internal topics of a worker, created as compacted topics and rejected if they could lose data."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.admin.configs import Resource, describe_configs
from ottla.client.admin.topics import create_topic, describe_topics
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, TopicNotFound
from ottla.connect.config.config_def import ConfigError
from ottla.connect.config.worker_config import WorkerConfig
from ottla.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InternalTopic:
    #: config, offset or status: the prefix of its settings.
    kind: str
    name: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]

    @property
    def setting(self) -> str:
        return f"{self.kind}.storage.topic"

    @property
    def purpose(self) -> str:
        return {
            "config": "connector configurations",
            "offset": "source connector offsets",
            "status": "connector and task statuses",
        }[self.kind]


def internal_topic(worker: WorkerConfig, kind: str) -> InternalTopic:
    given = worker.topic_settings(kind)
    if given.get("cleanup.policy", "compact") != "compact":
        _log.warning(
            "%s.storage.cleanup.policy has no effect: the topic is always created with 'compact'.", kind
        )
    partitions = 1 if kind == "config" else int(worker.values[f"{kind}.storage.partitions"])
    return InternalTopic(
        kind,
        str(worker.values[f"{kind}.storage.topic"]),
        partitions,
        int(worker.values[f"{kind}.storage.replication.factor"]),
        {**given, "cleanup.policy": "compact"},
    )


def ensure_topic(cluster: Cluster, topic: InternalTopic) -> int:
    """Create the topic if needed, check it, and return its partition count. Raises ConfigError or ClientError."""
    found = describe_topics(cluster, [topic.name], skip_missing=True)
    if not found:
        _create(cluster, topic)
        found = cluster.retrying(lambda: describe_topics(cluster, [topic.name]))
    count = len(found[0].partitions)
    if topic.kind == "config" and count != 1:
        raise ConfigError(
            f"Topic '{topic.name}' supplied via the '{topic.setting}' property is required to have a single "
            f"partition in order to guarantee consistency of connector configurations, but found {count} "
            "partitions."
        )
    _check_policy(cluster, topic)
    return count


def _check_policy(cluster: Cluster, topic: InternalTopic) -> None:
    try:
        entries = describe_configs(cluster, Resource("topic", topic.name))
    except ClientError as error:
        if error.code not in (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ErrorCode.UNSUPPORTED_VERSION,
        ):
            raise
        _log.warning(
            "Not authorized to read the settings of %s: it is taken to be compacted only.", topic.name
        )
        return
    policy = next((entry.value for entry in entries if entry.name == "cleanup.policy"), None) or ""
    if sorted(filter(None, (each.strip() for each in policy.split(",")))) != ["compact"]:
        raise ConfigError(
            f"Topic '{topic.name}' supplied via the '{topic.setting}' property is required to have "
            f"'cleanup.policy=compact' to guarantee consistency and durability of {topic.purpose}, but found the "
            f"topic currently has 'cleanup.policy={policy}'. Continuing would likely result in eventually losing "
            f"{topic.purpose} and problems restarting this Connect cluster in the future. Change the "
            f"'{topic.setting}' property in the Connect worker configurations to use a topic with "
            "'cleanup.policy=compact'."
        )


def _create(cluster: Cluster, topic: InternalTopic) -> None:
    try:
        create_topic(
            cluster,
            topic.name,
            partitions=None if topic.partitions < 0 else topic.partitions,
            replication_factor=None if topic.replication_factor < 0 else topic.replication_factor,
            configs=topic.settings,
        )
    except ClientError as error:
        if error.code == ErrorCode.INVALID_REPLICATION_FACTOR:
            raise ConfigError(
                f"Topic '{topic.name}' cannot be created with {topic.replication_factor} replicas: "
                f"{error.broker_message or error.message} Set {topic.kind}.storage.replication.factor to no more "
                "than the number of brokers."
            ) from None
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        # Another worker created it first.
    cluster.retrying(lambda: _require(cluster, topic.name))


def _require(cluster: Cluster, name: str) -> None:
    if name not in cluster.topics([name]):
        raise TopicNotFound(name)
