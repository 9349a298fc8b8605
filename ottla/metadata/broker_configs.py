"""Every broker configuration that Ottla knows, and the names it knows but has no use for."""

from __future__ import annotations

import re

from ottla.metadata.broker_configs_groups import GROUP_CONFIGS
from ottla.metadata.broker_configs_log import LOG_CONFIGS
from ottla.metadata.broker_configs_security import SECURITY_CONFIGS
from ottla.metadata.broker_configs_server import SERVER_CONFIGS
from ottla.metadata.config_defs import ConfigDef, by_name

BROKER_CONFIGS: dict[str, ConfigDef] = by_name(SERVER_CONFIGS, LOG_CONFIGS, GROUP_CONFIGS, SECURITY_CONFIGS)

# Names people write that are not Kafka's, read as the ones they mean.
ALIASES = {"log.segment.ms": "log.roll.ms"}

# Kafka's own, without a meaning here: KRaft's, tiered storage's, those of Java plugins and of older versions.
_UNUSED_PREFIXES = (
    "config.providers",
    "confluent.",
    "controller.",
    "group.streams.",
    "internal.",
    "kafka.metrics.",
    "metadata.",
    "password.encoder.",
    "remote.",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.",
    "unstable.",
    "zookeeper.ssl.",
)
_UNUSED_NAMES = frozenset(
    {
        "auto.include.jmx.reporter",
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "cordoned.log.dirs",
        "delegation.token.master.key",
        "early.start.listeners",
        "eligible.leader.replicas.enable",
        "follower.fetch.last.tiered.offset.enable",
        "group.coordinator.background.threads",
        "group.share.max.groups",
        "initial.broker.registration.timeout.ms",
        "inter.broker.protocol.version",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "process.roles",
        "sasl.client.callback.handler.class",
        "sasl.mechanism.controller.protocol",
        "zookeeper.clientCnxnSocket",
        "zookeeper.metadata.migration.enable",
    }
)

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]+\.(.+)")


def broker_config_def(name: str) -> ConfigDef | None:
    """The definition of a name, also of listener.name.<name>.[mechanism.]<config>, set for one listener."""
    definition = BROKER_CONFIGS.get(name)
    if definition is None and (prefixed := _LISTENER_PREFIX.fullmatch(name)):
        base = prefixed[1]
        definition = BROKER_CONFIGS.get(base) or BROKER_CONFIGS.get(base.partition(".")[2])
    return definition


def is_unused(name: str) -> bool:
    """Whether Kafka knows the name and Ottla does not need it."""
    return name in _UNUSED_NAMES or name.startswith(_UNUSED_PREFIXES)
