"""The authorizer selected by the settings."""

from __future__ import annotations

from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.security.authorizer import Authorizer, parse_super_users

_CLASS = "authorizer.class.name"
# Authorizers of Kafka 4.x, of 2.4 to 3.9, and of earlier versions. All decide alike.
_CLASSES = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)


def authorizer_of(config: BrokerConfig) -> Authorizer | None:
    """Return the authorizer, or None without restrictions. Raises ConfigError."""
    name = config.get_str(_CLASS)
    if not name:
        return None
    if name not in _CLASSES:
        raise ConfigError(
            f"{_CLASS} is {name}, which is not known here: set it to {_CLASSES[0]}, or to nothing if everybody may do "
            "everything."
        )
    try:
        super_users = parse_super_users(config.get_optional_str("super.users") or "")
    except ValueError as error:
        raise ConfigError(f"super.users cannot be read: {error}.") from None
    return Authorizer(super_users, allow_everyone=config.get_bool("allow.everyone.if.no.acl.found"))
