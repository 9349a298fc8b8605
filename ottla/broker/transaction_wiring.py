"""Connects the transaction coordinator to this broker's partitions, groups and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.coordinator.coordinator import GroupCoordinator
from ottla.coordinator.state_log import CONSUMER_OFFSETS_TOPIC
from ottla.coordinator.transaction import TopicPartition
from ottla.coordinator.transaction_coordinator import Marker, TransactionConfig
from ottla.metadata.broker_config import BrokerConfig
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.cluster.replicas import Replicas


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


class PartitionMarkers:
    """Ends transactions in the partitions that this broker leads; committed offsets are applied with them."""

    def __init__(self, replicas: Replicas, groups: GroupCoordinator, now_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._groups = groups
        self._now_ms = now_ms

    def write(self, marker: Marker, partitions: Sequence[TopicPartition]) -> list[ErrorCode]:
        return [self._write_one(marker, topic, index) for topic, index in partitions]

    def _write_one(self, marker: Marker, topic: str, index: int) -> ErrorCode:
        try:
            partition = self._replicas.leader(topic, index)
            if topic == CONSUMER_OFFSETS_TOPIC:
                self._groups.check_marker(index)
            partition.append_marker(
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                now_ms=self._now_ms(),
            )
        except KafkaError as error:
            return error.code
        if topic == CONSUMER_OFFSETS_TOPIC:
            self._groups.end_transaction(index, marker.producer_id, marker.commit)
        return ErrorCode.NONE
