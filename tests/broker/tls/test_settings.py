"""Promise: a broker with unusable TLS settings refuses to start and names the setting in one sentence."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest

from ottla.broker.configuration import check_file
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from tests.broker.tls.tls_broker import TlsBroker


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ssl.keystore.location": "/nowhere"}, r"ssl\.keystore\.location: cannot read /nowhere"),
        ({"ssl.keystore.location": ""}, r"has no certificate: set ssl\.keystore\.location"),
        (
            {"listener.name.ssl.ssl.keystore.location": "/nowhere"},
            r"listener\.name\.ssl\.ssl\.keystore\.location",
        ),
        ({"ssl.truststore.location": ""}, r"set ssl\.truststore\.location"),
        ({"ssl.truststore.location": "/nowhere"}, r"ssl\.truststore\.location: cannot read /nowhere"),
        ({"ssl.enabled.protocols": "TLSv9"}, r"ssl\.enabled\.protocols names TLSv9"),
        ({"ssl.cipher.suites": "ROT13"}, r"ssl\.cipher\.suites names ROT13"),
        ({"ssl.protocol": "ROT13"}, r"ssl\.protocol cannot be ROT13"),
        ({"listener.name.mutual.ssl.principal.mapping.rules": "RULE:x"}, r"ssl\.principal\.mapping\.rules"),
    ],
)
def test_what_cannot_work_is_named(tmp_path: Path, settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(Exception, match=sentence) as refused, TlsBroker(tmp_path, **settings).broker:
        pass
    assert str(refused.value).count(". ") == 0, "one sentence"
    assert not (tmp_path / "data").exists(), "nothing was written"


def test_an_expired_certificate_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = TlsBroker(tmp_path)
    expired = made.authority.issue("broker", ["localhost"], days=-1)
    made.write("broker.pem", expired.certificate_pem + expired.key_pem)
    with caplog.at_level(logging.WARNING), made.broker:
        pass
    assert "The certificate of listener SSL (CN=broker) expired on" in caplog.text


def test_versions_and_ciphers_are_those_that_were_set(tmp_path: Path) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    made = TlsBroker(
        tmp_path, **{"listener.name.ssl.ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": suite}
    )
    with made.broker:
        connection = Cluster(Settings.from_properties(made.client("SSL"))).any_connection()
        assert isinstance(connection._socket, ssl.SSLSocket)
        assert connection._socket.version() == "TLSv1.2"
        assert connection._socket.cipher()[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"  # type: ignore[index]
        connection.close()


def test_a_file_is_checked_without_starting(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=SSL://:9093\nssl.keystore.location=/nowhere\n")
    checked = check_file(file)
    assert len(checked.errors) == 1
    assert "cannot read /nowhere" in checked.errors[0]


def test_where_clients_log_in_only_the_listener_s_own_setting_asks_for_certificates(tmp_path: Path) -> None:
    made = TlsBroker(tmp_path, **{"ssl.client.auth": "required"})
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "pencil"}
    with made.broker:
        settings = Settings.from_properties(made.client("SASL_SSL", **login))
        Cluster(settings).any_connection().close()
        with pytest.raises(ClientError, match="does not accept our certificate"):
            _ = Cluster(Settings.from_properties(made.client("SSL"))).any_connection().versions
    stricter = TlsBroker(tmp_path, **{"listener.name.sasl_ssl.ssl.client.auth": "required"})
    with stricter.broker:
        config = stricter.client("SASL_SSL", **login)
        with pytest.raises(ClientError, match="does not accept our certificate"):
            Cluster(Settings.from_properties(config)).any_connection()
        both = Settings.from_properties(config | stricter.certificate())
        connection = Cluster(both).any_connection()
        assert stricter.principals("SASL_SSL") == {"User:ann"}
        connection.close()


def test_a_certificate_that_is_only_requested(tmp_path: Path) -> None:
    made = TlsBroker(tmp_path, **{"listener.name.mutual.ssl.client.auth": "requested"})
    with made.broker:
        for certificate, principal in (({}, "User:ANONYMOUS"), (made.certificate(), "User:ANN")):
            config = made.client("MUTUAL", **certificate)
            with Cluster(Settings.from_properties(config)).any_connection() as connection:
                assert connection.versions
                assert principal in made.principals("MUTUAL")
        foreign = made.certificate(made.issue("ann", "foreign.pem", authority=made.stranger))
        with pytest.raises(ClientError, match="does not accept our certificate"):
            _ = Cluster(Settings.from_properties(made.client("MUTUAL", **foreign))).any_connection().versions


def test_a_name_that_no_rule_applies_to_is_not_let_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = {"listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=bob$/bob/"}
    made = TlsBroker(tmp_path, **rules)
    with made.broker:
        config = made.client("MUTUAL", **made.certificate())
        with caplog.at_level(logging.INFO), pytest.raises(ClientError):
            _ = Cluster(Settings.from_properties(config)).any_connection().versions
        assert "No rule of ssl.principal.mapping.rules applies to CN=ann" in caplog.text
