"""Every broker configuration that Ottla knows."""

from __future__ import annotations

import re

from ottla.metadata.configs.broker_configs_groups import GROUP_CONFIGS
from ottla.metadata.configs.broker_configs_log import LOG_CONFIGS
from ottla.metadata.configs.broker_configs_security import SECURITY_CONFIGS
from ottla.metadata.configs.broker_configs_server import SERVER_CONFIGS
from ottla.metadata.configs.broker_configs_streams import STREAMS_CONFIGS
from ottla.metadata.configs.config_defs import ConfigDef, by_name

BROKER_CONFIGS: dict[str, ConfigDef] = by_name(
    SERVER_CONFIGS, LOG_CONFIGS, GROUP_CONFIGS, STREAMS_CONFIGS, SECURITY_CONFIGS
)

# Names people write that are not Kafka's, read as the ones they mean.
ALIASES = {"log.segment.ms": "log.roll.ms"}

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]+\.(.+)")


def broker_config_def(name: str) -> ConfigDef | None:
    """The definition of a name, also of listener.name.<name>.[mechanism.]<config>, set for one listener."""
    definition = BROKER_CONFIGS.get(name)
    if definition is None and (prefixed := _LISTENER_PREFIX.fullmatch(name)):
        base = prefixed[1]
        definition = BROKER_CONFIGS.get(base) or BROKER_CONFIGS.get(base.partition(".")[2])
    return definition
