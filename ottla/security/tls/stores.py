"""Key stores and trust stores in PEM, PKCS12 or JKS format.

The content of a file determines its format. `ssl.keystore.type` is ignored: keytool writes PKCS12 under any name, and
most files called `.jks` are not JKS.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from ottla.security.tls import jks, pem
from ottla.security.tls.distinguished_name import distinguished_name
from ottla.security.tls.settings import Given, StoreSettings, TlsError

_DER_SEQUENCE = 0x30


@dataclass(frozen=True)
class KeyStore:
    """A private key and its certificates, the key's own first."""

    key: PrivateKeyTypes
    chain: tuple[x509.Certificate, ...]

    def __repr__(self) -> str:
        return f"KeyStore({self.name!r})"

    @property
    def name(self) -> str:
        return subject_name(self.chain[0])

    @property
    def alternative_names(self) -> frozenset[str]:
        try:
            found = self.chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (x509.ExtensionNotFound, ValueError):
            return frozenset()
        return frozenset(f"{type(each).__name__} {each.value}" for each in found)

    @property
    def chain_pem(self) -> bytes:
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in self.chain)

    def key_pem(self, password: bytes | None = None) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption(),
        )

    def not_valid_now(self) -> str | None:
        """Return why clients will refuse the certificate today, or None."""
        now = datetime.datetime.now(datetime.UTC)
        leaf = self.chain[0]
        if leaf.not_valid_after_utc < now:
            return f"expired on {leaf.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        if leaf.not_valid_before_utc > now:
            return f"is not valid before {leaf.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        return None


def subject_name(certificate: x509.Certificate) -> str:
    """Return the distinguished name in Java's format."""
    return distinguished_name(certificate.subject.public_bytes())


@lru_cache(maxsize=1000)  # a client presents the same certificate on every connection
def subject_name_of(encoded: bytes) -> str:
    """Return the subject of a certificate in DER. Raises ValueError."""
    try:
        return subject_name(x509.load_der_x509_certificate(encoded))
    except x509.InvalidVersion as error:
        raise ValueError(f"the certificate cannot be read: {error}") from None


# -- key stores ---------------------------------------------------------------------------------------------


def read_key_store(settings: StoreSettings) -> KeyStore | None:
    """Return None without a key store. Raises TlsError."""
    location, chain = settings.keystore_location, settings.keystore_certificate_chain
    if location is not None and chain is not None:
        raise TlsError(f"Both {location.name} and {chain.name} are set: remove one of them.")
    if chain is not None:
        key = settings.keystore_key
        if key is None and settings.key_location is None:
            raise TlsError(f"{chain.name} is set, but no setting has the key of that certificate.")
        key_text = key.value if key is not None else _text(*_read(settings.key_location))
        return _from_pem(chain, chain.value, key or settings.key_location, key_text, settings.key_password)
    if location is None:
        if (key := settings.keystore_key or settings.key_location) is not None:
            raise TlsError(f"{key.name} is set, but no setting has the certificate of that key.")
        return None
    given, data = _read(location)
    match _format(given, data):
        case "JKS":
            return _from_jks(given, data, settings)
        case "PKCS12":
            return _from_pkcs12(given, data, settings.keystore_password or settings.key_password)
        case _:
            text = _text(given, data)
            key_given, key_text = given, text
            if settings.key_location is not None:
                key_given = settings.key_location
                key_text = _text(*_read(key_given))
            return _from_pem(
                given, text, key_given, key_text, settings.key_password or settings.keystore_password
            )


def _from_pem(
    chain: Given, chain_text: str, key: Given | None, key_text: str, password: Given | None
) -> KeyStore:
    assert key is not None
    certificates = _certificates(chain, chain_text)
    keys = [block for block in _blocks(key, key_text) if block.is_key]
    if not keys:
        raise TlsError(f"{_what(key)} has no private key in it.")
    loaded = _load_key(
        key,
        password,
        lambda word: serialization.load_pem_private_key(keys[0].text.encode(), word),
    )
    return _belonging(chain, loaded, certificates)


