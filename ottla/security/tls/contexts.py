"""TLS contexts for listeners and clients."""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from ottla.security.tls.settings import TLS_1_3, TlsError, Versions, openssl_name
from ottla.security.tls.stores import KeyStore

_VERSIONS = {
    "TLSv1": (ssl.TLSVersion.TLSv1, ssl.OP_NO_TLSv1),
    "TLSv1.1": (ssl.TLSVersion.TLSv1_1, ssl.OP_NO_TLSv1_1),
    "TLSv1.2": (ssl.TLSVersion.TLSv1_2, ssl.OP_NO_TLSv1_2),
    "TLSv1.3": (ssl.TLSVersion.TLSv1_3, ssl.OP_NO_TLSv1_3),
}
DEFAULT_PROTOCOLS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def _apply(versions: Versions, context: ssl.SSLContext) -> None:
    protocols = _protocols(versions)
    if versions.ciphers:
        older = [suite for suite in versions.ciphers if suite not in TLS_1_3]
        # Suites belong to versions: a version without a suite cannot be used.
        if not older:
            protocols = [each for each in protocols if each == "TLSv1.3"]
        elif len(older) == len(versions.ciphers):
            protocols = [each for each in protocols if each != "TLSv1.3"]
        if not protocols:
            raise TlsError("ssl.cipher.suites has no cipher suite for the versions in ssl.enabled.protocols.")
        if older:
            _set_ciphers(context, older)
    numbers = [_VERSIONS[each][0] for each in protocols]
    context.minimum_version, context.maximum_version = min(numbers), max(numbers)
    for name, (number, off) in _VERSIONS.items():
        if min(numbers) < number < max(numbers) and name not in protocols:
            context.options |= off


def _protocols(versions: Versions) -> list[str]:
    known = {name.lower(): name for name in _VERSIONS}
    given = versions.protocols or DEFAULT_PROTOCOLS
    for each in given:
        if each.lower() not in known:
            raise TlsError(
                f"ssl.enabled.protocols names {each}, which is not a version of TLS; give some of "
                f"{', '.join(_VERSIONS)}."
            )
    return [known[each.lower()] for each in given]


def _set_ciphers(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    names = [openssl_name(suite) for suite in suites]
    for suite, name in zip(suites, names, strict=True):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name)
        except ssl.SSLError:
            raise TlsError(f"ssl.cipher.suites names {suite}, which is not supported.") from None
    context.set_ciphers(":".join(names))


def server_context(
    key_store: KeyStore,
    trusted: Sequence[x509.Certificate] | None,
    client_auth: str,
    versions: Versions,
    source: str = "ssl.keystore.location",
) -> ssl.SSLContext:
    """Create a listener's context. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = CLIENT_AUTH[client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        # A resumed session would not look at the client's certificate again.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    _apply(versions, context)
    if trusted is not None:
        _trust(context, trusted)
    _load(context, key_store, source)
    return context


def client_context(
    key_store: KeyStore | None,
    trusted: Sequence[x509.Certificate] | None,
    versions: Versions,
    *,
    check_host: bool = True,
    verify: bool = True,
    source: str = "ssl.keystore.location",
) -> ssl.SSLContext:
    """Create a client's context. Without a trust store it trusts the system's authorities. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.check_hostname = verify and check_host
    if not verify:
        context.verify_mode = ssl.CERT_NONE
    _apply(versions, context)
    if trusted is not None:
        _trust(context, trusted)
    elif verify:
        context.set_default_verify_paths()
    if key_store is not None:
        _load(context, key_store, source)
    return context


def _trust(context: ssl.SSLContext, trusted: Sequence[x509.Certificate]) -> None:
    # As in Java, certificates in the store are trusted even if signed by someone else.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))


def _load(context: ssl.SSLContext, key_store: KeyStore, source: str) -> None:
    try:
        with _in_memory(key_store) as (path, password):
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise TlsError(f"OpenSSL does not take the key and the certificate of {source}: {reason}.") from None


@contextmanager
def _in_memory(key_store: KeyStore) -> Iterator[tuple[str, str | None]]:
    """Yield files for OpenSSL, which reads keys from files only. Others cannot open the file or read the key."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key_store.key_pem() + key_store.chain_pem)
            file.flush()
            yield f"/proc/self/fd/{descriptor}", None
        return
    password = secrets.token_hex(32)
    with tempfile.NamedTemporaryFile(suffix=".pem") as kept:
        kept.write(key_store.key_pem(password.encode()) + key_store.chain_pem)
        kept.flush()
        yield kept.name, password
