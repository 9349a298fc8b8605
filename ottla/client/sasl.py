"""The client's side of SASL, with errors for its operator."""

from __future__ import annotations

from ottla.client.errors import ClientError, Unsupported
from ottla.client.settings import Sasl
from ottla.protocol.errors import ErrorCode
from ottla.security.sasl import gssapi, oauthbearer, plain, scram
from ottla.security.sasl.exchange import AuthenticationFailed, ClientExchange

MECHANISMS = (plain.MECHANISM, *scram.HASHES, oauthbearer.MECHANISM, gssapi.MECHANISM)


def exchange(sasl: Sasl, host: str = "") -> ClientExchange:
    if sasl.mechanism == plain.MECHANISM:
        return plain.log_in(sasl.username, sasl.password)
    if sasl.mechanism in scram.HASHES:
        return _with_client_errors(
            scram.log_in(sasl.mechanism, sasl.username, sasl.password, is_token=sasl.is_token),
            "The broker cannot be trusted",
        )
    if sasl.mechanism == oauthbearer.MECHANISM and sasl.oauth is not None:
        from ottla.oauth import tokens as oauth_tokens

        return _with_client_errors(oauth_tokens.log_in(sasl.oauth), "Cannot log in")
    if sasl.mechanism == gssapi.MECHANISM and sasl.kerberos is not None:
        kerberos = sasl.kerberos
        return _with_client_errors(
            gssapi.log_in(kerberos.service, host, kerberos.principal, kerberos.keytab),
            "Cannot log in with Kerberos",
        )
    raise Unsupported(
        f"The SASL mechanism {sasl.mechanism} is not supported here: use one of {', '.join(MECHANISMS)}.",
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    )


def _with_client_errors(steps: ClientExchange, trouble: str) -> ClientExchange:
    try:
        yield from steps
    except AuthenticationFailed as failure:
        raise ClientError(f"{trouble}: {failure}.", ErrorCode.SASL_AUTHENTICATION_FAILED) from None
