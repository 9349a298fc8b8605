"""What brokers use among themselves: which listener, with TLS or not, and as whom they log in there."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.security.ssl_settings import ListenerTls
from ottla.cluster.peer import PeerLogin, PeerSecurity
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.security.jaas import BadJaas, parse_entry
from ottla.security.sasl import plain, scram
from ottla.security.sasl.exchange import ClientExchange

_LISTENER = "inter.broker.listener.name"
_PROTOCOL = "security.inter.broker.protocol"
_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_SUPPORTED = (plain.MECHANISM, *scram.HASHES)


def check_inter_broker(config: BrokerConfig) -> None:
    """Raises ConfigError naming the setting that is missing or wrong."""
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
    """`tls`: of the listeners that speak it. Raises ConfigError."""
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
    """With the user and the password of the listener's own JAAS entry, as in Kafka."""
    mechanism = config.get_str(_MECHANISM).upper()
    if mechanism not in _SUPPORTED:
        raise ConfigError(
            f"{_MECHANISM} is {mechanism}, which is not supported yet: set it to one of {', '.join(_SUPPORTED)}."
        )
    setting = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = config.values.get(setting)
    if not text:
        raise ConfigError(
            f"Brokers log in to each other on listener {listener} with {mechanism}, but {setting} is not set."
        )
    try:
        module = parse_entry(str(text))
    except BadJaas as error:
        raise ConfigError(f"{setting} cannot be read: {error}.") from None
    user, password = module.options.get("username", ""), module.options.get("password", "")
    if mechanism not in module.mechanisms:
        raise ConfigError(f"{setting} names a login module of {' and '.join(module.mechanisms)}.")
    if not user or not password:
        raise ConfigError(f"{setting} has no username and password: brokers log in to each other with them.")

    def exchange() -> ClientExchange:
        if mechanism == plain.MECHANISM:
            return plain.log_in(user, password)
        return scram.log_in(mechanism, user, password)

    return PeerLogin(mechanism, exchange, setting)
