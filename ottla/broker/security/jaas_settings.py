"""Login module of a mechanism on a listener, in Kafka's lookup order.

1. `listener.name.{listener}.{mechanism}.sasl.jaas.config`
2. in the JAAS file: the section `{listener}.KafkaServer`
3. in the JAAS file: the section `KafkaServer`

The file is set by `java.security.auth.login.config`, a system property in KAFKA_OPTS for Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import unquote

from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.listeners import own_listener_value
from ottla.security.jaas import BadJaas, LoginModule, parse_entry, parse_file, server_section
from ottla.security.java_options import ENVIRONMENT_VARIABLE, JAAS_FILE, system_properties

_JAAS = "sasl.jaas.config"


def login_module(
    config: BrokerConfig, listener: str, mechanism: str, environment: Mapping[str, str] = os.environ
) -> LoginModule | None:
    """Return the login module, or None if not configured. Raises ConfigError for unreadable settings."""
    name = setting_name(listener, mechanism)
    text = config.values.get(name)
    if text:
        try:
            module = parse_entry(str(text))
        except BadJaas as error:
            raise ConfigError(f"{name} cannot be read: {error}.") from None
        if mechanism not in module.mechanisms:
            raise ConfigError(f"{name} names a login module of {' and '.join(module.mechanisms)}.")
        return module
    path = _file(config, environment)
    return None if path is None else _in_file(path, listener, mechanism)


def required_login_module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    module = login_module(config, listener, mechanism)
    if module is None:
        name = setting_name(listener, mechanism)
        hint = (
            f" ({_JAAS} counts only with the listener and the mechanism before it)"
            if is_without_mechanism(config, listener)
            else ""
        )
        raise ConfigError(f"Listener {listener} enables {mechanism}, but {name} is not set{hint}.")
    return module


def setting_name(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"


def is_without_mechanism(config: BrokerConfig, listener: str) -> bool:
    """Return True if `sasl.jaas.config` is set in a form that no mechanism reads."""
    return bool(own_listener_value(config.values, listener, _JAAS) or config.values.get(_JAAS))


def _file(config: BrokerConfig, environment: Mapping[str, str]) -> str | None:
    given = config.get_optional_str("java.security.auth.login.config") or system_properties(environment).get(
        JAAS_FILE
    )
    # In Java, -Dname==path means "only this file".
    path = (given or "").removeprefix("=")
    return unquote(path.removeprefix("file:")) if path.startswith("file:") else path or None


def _in_file(path: str, listener: str, mechanism: str) -> LoginModule | None:
    where = f"The JAAS file {path}, which {JAAS_FILE} or {ENVIRONMENT_VARIABLE} names,"
    try:
        with open(path, encoding="utf-8") as file:
            modules = server_section(parse_file(file.read()), listener)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where} cannot be read: it is not UTF-8 text.") from None
    except BadJaas as error:
        raise ConfigError(f"{where} cannot be read: {error}.") from None
    if modules is None:
        raise ConfigError(f"{where} has no section {listener.lower()}.KafkaServer and none KafkaServer.")
    return next((module for module in modules if mechanism in module.mechanisms), None)
