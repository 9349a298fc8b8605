"""What a SASL listener asks of its clients: mechanisms, users, and how long a login lasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.listeners import listener_value, own_listener_value
from ottla.security.jaas import BadJaas, LoginModule, parse_entry
from ottla.security.sasl import plain, scram
from ottla.security.sasl.exchange import ServerExchange
from ottla.security.sasl.plain import PlainServer
from ottla.security.sasl.scram import ScramCredential, ScramServer

SUPPORTED = (plain.MECHANISM, *scram.HASHES)

_MECHANISMS = "sasl.enabled.mechanisms"
_JAAS = "sasl.jaas.config"


class SaslSettings(NamedTuple):
    """Of one listener."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str]
    image: ClusterImage
    reauth_ms: Mapping[str, int]  # by mechanism; 0: a login lasts as long as its connection
    failure_delay: float  # seconds
    max_receive_bytes: int

    def exchange(self, mechanism: str) -> ServerExchange:
        if mechanism == plain.MECHANISM:
            return PlainServer(self.plain_users.get)
        return ScramServer(
            mechanism, lambda name, is_token: self._scram_credential(mechanism, name, is_token)
        )

    def _scram_credential(self, mechanism: str, name: str, is_token: bool) -> ScramCredential | None:
        text = None if is_token else self.image.scram_credentials.get(name, {}).get(mechanism)
        try:
            return None if text is None else scram.parse_credential(text)
        except ValueError:
            return None  # nobody can log in with it


def sasl_settings(config: BrokerConfig, listener: str, image: ClusterImage) -> SaslSettings:
    """Raises ConfigError naming the setting that is missing or wrong."""
    values = config.values
    mechanisms = listener_value(values, listener, _MECHANISMS)
    enabled = tuple(str(each).upper() for each in mechanisms) if isinstance(mechanisms, list | tuple) else ()
    for mechanism in enabled:
        if mechanism not in SUPPORTED:
            raise ConfigError(
                f"Listener {listener} enables the SASL mechanism {mechanism}, which is not supported yet: set "
                f"{_MECHANISMS} to some of {', '.join(SUPPORTED)}."
            )
    if not enabled:
        raise ConfigError(f"Listener {listener} asks for SASL, but {_MECHANISMS} is empty.")
    users: dict[str, str] = {}
    if plain.MECHANISM in enabled:
        users = _jaas(config, listener, plain.MECHANISM).users()
    reauth = {each: listener_value(values, listener, "connections.max.reauth.ms", each) for each in enabled}
    return SaslSettings(
        enabled,
        users,
        image,
        {mechanism: value if isinstance(value, int) else 0 for mechanism, value in reauth.items()},
        config.get_int("connection.failed.authentication.delay.ms") / 1000,
        config.get_int("sasl.server.max.receive.size"),
    )


def _jaas(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"
    text = config.values.get(name)
    if not text:
        without = own_listener_value(config.values, listener, _JAAS)
        hint = f" ({_JAAS} counts only with the listener and the mechanism before it)" if without else ""
        raise ConfigError(f"Listener {listener} enables {mechanism}, but {name} is not set{hint}.")
    try:
        module = parse_entry(str(text))
    except BadJaas as error:
        raise ConfigError(f"{name} cannot be read: {error}.") from None
    if mechanism not in module.mechanisms:
        raise ConfigError(f"{name} names a login module of {' and '.join(module.mechanisms)}.")
    return module
