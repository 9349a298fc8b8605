"""Key stores and trust stores from keytool, OpenSSL and text editors, and the errors for invalid ones."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate

from ottla.jvm.java import NoJava, java_home
from ottla.security.certificates import Authority, Issued, make_authority
from ottla.security.tls.contexts import client_context, server_context
from ottla.security.tls.settings import Given, StoreSettings, TlsError, Versions
from ottla.security.tls.stores import read_key_store, read_trust_store

PASSWORD = "store-secret"
KEY_PASSWORD = "key-secret"


@dataclass(frozen=True)
class Made:
    directory: Path
    authority: Authority
    issued: Issued

    def write(self, name: str, data: bytes) -> str:
        path = self.directory / name
        path.write_bytes(data)
        return str(path)

    @property
    def pkcs12(self) -> bytes:
        key = serialization.load_pem_private_key(self.issued.key_pem, None)
        leaf = load_pem_x509_certificate(self.issued.certificate_pem)
        authority = load_pem_x509_certificate(self.authority.certificate_pem)
        encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
        return pkcs12.serialize_key_and_certificates(b"broker", key, leaf, [authority], encryption)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    authority = make_authority()
    return Made(tmp_path_factory.mktemp("stores"), authority, authority.issue("broker", ["localhost"]))


def keytool(*arguments: str) -> None:
    try:
        program = java_home() / "bin" / "keytool"
    except NoJava as reason:
        pytest.skip(str(reason))
    subprocess.run([program, "-noprompt", *arguments], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def from_keytool(made: Made) -> dict[str, str]:
    """The same key and CA in stores written by the JDK, by name."""
    source = made.write("source.p12", made.pkcs12)
    authority = made.write("ca.pem", made.authority.certificate_pem)
    stores = {}
    for kind in ("JKS", "PKCS12"):
        # The suffix is deliberately meaningless.
        key_store = stores[f"{kind} keys"] = str(made.directory / f"keys-{kind}.store")
        trust_store = stores[f"{kind} trust"] = str(made.directory / f"trust-{kind}.store")
        imported = [
            "-importkeystore",
            "-srckeystore",
            source,
            "-srcstoretype",
            "PKCS12",
            "-srcstorepass",
            PASSWORD,
        ]
        password = KEY_PASSWORD if kind == "JKS" else PASSWORD
        keytool(
            *imported, "-destkeystore", key_store, "-deststoretype", kind, "-deststorepass", PASSWORD,
            "-srcalias", "broker", "-destkeypass", password,
        )  # fmt: skip
        keytool(
            "-importcert", "-alias", "ca", "-file", authority, "-keystore", trust_store, "-storetype", kind,
            "-storepass", PASSWORD,
        )  # fmt: skip
    return stores


def given(name: str, value: str) -> Given:
    return Given(f"ssl.{name}", value)


def handshake(keys: StoreSettings, trust: StoreSettings, host: str = "localhost") -> None:
    """Check that both stores work in a handshake."""
    key_store = read_key_store(keys)
    assert key_store is not None
    server = server_context(key_store, None, "none", Versions())
    client = client_context(None, read_trust_store(trust), Versions())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass


def pem_settings(made: Made) -> tuple[StoreSettings, StoreSettings]:
    both = made.write("broker.pem", made.issued.certificate_pem + made.issued.key_pem)
    authority = made.write("ca.pem", made.authority.certificate_pem)
    return (
        StoreSettings(keystore_location=given("keystore.location", both)),
        StoreSettings(truststore_location=given("truststore.location", authority)),
    )


def test_pem_files(made: Made) -> None:
    handshake(*pem_settings(made))


def test_pem_as_text_with_and_without_line_breaks(made: Made) -> None:
    for change in (str, lambda text: text.replace("\n", " "), lambda text: text.replace("\n", "")):
        keys = StoreSettings(
            keystore_certificate_chain=given(
                "keystore.certificate.chain", change(made.issued.certificate_pem.decode())
            ),
            keystore_key=given("keystore.key", change(made.issued.key_pem.decode())),
        )
        text = change(made.authority.certificate_pem.decode())
        handshake(keys, StoreSettings(truststore_certificates=given("truststore.certificates", text)))


def test_the_order_in_a_pem_file_does_not_matter(made: Made) -> None:
    leaf, _, authority = made.issued.certificate_pem.decode().rpartition("-----BEGIN")
    turned = f"-----BEGIN{authority}\n{leaf}".encode()
    path = made.write("turned.pem", made.issued.key_pem + turned)
    _, trust = pem_settings(made)
    handshake(StoreSettings(keystore_location=given("keystore.location", path)), trust)


def test_a_pkcs12_file(made: Made) -> None:
    _, trust = pem_settings(made)
    keys = StoreSettings(
        keystore_location=given("keystore.location", made.write("broker.jks", made.pkcs12)),
        keystore_password=given("keystore.password", PASSWORD),
    )
    handshake(keys, trust)


def test_what_keytool_writes(made: Made, from_keytool: dict[str, str]) -> None:
    for kind in ("JKS", "PKCS12"):
        keys = StoreSettings(
            keystore_location=given("keystore.location", from_keytool[f"{kind} keys"]),
            keystore_password=given("keystore.password", PASSWORD),
            key_password=given("key.password", KEY_PASSWORD) if kind == "JKS" else None,
        )
        trust = StoreSettings(
            truststore_location=given("truststore.location", from_keytool[f"{kind} trust"]),
            truststore_password=given("truststore.password", PASSWORD),
        )
        handshake(keys, trust)
        key_store = read_key_store(keys)
        assert key_store is not None
        assert [len(key_store.chain), key_store.name] == [2, "CN=broker"]
    without_password = StoreSettings(
        truststore_location=given("truststore.location", from_keytool["JKS trust"])
    )
    assert len(read_trust_store(without_password) or []) == 1, (
        "JKS can be read without checking it, as in Java"
    )


def test_what_keytool_writes_does_not_open_with_another_password(from_keytool: dict[str, str]) -> None:
    for kind in ("JKS", "PKCS12"):
        keys = StoreSettings(
            keystore_location=given("keystore.location", from_keytool[f"{kind} keys"]),
            keystore_password=given("keystore.password", "wrong-secret"),
        )
        refused(
            lambda keys=keys: read_key_store(keys),
            "ssl.keystore.password does not open ssl.keystore.location",
        )
        trust = StoreSettings(
            truststore_location=given("truststore.location", from_keytool[f"{kind} trust"]),
            truststore_password=given("truststore.password", "wrong-secret"),
        )
        refused(
            lambda trust=trust: read_trust_store(trust),
            "ssl.truststore.password does not open ssl.truststore.location",
        )
    keys = StoreSettings(
        keystore_location=given("keystore.location", from_keytool["JKS keys"]),
        keystore_password=given("keystore.password", PASSWORD),
    )
    refused(lambda: read_key_store(keys), "ssl.keystore.password does not open the private key")
    keys = replace(keys, keystore_password=None)
    refused(lambda: read_key_store(keys), "needs a password: set ssl.keystore.password")


def test_a_damaged_jks_file_is_refused_wherever_it_is_damaged(
    made: Made, from_keytool: dict[str, str]
) -> None:
    data = Path(from_keytool["JKS trust"]).read_bytes()
    for end in range(4, len(data), 37):
        path = made.write("cut.jks", data[:end])
        for password in (given("truststore.password", PASSWORD), None):
            settings = StoreSettings(
                truststore_location=given("truststore.location", path), truststore_password=password
            )
            with pytest.raises(TlsError):
                read_trust_store(settings)


def refused(attempt: Callable[[], object], sentence: str) -> None:
    with pytest.raises(TlsError) as error:
        attempt()
    said = str(error.value)
    assert sentence in said
    assert said.endswith(".")
    assert "secret" not in said


def test_what_cannot_be_used_is_refused_in_one_sentence_that_names_the_setting(made: Made) -> None:
    def keys(data: bytes, **more: Given) -> StoreSettings:
        return StoreSettings(keystore_location=given("keystore.location", made.write("store", data)), **more)

    def trust(data: bytes) -> StoreSettings:
        return StoreSettings(truststore_location=given("truststore.location", made.write("store", data)))

    issued, other = made.issued, made.authority.issue("other")
    missing = StoreSettings(keystore_location=given("keystore.location", "/nowhere/store"))
    refused(
        lambda: read_key_store(missing), "ssl.keystore.location: cannot read /nowhere/store: No such file"
    )
    refused(lambda: read_key_store(keys(b"nonsense")), "is neither PEM nor PKCS12 nor JKS")
    refused(lambda: read_key_store(keys(b"\xce\xce\xce\xce")), "is a JCEKS store")
    refused(lambda: read_key_store(keys(b"")), "is neither PEM nor PKCS12 nor JKS")
    refused(lambda: read_key_store(keys(issued.certificate_pem)), "has no private key in it")
    refused(lambda: read_key_store(keys(issued.key_pem)), "has no certificate in it")
    refused(
        lambda: read_key_store(keys(issued.certificate_pem + other.key_pem)),
        "do not belong together",
    )
    broken = issued.certificate_pem[:60] + b"!" + issued.certificate_pem[61:]
    refused(lambda: read_key_store(keys(broken + issued.key_pem)), "is not base64")
    refused(lambda: read_key_store(keys(made.pkcs12)), "set ssl.keystore.password")
    wrong = given("keystore.password", "wrong-secret")
    refused(
        lambda: read_key_store(keys(made.pkcs12, keystore_password=wrong)),
        "ssl.keystore.password does not open ssl.keystore.location",
    )
    refused(lambda: read_trust_store(trust(issued.key_pem)), "has no certificate in it")
    refused(lambda: read_trust_store(trust(b"0\x03\x02\x01\x03")), "set ssl.truststore.password")
    both = replace(
        keys(issued.certificate_pem), keystore_certificate_chain=given("keystore.certificate.chain", "x")
    )
    refused(
        lambda: read_key_store(both), "Both ssl.keystore.location and ssl.keystore.certificate.chain are set"
    )


def test_a_key_with_a_password_of_its_own(made: Made) -> None:
    key = serialization.load_pem_private_key(made.issued.key_pem, None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
    )
    settings = StoreSettings(
        keystore_location=given(
            "keystore.location", made.write("locked.pem", made.issued.certificate_pem + encrypted)
        )
    )
    refused(lambda: read_key_store(settings), "is encrypted: set ssl.key.password")
    wrong = replace(settings, key_password=given("key.password", "wrong-secret"))
    refused(lambda: read_key_store(wrong), "ssl.key.password does not open the private key")
    _, trust = pem_settings(made)
    handshake(replace(settings, key_password=given("key.password", KEY_PASSWORD)), trust)
    keys, _ = pem_settings(made)
    handshake(replace(keys, key_password=given("key.password", "not needed")), trust)


def test_a_certificate_that_is_not_valid_today_is_noticed(made: Made) -> None:
    expired = made.authority.issue("old", days=-1)
    path = made.write("old.pem", expired.certificate_pem + expired.key_pem)
    key_store = read_key_store(StoreSettings(keystore_location=given("keystore.location", path)))
    assert key_store is not None
    assert "expired on" in (key_store.not_valid_now() or "")
    keys, _ = pem_settings(made)
    fresh = read_key_store(keys)
    assert fresh is not None
    assert fresh.not_valid_now() is None


def test_neither_keys_nor_passwords_are_shown(made: Made) -> None:
    keys, _ = pem_settings(made)
    settings = replace(keys, keystore_password=given("keystore.password", PASSWORD))
    assert PASSWORD not in repr(settings)
    assert "PRIVATE" not in repr(read_key_store(settings))


@pytest.mark.parametrize(
    ("protocols", "ciphers", "sentence"),
    [
        (("TLSv1.4",), (), "ssl.enabled.protocols names TLSv1.4"),
        ((), ("TLS_FISH",), "ssl.cipher.suites names TLS_FISH"),
        (("TLSv1.3",), ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",), "no cipher suite for the versions"),
    ],
)
def test_versions_and_ciphers_that_there_are_not(
    made: Made, protocols: tuple[str, ...], ciphers: tuple[str, ...], sentence: str
) -> None:
    refused(lambda: client_context(None, None, Versions(protocols, ciphers)), sentence)


def test_ciphers_decide_about_versions_as_in_java() -> None:
    older = client_context(None, None, Versions((), ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)))
    assert older.maximum_version is ssl.TLSVersion.TLSv1_2
    newer = client_context(None, None, Versions((), ("TLS_AES_256_GCM_SHA384",)))
    assert newer.minimum_version is ssl.TLSVersion.TLSv1_3
    only = client_context(None, None, Versions(("TLSv1.2",), ()))
    assert (only.minimum_version, only.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
