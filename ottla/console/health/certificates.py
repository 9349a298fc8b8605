"""Expiry of the certificates that servers present. Use in threads."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from ottla.console.health.facts import CertificateFacts

_SECONDS = 5.0
_DAY = 86_400.0


def certificates_of(brokers: Iterable[tuple[str, int]], urls: Iterable[str]) -> tuple[CertificateFacts, ...]:
    """Ask servers for their certificates. Servers that do not answer are reported elsewhere."""
    addresses = dict.fromkeys(brokers)
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme == "https" and parts.hostname:
            addresses[parts.hostname, parts.port or 443] = None
    found = []
    for host, port in addresses:
        try:
            found.append(_certificate(host, port))
        except (OSError, ValueError):
            continue
    return tuple(found)


def _certificate(host: str, port: int) -> CertificateFacts:
    """Read a certificate without verifying it, because an expired one matters most. No data is sent."""
    from cryptography import x509

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, port), _SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        presented = wrapped.getpeercert(binary_form=True)
    if not presented:
        raise ValueError("The server presents no certificate.")
    certificate = x509.load_der_x509_certificate(presented)
    left = certificate.not_valid_after_utc.timestamp() - time.time()
    subject = certificate.subject.rfc4514_string() or "no subject"
    return CertificateFacts(f"{host}:{port}", subject, left / _DAY)
