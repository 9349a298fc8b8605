"""The broker as a client of other brokers, and the client settings of its helper processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ottla.broker.security.certificate_reload import ListenerTls
from ottla.broker.security.sasl_settings import login_module, setting_name
from ottla.cluster.peers import PeerLogin, PeerSecurity
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.config_defs import format_value
from ottla.metadata.configs.listeners import listener_value
from ottla.properties import PropertiesError, decode_properties, parse_properties
from ottla.security.sasl import gssapi, oauthbearer, plain, scram
from ottla.security.sasl.plain import ClientExchange

# Inter-broker communication: listener, TLS and login.

_LISTENER = "inter.broker.listener.name"
_PROTOCOL = "security.inter.broker.protocol"
_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_SUPPORTED = (plain.MECHANISM, *scram.HASHES, gssapi.MECHANISM, oauthbearer.MECHANISM)
# Settings for token requests by a broker.
_TOKEN_SETTINGS = (
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
)


def check_inter_broker(config: BrokerConfig) -> None:
    """Raises ConfigError naming the missing or invalid setting."""
    if config.is_given(_LISTENER) and config.is_given(_PROTOCOL):
        raise ConfigError(f"Both {_LISTENER} and {_PROTOCOL} are set: remove one of them.")
    name = config.inter_broker_listener_name
    names = [endpoint.listener for endpoint in config.advertised_listeners()]
    if name not in names:
        raise ConfigError(
            f"Brokers have no listener {name} to reach each other at: set {_LISTENER} to one of {', '.join(names)}."
        )
    protocol = _protocol(config, name)
    if protocol.startswith("SASL"):
        _login(config, name)


def inter_broker_security(config: BrokerConfig, tls: Mapping[str, ListenerTls]) -> PeerSecurity:
    """`tls` holds the TLS listeners by name. Raises ConfigError."""
    name = config.inter_broker_listener_name
    protocol = _protocol(config, name)
    context = None
    if protocol.endswith("SSL"):
        of_listener = tls[name]
        context = lambda: of_listener.client_context  # noqa: E731 - as it is when a connection is made
    return PeerSecurity(name, context, _login(config, name) if protocol.startswith("SASL") else None)


def _protocol(config: BrokerConfig, name: str) -> str:
    found = [each.security_protocol for each in config.listeners if each.name == name]
    return found[0] if found else "PLAINTEXT"


def _login(config: BrokerConfig, listener: str) -> PeerLogin:
    """Return the login of the listener's own login module, as in Kafka."""
    mechanism = config.get_str(_MECHANISM).upper()
    if mechanism not in _SUPPORTED:
        raise ConfigError(
            f"Brokers cannot log in to each other with {mechanism}: set {_MECHANISM} to one of {', '.join(_SUPPORTED)}."
        )
    module = login_module(config, listener, mechanism)
    setting = setting_name(listener, mechanism)
    if module is None:
        raise ConfigError(
            f"Brokers log in to each other on listener {listener} with {mechanism}, but {setting} is not set."
        )
    options = module.options
    if mechanism == gssapi.MECHANISM:
        service = listener_value(config.values, listener, "sasl.kerberos.service.name", mechanism)
        name = str(service or options.get("serviceName") or "kafka")
        principal, keytab = options.get("principal"), options.get("keyTab", "").removeprefix("file:") or None
        return PeerLogin(mechanism, lambda host: gssapi.log_in(name, host, principal, keytab), setting)
    if mechanism == oauthbearer.MECHANISM:
        return PeerLogin(mechanism, _bearer(config, listener, options), setting)
    user, password = options.get("username", ""), options.get("password", "")
    if not user or not password:
        raise ConfigError(f"{setting} has no username and password: brokers log in to each other with them.")
    if mechanism == plain.MECHANISM:
        return PeerLogin(mechanism, lambda host: plain.log_in(user, password), setting)
    return PeerLogin(mechanism, lambda host: scram.log_in(mechanism, user, password), setting)


def _bearer(
    config: BrokerConfig, listener: str, options: Mapping[str, str]
) -> Callable[[str], ClientExchange]:
    from ottla.broker.security.oauthbearer import listed_urls
    from ottla.security import oauth as oauth_tokens

    given = {
        name: str(value)
        for name in _TOKEN_SETTINGS
        if (value := listener_value(config.values, listener, name, oauthbearer.MECHANISM))
    }
    try:
        settings = oauth_tokens.oauth_settings(given, options, listed_urls(config))
    except oauth_tokens.NoToken as missing:
        raise ConfigError(f"Brokers cannot log in to each other on listener {listener}: {missing}") from None
    return lambda host: oauth_tokens.log_in(settings)


# Client settings for helper processes of the broker: the inter-broker listener, or a properties file.

_FILE = "ottla.audit.client.config"
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
