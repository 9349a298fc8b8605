"""Choose the replica that a consumer should read from (KIP-392)."""

from __future__ import annotations

from ottla.cluster.partitions.partition import Partition
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER = "org.apache.kafka.common.replica.LeaderSelector"


def selects_by_rack(config: BrokerConfig) -> bool:
    """Return True if `replica.selector.class` selects by rack. Custom Java classes cannot be loaded."""
    name = config.get_optional_str("replica.selector.class")
    if name in (None, "", _LEADER, "LeaderSelector"):
        return False
    if name in (RACK_AWARE, "RackAwareReplicaSelector"):
        return True
    raise ConfigError(f"replica.selector.class cannot be {name!r}; give {RACK_AWARE}, or leave it out.")


def replica_near(partition: Partition, offset: int, rack: str, image: ClusterImage) -> int | None:
    """Return the most advanced in-sync follower in that rack, or None if the consumer should read from the leader."""
    leading = partition.leading
    if leading is None or _rack(image, partition.broker_id) == rack:
        return None
    best, furthest = None, -1
    for broker_id, follower in leading.followers.items():
        if (
            broker_id in leading.isr
            and follower.start_offset <= offset <= follower.end_offset
            and follower.end_offset > furthest
            and _rack(image, broker_id) == rack
        ):
            best, furthest = broker_id, follower.end_offset
    return best


def _rack(image: ClusterImage, broker_id: int) -> str | None:
    broker = image.brokers.get(broker_id)
    return None if broker is None else broker.rack
