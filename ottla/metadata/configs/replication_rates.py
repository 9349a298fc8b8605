"""Dynamic-only broker settings: replication throttle rates."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.metadata.configs.config_defs import LONG, ConfigDef, InvalidValue, Range, parse_value

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

_RATES = [ConfigDef(name, LONG, None, Range(0)) for name in (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)]


def wrong_rate(configs: Mapping[str, str]) -> str | None:
    """Return Kafka's message about an invalid rate, or None."""
    try:
        for rate in _RATES:
            parse_value(rate, configs.get(rate.name))
    except InvalidValue as error:
        return str(error)
    return None
