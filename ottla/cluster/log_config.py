"""Derive log settings from a topic's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from ottla.log.config import LogConfig
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.dynamic_configs.effective_config import TopicConfig

_NAMES = {field.name: field.name.replace("_", ".") for field in fields(LogConfig)}


def log_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Build the log settings. They share the names of the topic configs, so nothing is listed twice."""
    values = TopicConfig(broker, overrides).values
    settings = {name: values[config] for name, config in _NAMES.items()}
    policy = settings["cleanup_policy"]
    assert isinstance(policy, list)
    if (internal := values["internal.segment.bytes"]) is not None:
        settings["segment_bytes"] = internal
    if not broker.get_bool("remote.log.storage.system.enable"):
        settings["remote_storage_enable"] = False
    return LogConfig(**{**settings, "cleanup_policy": frozenset(policy)})  # type: ignore[arg-type]
