"""Replication throttles: limit the rate at which reassigned replicas catch up (KIP-73).

A token bucket fills at the configured rate, up to one window's worth. A batch larger than the remaining tokens is still
sent, and later batches wait until the debt is repaid. The rate therefore holds over any period that is long compared to
a window and a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING

from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.config_defs import FOLLOWER_RATE, LEADER_RATE

if TYPE_CHECKING:
    from ottla.cluster.partitions.partition import Partition

logger = logging.getLogger(__name__)

_EVERY_REPLICA = "*"
# Small fetches are inefficient and end in the middle of a batch, which is then fetched again. A throttled replica
# therefore waits until this much may be sent, and gets a good share of it.
_FILL_SECONDS = 0.2
_SHARES, _LEAST_SHARE = 4, 256 * 1024
_LONGEST_WAIT = 1.0  # the rate may have changed by then


class ReplicationThrottle:
    """One direction: bytes sent to followers, or bytes fetched as a follower.

    In-sync replicas are never throttled. Owner: the event loop.
    """

    def __init__(
        self, rate: str, replicas: str, broker_id: int, config: BrokerConfig, image: ClusterImage
    ) -> None:
        self._rate_name = rate
        self._replicas_name = replicas
        self._broker_id = broker_id
        self._config = config
        self._image = image
        self._window = config.get_int("replication.quota.window.size.seconds")
        self._rate: int | None = None  # bytes per second
        self._tokens = 0.0
        self._filled_at = 0.0
        self._throttled: dict[str, tuple[Mapping[str, str], frozenset[str]]] = {}
        self.configure()

    @classmethod
    def of_leaders(cls, broker_id: int, config: BrokerConfig, image: ClusterImage) -> ReplicationThrottle:
        return cls(LEADER_RATE, "leader.replication.throttled.replicas", broker_id, config, image)

    @classmethod
    def of_followers(cls, broker_id: int, config: BrokerConfig, image: ClusterImage) -> ReplicationThrottle:
        return cls(FOLLOWER_RATE, "follower.replication.throttled.replicas", broker_id, config, image)

    def configure(self) -> None:
        """Apply a changed dynamic broker configuration."""
        text = self._config.dynamic_broker.get(self._rate_name) or self._config.dynamic_default.get(
            self._rate_name
        )
        rate = int(text) if text is not None and text.strip().isdecimal() else None
        if rate != self._rate:
            self._rate = rate
            self._tokens, self._filled_at = float((rate or 0) * self._window), monotonic()
            logger.info("%s is %s", self._rate_name, "not set" if rate is None else rate)

    def covers(self, partition: Partition, replica_id: int) -> bool:
        """Return True if traffic to that replica is throttled."""
        if self._rate is None or replica_id in partition.isr:
            return False
        names = self._names(partition.topic)
        return bool(names) and (_EVERY_REPLICA in names or f"{partition.index}:{self._broker_id}" in names)

    def _names(self, topic: str) -> frozenset[str]:
        known = self._image.topics.get(topic)
        if known is None:
            return frozenset()
        cached = self._throttled.get(topic)
        if cached is None or cached[0] is not known.configs:
            text = known.configs.get(self._replicas_name, "")
            names = frozenset(name.strip() for name in text.split(",") if name.strip())
            cached = self._throttled[topic] = (known.configs, names)
        return cached[1]

    def left(self) -> float:
        """Return the bytes that may be sent now; less than one means none."""
        rate, now = self._rate, monotonic()
        if rate is None:
            return float("inf")
        self._tokens = min(self._tokens + (now - self._filled_at) * rate, float(rate * self._window))
        self._filled_at = now
        return self._tokens

    def take(self, size: int) -> None:
        self._tokens = self.left() - size

    def share(self, taken: int = 0) -> int:
        """Return a share of the remaining bytes when `taken` bytes are already reserved; 0 means none."""
        if self._rate is None or self.left() - taken < 1:
            return 0
        return max(self._rate * self._window // _SHARES, _LEAST_SHARE)

    def reserve(self, most: int) -> int:
        """Reserve a share of at most `most` bytes, which may remain unused."""
        size = min(most, self.share())
        self._tokens -= size
        return size

    def wait(self) -> float:
        """Return the seconds until a retry makes sense; 0 means now."""
        left = self.left()
        if left >= 1:
            return 0.0
        if not self._rate:
            return _LONGEST_WAIT
        return min(_FILL_SECONDS - left / self._rate, _LONGEST_WAIT)
