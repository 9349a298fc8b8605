"""Broker settings explained for humans: descriptions, effective values, and problems in a properties file.

Part of the broker because only the broker knows its effective values; the command line calls this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ottla.broker.security.inter_broker import check_inter_broker
from ottla.broker.security.sasl_settings import sasl_settings
from ottla.broker.security.ssl_settings import read_certificates, ssl_settings
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import (
    BrokerConfig,
    ConfigError,
    check_is_config,
    refusal,
    single_broker_defaults,
)
from ottla.metadata.configs.broker_config_table import ALIASES, BROKER_CONFIGS, broker_config_def, has_effect
from ottla.metadata.configs.config_defs import ConfigDef, InvalidValue, format_value, parse_value
from ottla.metadata.configs.topic_configs import TOPIC_SYNONYMS
from ottla.properties import PropertiesError, decode_properties, parse_properties

__all__ = ["CheckedFile", "ConfigError", "Setting", "check_file", "explain"]

_HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    type: str
    default: str | None
    default_alone: str | None  # default without zookeeper.connect, if different
    valid: str
    update_mode: str  # read-only, per-broker or cluster-wide
    documentation: str
    topic_settings: list[str]  # topic settings that fall back to this one
    used: bool  # False: accepted without effect
    value: str | None
    source: str | None  # file and line or other origin of the value; None without a file

    @property
    def dynamic(self) -> bool:
        return self.update_mode != "read-only"


@dataclass(frozen=True, slots=True)
class CheckedFile:
    errors: list[str]
    warnings: list[str]


def explain(config_file: Path | None = None) -> list[Setting]:
    """Return every setting by name. With a file, include the values of a broker started from it. Raises ConfigError."""
    config = None if config_file is None else BrokerConfig.load(config_file)
    names = set(BROKER_CONFIGS) if config is None else set(BROKER_CONFIGS) | set(config.static)
    return [
        _setting(name, definition, config)
        for name in sorted(names)
        if (definition := broker_config_def(name)) is not None and not definition.internal
    ]


def _setting(name: str, definition: ConfigDef, config: BrokerConfig | None) -> Setting:
    alone = single_broker_defaults().get(name)
    value, source = (None, None) if config is None else _value(name, definition, config)
    return Setting(
        name=name,
        type=definition.type.name.lower(),
        default=definition.default,
        default_alone=alone if alone != definition.default else None,
        valid=definition.advice(""),
        update_mode=definition.update_mode.value,
        documentation=definition.documentation,
        topic_settings=sorted(
            topic for topic, synonyms in TOPIC_SYNONYMS.items() if name in (each.name for each in synonyms)
        ),
        used=has_effect(name),
        value=value,
        source=source,
    )


def _value(name: str, definition: ConfigDef, config: BrokerConfig) -> tuple[str | None, str]:
    value = format_value(config.get(name))
    if definition.sensitive and value is not None:
        value = _HIDDEN
    origin = config.origin(name)
    if origin is not None:
        return value, origin
    return value, "default of a broker on its own" if name in config.static else "default"


def check_file(path: Path) -> CheckedFile:
    """Return all errors in a server.properties file, and all settings without effect."""
    try:
        found = parse_properties(decode_properties(path.read_bytes()))
    except OSError as error:
        return CheckedFile([f"Cannot read {path}: {error.strerror}."], [])
    except PropertiesError as error:
        return CheckedFile([f"{path}:{error.line}: {error.reason}."], [])
    try:
        check_is_config({name: text for name, text, _ in found}, str(path))
    except ConfigError as error:
        return CheckedFile([str(error)], [])
    lines: dict[str, int] = {}
    warnings = []
    for name, _, line in found:
        if name in lines:
            warnings.append(f"{path}:{line}: {name} is set again; what line {lines[name]} says is ignored.")
        lines[name] = line
    properties = {name: text for name, text, _ in found}
    wrong = {name: _wrong(ALIASES.get(name, name), text) for name, text in properties.items()}
    errors = [f"{path}:{lines[name]}: {sentence}" for name, sentence in wrong.items() if sentence is not None]
    sound = {name: text for name, text in properties.items() if wrong[name] is None}
    try:
        config = BrokerConfig(sound, origins={name: f"{path}:{line}" for name, line in lines.items()})
        warnings += config.warnings
        if (refused := refused_listener(config)) is not None and not errors:
            errors.append(f"{path}:{lines['listeners']}: {refused}" if "listeners" in lines else refused)
    except ConfigError as error:
        if not errors:  # otherwise it may be a consequence of an error above
            errors.append(str(error))
    return CheckedFile(errors, warnings)


def refused_listener(config: BrokerConfig) -> str | None:
    """Return the reason why the broker cannot serve one of the listeners, or None."""
    try:
        for listener in config.listeners:
            if listener.security_protocol.endswith("SSL"):
                read_certificates(ssl_settings(config, listener.name))
            if listener.security_protocol.startswith("SASL"):
                sasl_settings(config, listener.name, ClusterImage())
        if config.zookeeper_connect:
            check_inter_broker(config)
    except ConfigError as error:
        return str(error)
    return None


def _wrong(name: str, text: str) -> str | None:
    definition = broker_config_def(name)
    if definition is None:
        return None
    try:
        parse_value(definition, text)
    except InvalidValue:
        return refusal(name, definition, text)
    return None