def _load_key(
    key: Given, password: Given | None, load: Callable[[bytes | None], PrivateKeyTypes]
) -> PrivateKeyTypes:
    word = None if password is None or not password.value else password.value.encode()
    try:
        return load(word)
    except TypeError:  # raised for a missing and for a superfluous password
        if word is None:
            raise TlsError(f"The private key of {_what(key)} is encrypted: set ssl.key.password.") from None
    except ValueError as error:
        if word is not None:
            assert password is not None
            raise TlsError(f"{password.name} does not open the private key of {_what(key)}.") from None
        raise TlsError(f"The private key of {_what(key)} cannot be read.") from error
    try:
        return load(None)
    except (TypeError, ValueError) as error:
        raise TlsError(f"The private key of {_what(key)} cannot be read.") from error


def _from_jks(given: Given, data: bytes, settings: StoreSettings) -> KeyStore:
    password = settings.keystore_password
    if password is None:
        raise TlsError(f"{_what(given)} is a JKS store and needs a password: set ssl.keystore.password.")
    store = _open_jks(given, data, password)
    if not store.keys:
        raise TlsError(f"{_what(given)} has no private key in it.")
    entry = store.keys[0]
    key_password = settings.key_password or password
    try:
        key = serialization.load_der_private_key(jks.recover_key(entry, key_password.value), None)
    except jks.WrongPassword:
        raise TlsError(f"{key_password.name} does not open the private key of {_what(given)}.") from None
    except ValueError as error:
        raise TlsError(f"The private key of {_what(given)} cannot be read.") from error
    return _belonging(given, key, _from_der(given, entry.chain))


def _from_pkcs12(given: Given, data: bytes, password: Given | None) -> KeyStore:
    store = _open_pkcs12(given, data, password, "ssl.keystore.password")
    if store.key is None:
        raise TlsError(f"{_what(given)} has no private key in it.")
    leaf = [] if store.cert is None else [store.cert.certificate]
    chain = _chain(leaf, [each.certificate for each in store.additional_certs])
    return _belonging(given, store.key, chain)


