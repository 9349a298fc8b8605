"""A private certificate authority: for `ottla certs`, for `ottla start --secure`, and for tests.

Keys use the curve P-256: signing a handshake costs the broker far less than with RSA.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clocks differ: a new certificate must be valid on a machine whose clock is behind.
_BACKDATED = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Issued:
    """A certificate with its chain, from the leaf to the authority's own, and its private key."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True)
class Authority:
    certificate_pem: bytes
    key_pem: bytes = field(repr=False)

    def issue(
        self, common_name: str, hosts: Sequence[str] = (), *, days: int = 825, client: bool = False
    ) -> Issued:
        """Create a key and its certificate. `hosts` are the names or addresses that clients connect to. Brokers are
        clients of each other, so a server certificate also serves as a client certificate.
        """
        authority = x509.load_pem_x509_certificate(self.certificate_pem)
        authority_key = _issuer_key(self.key_pem)
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if not client:
            usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        builder = (
            _builder(_common_name(common_name), authority.subject, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(_authority_identifier(authority), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(authority_key, hashes.SHA256())
        leaf = certificate.public_bytes(serialization.Encoding.PEM)
        return Issued(leaf + self.certificate_pem, _key_pem(key))


def make_authority(name: str = "Ottla CA", *, days: int = 3650) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _common_name(name)
    certificate = (
        _builder(subject, subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def load_authority(certificate_pem: bytes, key_pem: bytes) -> Authority:
    """Raises ValueError, with one sentence, if these two cannot issue certificates."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
    except ValueError as error:
        raise ValueError("The certificate of the authority cannot be read as PEM") from error
    key = _issuer_key(key_pem)
    if certificate.public_key() != key.public_key():
        raise ValueError("The key does not belong to the certificate of the authority")
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        constraints = None
    if constraints is None or not constraints.ca:
        raise ValueError("The certificate is not that of an authority (basic constraint CA is missing)")
    return Authority(certificate.public_bytes(serialization.Encoding.PEM), key_pem)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        # A negative number of days makes an expired certificate, for tests.
        .not_valid_before(min(now, now + datetime.timedelta(days=days)) - _BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_identifier(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        public_key = authority.public_key()
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(public_key)  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _issuer_key(key_pem: bytes) -> CertificateIssuerPrivateKeyTypes:
    try:
        key = serialization.load_pem_private_key(key_pem, None)
    except TypeError as error:
        raise ValueError("The key of the authority is encrypted; decrypt it first") from error
    except ValueError as error:
        raise ValueError("The key of the authority cannot be read as PEM") from error
    return key  # type: ignore[return-value]


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
