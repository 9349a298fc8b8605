"""Principals on the command line, and refusals in the words of Kafka's client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ottla.cli.errors import BrokerUnreachable, JobError
from ottla.client.errors import in_kafkas_words
from ottla.protocol.errors import ErrorCode
from ottla.security.principal import KafkaPrincipal

# Exceptions of Kafka's client whose names differ from their error codes.
_EXCEPTIONS = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorization",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabled",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthentication",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorization",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServer",
}
# Errors that the client finds before it asks a broker. Our own sentences explain more.
_OWN = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_CONFIG,
    }
)


def parse_principals(texts: Iterable[str]) -> list[KafkaPrincipal]:
    return [_principal(text.strip()) for text in texts]


def _principal(text: str) -> KafkaPrincipal:
    kind, colon, name = text.partition(":")
    if not colon:
        raise JobError(f"expected a string in format principalType:principalName but got {text}")
    return KafkaPrincipal(kind, name)


@contextmanager
def exceptions_named() -> Iterator[None]:
    """Prefix refusals with the exception name, as Kafka's tools do."""
    try:
        yield
    except BrokerUnreachable:
        raise
    except JobError as error:
        if error.code is None or error.code in _OWN:
            raise
        name = _EXCEPTIONS.get(error.code) or "".join(map(str.capitalize, error.code.name.split("_")))
        words = in_kafkas_words(error.code, error.broker_message).message
        raise JobError(f"org.apache.kafka.common.errors.{name}Exception: {words}", error.code) from None
