"""Settings and topics as the coordinators need them."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from ottla.coordinator.groups.base.group_config import GroupConfig, Pace, StreamsSettings
from ottla.coordinator.groups.base.topics import Topic
from ottla.coordinator.groups.modern.assignors import ASSIGNORS
from ottla.coordinator.transactions.coordinator import TransactionConfig
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.group_configs import group_int


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
    """Return the supported assignors of `group.consumer.assignors`; Java classes are ignored."""
    named = [name for name in config.get_list("group.consumer.assignors") if name in ASSIGNORS]
    return tuple(named) or ("uniform",)


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
