from __future__ import annotations

import pytest

from ottla.client.errors import ClientError
from ottla.client.settings import Sasl, Settings, Tls, parse_servers


def test_servers_may_leave_out_their_port() -> None:
    assert parse_servers("a:1234, b;c") == (("a", 1234), ("b", 9092), ("c", 9092))
    assert parse_servers("[::1]:19092") == (("::1", 19092),)


def test_times_are_in_milliseconds() -> None:
    settings = Settings.from_properties({"bootstrap.servers": "a", "request.timeout.ms": "1500"})
    assert settings.request_timeout == 1.5
    with pytest.raises(
        ClientError, match=r"^request.timeout.ms must be a number of milliseconds, not 'soon'\.$"
    ):
        Settings.from_properties({"request.timeout.ms": "soon"})


def test_pem_files_are_taken_by_the_names_of_either_client() -> None:
    java = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert Settings.from_properties(java).tls == Tls(ca_file="/ca.pem", check_host=False)
    librdkafka = {"security.protocol": "ssl", "ssl.ca.location": "/ca.pem"}
    assert Settings.from_properties(librdkafka).tls == Tls(ca_file="/ca.pem")


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"security.protocol": "TLS"}, "there is no security.protocol TLS"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/store.jks"}, "must be a PEM file"),
    ],
)
def test_what_cannot_be_done_is_refused(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(ClientError, match=sentence):
        Settings.from_properties(properties)


def test_sasl_takes_its_names_from_librdkafka() -> None:
    properties = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": "secret",
    }
    settings = Settings.from_properties(properties)
    assert settings.sasl == Sasl("SCRAM-SHA-256", "ann", "secret")
    assert settings.tls == Tls()
    assert "secret" not in repr(settings)


def test_sasl_takes_what_java_takes() -> None:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required\n"
        """ username='ann'  password="a \\"b\\"; c" ;""",
    }
    assert Settings.from_properties(properties).sasl == Sasl("PLAIN", "ann", 'a "b"; c')
