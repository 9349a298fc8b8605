"""What a topic will be like, or why it cannot be: decided from the image and the configuration, without writing."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from ottla.cluster.reassignment.reassignments import is_moving
from ottla.cluster.topics import topic_nodes
from ottla.cluster.topics.new_assignments import (
    Replicas,
    check_manual_assignment,
    check_manual_replicas,
    check_replication_factor,
    place_more_replicas,
    place_replicas,
)
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.topic_configs import validate_topic_configs
from ottla.metadata.topic_names import validate_topic_name
from ottla.protocol.errors import ErrorCode, KafkaError

DEFAULT = -1
MAX_PARTITIONS_PER_REQUEST = 10_000
TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."
_RESERVED_TOPIC = "__cluster_metadata"


class TopicDecisions:
    """Owner: the event loop."""

    def __init__(self, image: ClusterImage, config: BrokerConfig) -> None:
        self._image = image
        self._config = config

    @property
    def _racks(self) -> dict[int, str | None]:
        return {broker.broker_id: broker.rack for broker in self._image.brokers.values()}

    def new_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        assignment: Sequence[tuple[int, Sequence[int]]],
        configs: Mapping[str, str | None],
    ) -> TopicImage:
        validate_topic_name(name)
        if name == _RESERVED_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        self._image.check_collision(name)
        if name in self._image.deleting:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        validate_topic_configs(configs)
        placed = self._place(partitions, replication_factor, assignment)
        overrides = {config: value for config, value in configs.items() if value is not None}
        states = {index: topic_nodes.first_state(name, index, replicas) for index, replicas in placed.items()}
        return TopicImage(name, nodes.random_uuid(), states, overrides)

    def _place(
        self, partitions: int, replication_factor: int, assignment: Sequence[tuple[int, Sequence[int]]]
    ) -> dict[int, Replicas]:
        if assignment:
            for what, count in (("replication factor", replication_factor), ("numPartitions", partitions)):
                if count != DEFAULT:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"A manual partition assignment was specified, but {what} was not set to -1.",
                    )
            _check_count(len(assignment))
            return check_manual_assignment(assignment, self._racks)
        if replication_factor == 0 or replication_factor < DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if partitions == 0 or partitions < DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        if partitions == DEFAULT:
            partitions = self._config.get_int("num.partitions")
        if replication_factor == DEFAULT:
            replication_factor = self._config.get_int("default.replication.factor")
        _check_count(partitions)
        racks = self._racks
        check_replication_factor(replication_factor, len(racks))
        start_index, shift = random.randrange(len(racks)), random.randrange(len(racks))
        return place_replicas(racks, partitions, replication_factor, start_index=start_index, shift=shift)

    def more_partitions(
        self, topic: TopicImage, count: int, assignment: Sequence[Sequence[int]] | None
    ) -> dict[int, Replicas]:
        current = len(topic.partitions)
        if any(map(is_moving, topic.partitions.values())):
            raise KafkaError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic {topic.name}.",
            )
        if count == current:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
        if count < current:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {current} partition(s); {count} would not be an increase.",
            )
        more = count - current
        _check_count(more)
        existing = {index: partition.replicas for index, partition in topic.partitions.items()}
        if assignment is None:
            return place_more_replicas(self._racks, existing, more)
        if len(assignment) != more:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {more} additional partition(s), but only {len(assignment)} assignment(s) were "
                "specified.",
            )
        for replicas in assignment:
            check_manual_replicas(replicas, self._racks, len(existing[0]))
        return {current + index: tuple(replicas) for index, replicas in enumerate(assignment)}


def _check_count(partitions: int) -> None:
    if partitions > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
