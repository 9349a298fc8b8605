"""Settings of a broker that exist only while it runs: how fast replicas that move may be copied."""

from __future__ import annotations

from collections.abc import Mapping

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def wrong_rate(configs: Mapping[str, str]) -> str | None:
    """What is wrong with the rates among some settings, in Kafka's words."""
    for name in (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE):
        text = configs.get(name)
        if text is None:
            continue
        try:
            value = int(text)
        except ValueError:
            return f"Invalid value {text} for configuration {name}: Not a number of type LONG"
        if value < 0:
            return f"Invalid value {value} for configuration {name}: Value must be at least 0"
    return None