def _chain(leaf: list[x509.Certificate], others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Order certificates so that each is followed by its issuer, then append the rest."""
    chain = list(leaf)
    while chain:
        last = chain[-1]
        signer = next((each for each in others if each.subject == last.issuer and each not in chain), None)
        if signer is None:
            break
        chain.append(signer)
    return chain or others


def _belonging(given: Given, key: PrivateKeyTypes, certificates: list[x509.Certificate]) -> KeyStore:
    public = key.public_key()
    own = next((each for each in certificates if each.public_key() == public), None)
    if own is None:
        raise TlsError(f"The private key and the certificate of {_what(given)} do not belong together.")
    return KeyStore(key, (own, *(each for each in certificates if each is not own)))


# -- trust stores -------------------------------------------------------------------------------------------


def read_trust_store(settings: StoreSettings) -> list[x509.Certificate] | None:
    """Return the trusted certificates, or None without a store. Raises TlsError."""
    location, text = settings.truststore_location, settings.truststore_certificates
    if location is not None and text is not None:
        raise TlsError(f"Both {location.name} and {text.name} are set: remove one of them.")
    if text is not None:
        return _certificates(text, text.value)
    if (
        location is None or location.value == "probe"
    ):  # librdkafka's word for the system's trusted authorities
        return None
    if Path(location.value).is_dir():
        return _certificates(location, _all_texts(location))
    given, data = _read(location)
    password = settings.truststore_password
    match _format(given, data):
        case "JKS":
            store = _open_jks(given, data, password)
            trusted = [*store.certificates, *(entry.chain[0] for entry in store.keys if entry.chain)]
            found = _from_der(given, trusted)
        case "PKCS12":
            found = _trusted_of_pkcs12(_open_pkcs12(given, data, password, "ssl.truststore.password"))
        case _:
            found = _certificates(given, _text(given, data))
    if not found:
        raise TlsError(f"{_what(given)} contains no certificate, so no peer would be trusted.")
    return found


def _trusted_of_pkcs12(store: pkcs12.PKCS12KeyAndCertificates) -> list[x509.Certificate]:
    """Return the trusted certificates like Java: explicitly trusted ones and the key's own, without the rest of its
    chain.
    """
    others = [each.certificate for each in store.additional_certs]
    if store.key is None or store.cert is None:
        return ([] if store.cert is None else [store.cert.certificate]) + others
    leaf = store.cert.certificate
    for signer in _chain([leaf], others)[1:]:
        others.remove(signer)
    return [leaf, *others]


# -- formats ------------------------------------------------------------------------------------------------


def _read(given: Given | None) -> tuple[Given, bytes]:
    assert given is not None
    try:
        return given, Path(given.value).read_bytes()
    except OSError as error:
        raise TlsError(f"{given.name}: cannot read {given.value}: {error.strerror}.") from None
    except ValueError:  # contains NUL
        raise TlsError(f"{given.name} is not the name of a file.") from None


def _format(given: Given, data: bytes) -> str:
    if data.startswith(jks.MAGIC):
        return "JKS"
    if data.startswith(jks.JCEKS_MAGIC):
        raise TlsError(
            f"{_what(given)} is a JCEKS store, which cannot be read here: convert it with "
            "keytool -importkeystore -deststoretype PKCS12."
        )
    if data[:1] == bytes([_DER_SEQUENCE]):
        return "PKCS12"
    if b"-----BEGIN " in data:
        return "PEM"
    raise TlsError(f"{_what(given)} is neither PEM nor PKCS12 nor JKS.")


def _open_jks(given: Given, data: bytes, password: Given | None) -> jks.JksStore:
    try:
        return jks.read_jks(data, None if password is None else password.value)
    except jks.WrongPassword:
        assert password is not None
        raise TlsError(
            f"{password.name} does not open {_what(given)}, or the file has been damaged."
        ) from None
    except jks.BadStore:
        raise TlsError(f"{_what(given)} is damaged.") from None


def _open_pkcs12(
    given: Given, data: bytes, password: Given | None, missing: str
) -> pkcs12.PKCS12KeyAndCertificates:
    word = None if password is None else password.value.encode()
    try:
        return pkcs12.load_pkcs12(data, word)
    except ValueError as error:
        if password is None:
            raise TlsError(f"{_what(given)} cannot be opened without a password: set {missing}.") from None
        if "password" in str(error).lower():
            raise TlsError(f"{password.name} does not open {_what(given)}.") from None
        raise TlsError(f"{_what(given)} cannot be read as PKCS12: {_sentence(error)}.") from None


def _text(given: Given, data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _all_texts(given: Given) -> str:
    try:
        found = [file.read_bytes() for file in sorted(Path(given.value).iterdir()) if file.is_file()]
    except OSError as error:
        raise TlsError(f"{given.name}: cannot read {given.value}: {error.strerror}.") from None
    return "\n".join(_text(given, data) for data in found)


def _blocks(given: Given, text: str) -> list[pem.Block]:
    try:
        return pem.blocks(text)
    except pem.BadPem as error:
        raise TlsError(f"{_what(given)} cannot be read: {error}.") from None


def _certificates(given: Given, text: str) -> list[x509.Certificate]:
    found = [block for block in _blocks(given, text) if block.is_certificate]
    if not found:
        raise TlsError(f"{_what(given)} has no certificate in it.")
    try:
        return [x509.load_pem_x509_certificate(each.text.encode()) for each in found]
    except ValueError as error:
        raise TlsError(f"A certificate in {_what(given)} cannot be read: {_sentence(error)}.") from None


def _from_der(given: Given, found: list[bytes]) -> list[x509.Certificate]:
    try:
        return [x509.load_der_x509_certificate(each) for each in found]
    except ValueError as error:
        raise TlsError(f"A certificate in {_what(given)} cannot be read: {_sentence(error)}.") from None


def _what(given: Given) -> str:
    """Name a file by its setting and path, and text by its setting alone."""
    inline = (
        "-----BEGIN" in given.value or "\n" in given.value or given.name.endswith((".key", ".chain", ".pem"))
    )
    if inline or given.name.endswith("certificates"):
        return given.name
    return f"{given.name} ({given.value})"


def _sentence(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
