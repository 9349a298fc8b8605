"""Settings of a broker that exist only while it runs: how fast replicas that move may be copied."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.metadata.configs.config_defs import LONG, ConfigDef, InvalidValue, Range, parse_value

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

_RATES = [ConfigDef(name, LONG, None, Range(0)) for name in (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)]


def wrong_rate(configs: Mapping[str, str]) -> str | None:
    """What is wrong with the rates among some settings, in Kafka's words."""
    try:
        for rate in _RATES:
            parse_value(rate, configs.get(rate.name))
    except InvalidValue as error:
        return str(error)
    return None
