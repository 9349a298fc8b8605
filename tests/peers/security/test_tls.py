"""Promise: Kafka's own clients and kcat connect over TLS with their usual stores, under Kafka's principal names."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from bench.peers.apache_kafka import TOPICS, Unavailable, java, kafka_jars, run_tool
from ottla.jvm.java import NoJava, java_home
from ottla.security.tls.distinguished_name import distinguished_name
from tests.broker.tls.tls_broker import TlsBroker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

PASSWORD = "store-secret"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    """A broker that uses Java key stores itself."""
    directory = tmp_path_factory.mktemp("tls")
    made = TlsBroker(directory)
    for kind in ("JKS", "PKCS12"):
        import_stores(made, directory, kind)
    made.broker._config |= {
        "ssl.keystore.location": str(directory / "keys-JKS"),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(directory / "trust-PKCS12"),
        "ssl.truststore.password": PASSWORD,
    }
    with made.broker:
        made.broker.create_topic("secret-plans")
        yield made


def import_stores(made: TlsBroker, directory: Path, kind: str) -> None:
    """Import the broker's key, which also serves as a client key, and the CA with the JDK's keytool."""
    pem, p12 = directory / "broker.pem", directory / "broker.p12"
    if not p12.exists():
        export = ["openssl", "pkcs12", "-export", "-in", str(pem), "-out", str(p12), "-name", "broker"]
        subprocess.run([*export, "-passout", f"pass:{PASSWORD}"], check=True, capture_output=True)
    keytool(
        "-importkeystore", "-srckeystore", str(p12), "-srcstorepass", PASSWORD, "-destkeystore",
        str(directory / f"keys-{kind}"), "-deststoretype", kind, "-deststorepass", PASSWORD,
    )  # fmt: skip
    keytool(
        "-importcert", "-alias", "ca", "-file", made.ca_file, "-keystore", str(directory / f"trust-{kind}"),
        "-storetype", kind, "-storepass", PASSWORD,
    )  # fmt: skip


def keytool(*arguments: str) -> None:
    try:
        program = java_home() / "bin" / "keytool"
    except NoJava as reason:
        pytest.skip(str(reason))
    subprocess.run([program, "-noprompt", *arguments], check=True, capture_output=True, timeout=60)


def listed(tls: TlsBroker, listener: str, settings: dict[str, str]) -> tuple[int, str]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    file = tls.directory / "client.properties"
    timeouts = {"default.api.timeout.ms": "20000", "request.timeout.ms": "10000"}
    file.write_text("".join(f"{name}={value}\n" for name, value in {**settings, **timeouts}.items()))
    done = run_tool(
        TOPICS, ["--bootstrap-server", tls.at[listener], "--command-config", str(file), "--list"], check=False
    )
    return done.returncode, done.stdout + done.stderr


def stores(tls: TlsBroker, kind: str, *, keys: bool = False) -> dict[str, str]:
    found = {
        "ssl.truststore.location": str(tls.directory / f"trust-{kind}"),
        "ssl.truststore.type": kind,
        "ssl.truststore.password": PASSWORD,
    }
    if keys:
        found |= {
            "ssl.keystore.location": str(tls.directory / f"keys-{kind}"),
            "ssl.keystore.type": kind,
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
        }
    return found


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_java_connects_with_its_own_stores(tls: TlsBroker, kind: str) -> None:
    code, said = listed(tls, "MUTUAL", {"security.protocol": "SSL", **stores(tls, kind, keys=True)})
    assert (code, "secret-plans" in said) == (0, True), said


def test_java_logs_in_over_tls(tls: TlsBroker) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="ann" password="pencil";',
        **stores(tls, "PKCS12"),
    }
    code, said = listed(tls, "SASL_SSL", login)
    assert (code, "secret-plans" in said) == (0, True), said


def test_java_is_refused_without_a_certificate_and_refuses_another_authority(tls: TlsBroker) -> None:
    code, said = listed(tls, "MUTUAL", {"security.protocol": "SSL", **stores(tls, "JKS")})
    assert code != 0
    assert "SslAuthenticationException" in said, said
    stranger = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": tls.strangers_ca_file,
    }
    code, said = listed(tls, "SSL", stranger)
    assert code != 0
    assert "SslAuthenticationException" in said, said


def test_kcat(tls: TlsBroker) -> None:
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        pytest.skip("kcat is not installed")
    settings = {
        "security.protocol": "ssl",
        "ssl.ca.location": tls.ca_file,
        "ssl.certificate.location": tls.ann,
        "ssl.key.location": tls.ann,
    }
    common = [program, "-q", "-b", tls.at["MUTUAL"], "-t", "secret-plans"]
    for name, value in settings.items():
        common += ["-X", f"{name}={value}"]
    subprocess.run([*common, "-P"], input=b"over tls\n", check=True, timeout=60)
    read = subprocess.run(
        [*common, "-C", "-e", "-o", "beginning"], check=True, timeout=60, capture_output=True
    )
    assert b"over tls" in read.stdout


def test_names_are_written_as_java_writes_them() -> None:
    """Random names with all kinds of attributes and characters."""
    chance = random.Random(5)
    kinds = [
        NameOID.COMMON_NAME, NameOID.COUNTRY_NAME, NameOID.LOCALITY_NAME, NameOID.STATE_OR_PROVINCE_NAME,
        NameOID.STREET_ADDRESS, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.USER_ID,
        NameOID.DOMAIN_COMPONENT, NameOID.EMAIL_ADDRESS, NameOID.SERIAL_NUMBER, NameOID.TITLE, NameOID.SURNAME,
    ]  # fmt: skip
    characters = 'abz09 ,=+<>#;"\\/.-_@\u00fc\u6f22'

    def attribute() -> x509.NameAttribute:
        kind = chance.choice(kinds)
        if kind is NameOID.COUNTRY_NAME:
            return x509.NameAttribute(kind, chance.choice(["AT", "CH"]))
        text = "".join(chance.choice(characters) for _ in range(chance.randrange(1, 12)))
        if kind in (NameOID.EMAIL_ADDRESS, NameOID.DOMAIN_COMPONENT, NameOID.SERIAL_NUMBER):
            text = "".join(each for each in text if each.isascii()) or "x"
        return x509.NameAttribute(kind, text)

    names = []
    for _ in range(500):
        parts = [attribute() for _ in range(chance.randrange(1, 5))]
        groups = [x509.RelativeDistinguishedName([part]) for part in parts]
        names.append(x509.Name(groups).public_bytes())
    source = Path(__file__).parent / "java" / "Names.java"
    try:
        program = java()
    except Unavailable as reason:
        pytest.skip(str(reason))
    lines = "".join(f"{name.hex()}\n" for name in names)
    done = subprocess.run([program, str(source)], input=lines, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    written = [bytes.fromhex(line).decode() for line in done.stdout.split()]
    assert [distinguished_name(name) for name in names] == written
