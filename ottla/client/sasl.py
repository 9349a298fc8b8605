"""The client's side of SASL, with errors for the one who runs it."""

from __future__ import annotations

from ottla.client.errors import ClientError, Unsupported
from ottla.protocol.errors import ErrorCode
from ottla.security.sasl import plain, scram
from ottla.security.sasl.exchange import AuthenticationFailed, ClientExchange

MECHANISMS = (plain.MECHANISM, *scram.HASHES)


def exchange(mechanism: str, username: str, password: str) -> ClientExchange:
    if mechanism == plain.MECHANISM:
        return plain.log_in(username, password)
    if mechanism in scram.HASHES:
        return _with_client_errors(scram.log_in(mechanism, username, password))
    raise Unsupported(
        f"The SASL mechanism {mechanism} is not supported here: use PLAIN or SCRAM.",
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    )


def _with_client_errors(steps: ClientExchange) -> ClientExchange:
    try:
        yield from steps
    except AuthenticationFailed as failure:
        raise ClientError(
            f"The broker cannot be trusted: {failure}.", ErrorCode.SASL_AUTHENTICATION_FAILED
        ) from None
