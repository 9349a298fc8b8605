import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.properties import parse_properties, to_librdkafka
from ottla.security.certificates import make_authority


def test_the_syntax_of_properties_files():
    text = (
        "# comment\n! comment\n a = b \nc:d\ne f\nlong = one,\\\n    two\nslash=\\\\\nempty=\nuni=\\u00e9\n"
    )
    assert parse_properties(text) == {
        "a": "b",
        "c": "d",
        "e": "f",
        "long": "one,two",
        "slash": "\\",
        "empty": "",
        "uni": "é",
    }


def test_java_settings_become_librdkafka_settings():
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config = to_librdkafka(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{module} required username="ann" password="se\\"cret";',
            "ssl.truststore.location": "ca.pem",
            "ssl.truststore.type": "PEM",
            "ssl.endpoint.identification.algorithm": "",
            "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        }
    )
    assert config == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": 'se"cret',
        "ssl.ca.location": "ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_stores_of_java_become_pem_in_memory(tmp_path):
    authority = make_authority("CA")
    issued = authority.issue("ann", client=True)
    leaf, *others = x509.load_pem_x509_certificates(issued.certificate_pem)
    key = serialization.load_pem_private_key(issued.key_pem, None)
    secret = serialization.BestAvailableEncryption(b"secret")
    store = pkcs12.serialize_key_and_certificates(b"ann", key, leaf, others, secret)
    (tmp_path / "key.jks").write_bytes(store)  # keytool writes PKCS12 under any name
    trusted = pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(others[0], b"ca")], secret)
    (tmp_path / "trust.p12").write_bytes(trusted)
    config = to_librdkafka(
        {
            "security.protocol": "SSL",
            "ssl.keystore.location": str(tmp_path / "key.jks"),
            "ssl.keystore.password": "secret",
            "ssl.key.password": "secret",
            "ssl.truststore.location": str(tmp_path / "trust.p12"),
            "ssl.truststore.password": "secret",
            "ssl.truststore.type": "PKCS12",
        }
    )
    assert config.pop("ssl.ca.pem").encode() == authority.certificate_pem
    assert config.pop("ssl.certificate.pem").encode() == issued.certificate_pem
    assert config.pop("ssl.key.pem").encode() == issued.key_pem
    assert config == {"security.protocol": "SSL"}


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_store_that_cannot_be_read_is_one_sentence(tmp_path, store):
    file = tmp_path / "store.jks"
    for content, reason in ((None, "No such file"), (b"nonsense", "neither PEM nor PKCS12 nor JKS")):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(JobError, match=reason) as failed:
            to_librdkafka({"security.protocol": "SSL", f"ssl.{store}.location": str(file)})
        assert f"ssl.{store}.location" in failed.value.message


@pytest.mark.parametrize(
    ("given", "servers"),
    [
        ("localhost", "localhost:9092"),
        ("a:1, b:2;c", "a:1,b:2,c:9092"),
        ("[::1]:9092", "[::1]:9092"),
        ("[::1]", "[::1]:9092"),
    ],
)
def test_lists_of_servers(given, servers):
    assert Client(given).bootstrap_servers == servers
