"""Settings and topics as the coordinators need them, and the internal topics of streams groups."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from functools import partial

from ottla.cluster.topics.topic_admin import TopicAdmin
from ottla.cluster.topics.topic_decisions import DEFAULT
from ottla.coordinator.groups.base.base_group import GroupConfig, Pace, StreamsSettings, Topic
from ottla.coordinator.groups.streams.topology import InternalTopic
from ottla.coordinator.transactions.coordinator import TransactionConfig
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.broker_config_table import assignor_names
from ottla.metadata.configs.group_configs import group_int
from ottla.protocol.errors import ErrorCode, KafkaError

# Settings and topics as the coordinators need them.


def group_config(config: BrokerConfig, image: ClusterImage) -> GroupConfig:
    migration = config.get_str("group.consumer.migration.policy").lower()
    return GroupConfig(
        initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
        max_size=config.get_int("group.max.size"),
        offset_metadata_max_bytes=config.get_int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.get_int("offsets.retention.check.interval.ms"),
        offsets_topic_num_partitions=config.get_int("offsets.topic.num.partitions"),
        consumer_assignors=assignors(config),
        consumer_max_size=config.get_int("group.consumer.max.size"),
        share_max_size=config.get_int("group.share.max.size"),
        consumer_upgrade=migration in ("upgrade", "bidirectional"),
        consumer_downgrade=migration in ("downgrade", "bidirectional"),
        streams_max_size=config.get_int("group.streams.max.size"),
        streams_settings_of=partial(streams_settings_of, config, image),
        pace_of=partial(pace_of, config, image),
    )


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    return TransactionConfig(
        max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
        allows_two_phase_commit=config.get_bool("transaction.two.phase.commit.enable"),
        state_log_num_partitions=config.get_int("transaction.state.log.num.partitions"),
        abort_timed_out_interval_ms=config.get_int(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        id_expiration_ms=config.get_int("transactional.id.expiration.ms"),
        remove_expired_interval_ms=config.get_int(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
    )


def pace_of(config: BrokerConfig, image: ClusterImage, group_type: str, group_id: str) -> Pace:
    own = image.group_configs.get(group_id, {})
    return Pace(
        heartbeat_interval_ms=group_int(config, own, f"{group_type}.heartbeat.interval.ms"),
        session_timeout_ms=group_int(config, own, f"{group_type}.session.timeout.ms"),
        assignment_interval_ms=group_int(config, own, f"{group_type}.assignment.interval.ms"),
    )


def streams_settings_of(config: BrokerConfig, image: ClusterImage, group_id: str) -> StreamsSettings:
    own = image.group_configs.get(group_id, {})
    return StreamsSettings(
        num_standby_replicas=group_int(config, own, "streams.num.standby.replicas"),
        initial_rebalance_delay_ms=group_int(config, own, "streams.initial.rebalance.delay.ms"),
    )


def assignors(config: BrokerConfig) -> tuple[str, ...]:
    return tuple(assignor_names(config.get_list("group.consumer.assignors"))) or ("uniform",)


class ImageTopics:
    """The coordinators' view of the topics in the cluster image."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    @property
    def version(self) -> int:
        return self._image.version

    def names(self) -> Collection[str]:
        return self._image.topics.keys()

    def by_name(self, name: str) -> Topic | None:
        return _topic(self._image.topics.get(name))

    def by_id(self, topic_id: bytes) -> Topic | None:
        return _topic(self._image.topics_by_id.get(topic_id))


def _topic(topic: TopicImage | None) -> Topic | None:
    return None if topic is None else Topic(topic.name, topic.topic_id, len(topic.partitions))


# Create the internal topics of streams groups: changelogs and repartition topics.

log = logging.getLogger(__name__)


class StreamsTopics:
    """Heartbeats do not wait for topic creation. A later heartbeat reports that the topics exist, or why not.

    Owner: the event loop.
    """

    def __init__(self, topic_admin: TopicAdmin) -> None:
        self._topic_admin = topic_admin
        self._creating: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, str] = {}

    def create(self, topics: Iterable[InternalTopic]) -> None:
        """Start creating the missing topics, each only once no matter how many members ask."""
        for topic in topics:
            if topic.name not in self._creating:
                task = asyncio.ensure_future(self._create(topic))
                self._creating[topic.name] = task
                task.add_done_callback(lambda _, name=topic.name: self._creating.pop(name, None))  # type: ignore[misc]

    def failures(self, topics: Iterable[InternalTopic]) -> str:
        """Return the reasons of the last failures in one sentence, or an empty string."""
        failed = [
            (topic.name, self._failures[topic.name]) for topic in topics if topic.name in self._failures
        ]
        if not failed:
            return ""
        return f"Creation failed: {', '.join(f'{name} ({reason})' for name, reason in failed)}."

    def close(self) -> None:
        for task in self._creating.values():
            task.cancel()

    async def _create(self, topic: InternalTopic) -> None:
        try:
            await self._topic_admin.create_topic(
                topic.name,
                topic.partitions,
                topic.replication_factor or DEFAULT,
                configs=dict(topic.configs),
            )
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                reason = error.message or error.code.name
                if self._failures.get(topic.name) != reason:  # every heartbeat retries, so log only changes
                    log.warning("Internal topic %s could not be created: %s", topic.name, error)
                self._failures[topic.name] = reason
                return
        self._failures.pop(topic.name, None)
