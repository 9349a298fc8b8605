from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.errors import ClientError
from ottla.client.settings import Sasl, Settings, Tls, parse_servers
from ottla.protocol.errors import ErrorCode
from ottla.security.tls.settings import Given, StoreSettings

# Self-signed, for these tests only.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBgTCCASegAwIBAgIUc9I81COLeLocmXQp4G8dKTPewFgwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKb3R0bGEtdGVzdDAgFw0yNjExMTYwMzU5MjdaGA8yMTI2MTAy
MzAzNTkyN1owFTETMBEGA1UEAwwKb3R0bGEtdGVzdDBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABORdWWTCP8XIKCT5jorxAFikhWmik0LvyaFvcF1WcS1AVDPX2Vxa
efWetfdJ1yID3+V2oTdFkoHnuIfYwiU+xSGjUzBRMB0GA1UdDgQWBBSJ+gHZ/8I3
82V5KYphZ9FjuzphPDAfBgNVHSMEGDAWgBSJ+gHZ/8I382V5KYphZ9FjuzphPDAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQCM5KjaVVkd2sLiDFC6
2zcQHsy/qNPdPggkTEm+3FumwQIgMryuWFmQSAET6bRagJ4fG5Hz4MpmxvQtSurF
W40ytwc=
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgd9KdafkxuYX8nZi5
BhSp74Q568zLeemD7tmkBO1OZ4WhRANCAATkXVlkwj/FyCgk+Y6K8QBYpIVpopNC
78mhb3BdVnEtQFQz19lcWnn1nrX3SdciA9/ldqE3RZKB57iH2MIlPsUh
-----END PRIVATE KEY-----
"""


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


def test_stores_are_taken_by_the_names_of_either_client() -> None:
    java = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "",
    }
    found = Settings.from_properties(java).tls
    assert found is not None
    assert found == Tls(
        StoreSettings(truststore_location=Given("ssl.truststore.location", "/ca.pem")), check_host=False
    )
    librdkafka = {"security.protocol": "ssl", "ssl.ca.location": "/ca.pem"}
    found = Settings.from_properties(librdkafka).tls
    assert found == Tls(StoreSettings(truststore_location=Given("ssl.ca.location", "/ca.pem")))
    assert hash(found) is not None, "callers with the same settings share connections"


def test_a_store_that_cannot_be_read_is_named_by_its_setting(tmp_path: Path) -> None:
    for name, value in (
        ("ssl.ca.location", str(tmp_path / "nothing")),
        ("ssl.truststore.certificates", "nonsense"),
    ):
        tls = Settings.from_properties({"security.protocol": "SSL", name: value}).tls
        assert tls is not None
        with pytest.raises(ClientError, match=name) as refused:
            tls.context()
        assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("certificate_name", "key_name"),
    [("ssl.certificate.pem", "ssl.key.pem"), ("ssl.keystore.certificate.chain", "ssl.keystore.key")],
)
def test_a_certificate_may_be_given_as_text(certificate_name: str, key_name: str) -> None:
    properties = {"security.protocol": "SSL", certificate_name: CERTIFICATE, key_name: KEY}
    tls = Settings.from_properties(properties).tls
    assert tls is not None
    assert tls.context() is not None, "the key fits the certificate"
    assert "PRIVATE" not in repr(tls)
    without_key = Settings.from_properties({"security.protocol": "SSL", certificate_name: CERTIFICATE}).tls
    assert without_key is not None
    with pytest.raises(ClientError, match="no setting has the key"):
        without_key.context()


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"security.protocol": "TLS"}, "there is no security.protocol TLS"),
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


@pytest.mark.parametrize("reference", ["${file:/etc/passwd:root}", "${env:HOME}", "${directory:/etc:passwd}"])
def test_references_to_files_and_variables_are_not_followed(reference: str) -> None:
    """Settings may come from somebody who must not read this machine's files (CVE-2024-31141)."""
    settings = Settings.from_properties(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": reference,
            "config.providers": "file,env,directory",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        }
    )
    assert settings.sasl is not None
    assert settings.sasl.password == reference
