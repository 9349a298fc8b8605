import pytest

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.properties import parse_properties, to_librdkafka


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


def test_java_keystores_are_refused_with_a_way_out():
    with pytest.raises(JobError, match=r"export its certificates as PEM"):
        to_librdkafka({"ssl.truststore.location": "trust.jks"})


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
