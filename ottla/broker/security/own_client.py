"""Client settings for helper processes of the broker: the inter-broker listener, or a properties file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ottla.broker.security.jaas_settings import login_module
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.config_defs import format_value
from ottla.metadata.configs.listeners import listener_value
from ottla.properties import PropertiesError, decode_properties, parse_properties

_FILE = "ottla.audit.client.config"
_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_OF_TLS = (
    "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
    "ssl.key.password", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates",
    "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm",
)  # fmt: skip
_OF_LOGINS = (
    "sasl.kerberos.service.name", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
)  # fmt: skip


def own_client(config: BrokerConfig, ports: Mapping[str, int]) -> dict[str, str]:
    """Return client properties. `ports` maps listeners to their bound ports. Raises ConfigError."""
    endpoints = {each.listener: each for each in config.advertised_listeners(ports)}
    name = config.inter_broker_listener_name
    if name not in endpoints:  # a standalone broker need not configure an inter-broker listener
        name = next(iter(endpoints))
    endpoint = endpoints[name]
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    servers = {"bootstrap.servers": f"{host}:{endpoint.port}"}
    if (path := config.get_optional_str(_FILE)) is not None:
        return {**servers, **_read(Path(path))}
    protocol = next(each.security_protocol for each in config.listeners if each.name == name)
    found = {**servers, "security.protocol": protocol}
    wanted: list[str] = []
    if protocol.endswith("SSL"):
        wanted += _OF_TLS
    if protocol.startswith("SASL"):
        wanted += _OF_LOGINS
        mechanism = config.get_str(_MECHANISM).upper()
        found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": _client_login(config, name, mechanism)}
    for setting in wanted:
        text = format_value(listener_value(config.values, name, setting))
        if text is not None and (text or setting == "ssl.endpoint.identification.algorithm"):
            found[setting] = text
    return found


def _client_login(config: BrokerConfig, listener: str, mechanism: str) -> str:
    module = login_module(config, listener, mechanism)
    if module is None or not (module.options.get("username") or mechanism in ("GSSAPI", "OAUTHBEARER")):
        raise ConfigError(
            f"ottla.audit.enable: the count audit has no login for listener {listener} with {mechanism}. Set {_FILE} "
            "to a file of client properties, or give brokers a login among themselves."
        )
    options = " ".join(f'{name}="{_quoted(value)}"' for name, value in module.options.items())
    return f"ottla.Login required {options};"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _read(path: Path) -> dict[str, str]:
    try:
        found = parse_properties(decode_properties(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"{_FILE}: cannot read {path}: {error.strerror}.") from None
    except PropertiesError as error:
        raise ConfigError(f"{_FILE}: {path}:{error.line}: {error.reason}.") from None
    return {name: text for name, text, _ in found}
