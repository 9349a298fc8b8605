"""Settings with the names of ksql-server.properties: HTTPS, client certificates, user names and passwords."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from ottla.security.certificates import make_authority
from ottla.sql import SqlError
from ottla.sql.client import SqlClient
from ottla.sql.server.settings import BadSettings, read_settings
from ottla.testing import Broker
from tests.sql.server.serving import serving


def test_defaults_and_what_is_whose() -> None:
    settings = read_settings(
        {
            "bootstrap.servers": "a:1",
            "ksql.service.id": "mine_",
            "security.protocol": "SASL_SSL",
            "ksql.streams.ssl.truststore.location": "/trust",
            "ksql.query.pull.max.qps": "7",
        }
    )
    assert [(each.scheme, each.host, each.port) for each in settings.listeners] == [
        ("http", "127.0.0.1", 8088)
    ]
    assert (settings.bootstrap_servers, settings.service_id) == ("a:1", "mine_")
    assert settings.client == {"security.protocol": "SASL_SSL", "ssl.truststore.location": "/trust"}
    assert settings.ignored == ["ksql.query.pull.max.qps"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"listeners": "http://x"}, "listeners has 'http://x'"),
        ({"listeners": "http://x:1,nonsense"}, "'nonsense'"),
        ({"listeners": "https://x:1"}, "needs ssl.keystore.location"),
        ({"listeners": "https://x:1", "ssl.keystore.location": "/none"}, "cannot read /none"),
        ({"listeners": "https://x:1", "ssl.client.authentication": "MAYBE"}, "NONE, REQUESTED or REQUIRED"),
        ({"authentication.method": "BASIC", "authentication.users.file": "/none"}, "/none"),
    ],
)
def test_what_is_wrong_names_the_setting(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadSettings) as refused:
        read_settings(given)
    assert said in str(refused.value)


def test_https_with_certificates_and_passwords(broker: Broker, tmp_path: Path) -> None:
    authority = make_authority()
    server, client = authority.issue("server", ["127.0.0.1"]), authority.issue("client", client=True)
    (tmp_path / "server.pem").write_bytes(server.key_pem + server.certificate_pem)
    (tmp_path / "client.pem").write_bytes(client.key_pem + client.certificate_pem)
    (tmp_path / "trust.pem").write_bytes(authority.certificate_pem)
    (tmp_path / "users").write_text("ann: secret,admin\nbob: word,guest\n")
    settings = read_settings(
        {
            "listeners": "https://127.0.0.1:0,http://127.0.0.1:0",
            "ssl.keystore.location": str(tmp_path / "server.pem"),
            "ssl.truststore.location": str(tmp_path / "trust.pem"),
            "ssl.client.authentication": "REQUIRED",
            "authentication.method": "BASIC",
            "authentication.roles": "admin",
            "authentication.skip.paths": "/healthcheck",
            "authentication.users.file": str(tmp_path / "users"),
        }
    )
    context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    context.load_cert_chain(tmp_path / "client.pem")
    options = {"listeners": settings.listeners, "authenticate": settings.authenticate, "service_id": "tls_"}
    with serving(broker.bootstrap_servers, checkpoints=str(tmp_path), **options) as served:
        secure, plain = served.server.urls
        assert secure.startswith("https://")
        for http2 in (False, True):
            with httpx.Client(verify=context, http2=http2) as allowed:
                assert allowed.get(f"{secure}/info", auth=("ann", "secret")).status_code == 200
                refused = allowed.get(f"{secure}/info")
                assert (refused.status_code, refused.json()["error_code"]) == (401, 40100)
                refused = allowed.get(f"{secure}/info", auth=("bob", "word"))
                assert (refused.status_code, refused.json()["error_code"]) == (403, 40300)
                assert allowed.get(f"{secure}/healthcheck").status_code == 200
        assert httpx.get(f"{plain}/info").status_code == 401
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{secure}/healthcheck", verify=False)
        through = SqlClient(secure, user="ann:secret", tls=context)
        assert through.info()["ksqlServiceId"] == "tls_"
        assert through.execute("SHOW TABLES;")[0].columns[0] == "NAME"
        with pytest.raises(SqlError, match="asks for a login"):
            SqlClient(secure, tls=context).info()
        with pytest.raises(SqlError, match="No secure connection"):
            SqlClient(secure, user="ann:secret").info()


def test_defaults_of_session_properties() -> None:
    read = read_settings(
        {"ksql.query.pull.table.scan.enabled": "false", "ksql.output.topic.name.prefix": "a-"}
    )
    assert read.defaults == {
        "ksql.query.pull.table.scan.enabled": "false",
        "ksql.output.topic.name.prefix": "a-",
    }
    assert read.ignored == []
    with pytest.raises(BadSettings, match="is true or false, not 'maybe'"):
        read_settings({"ksql.persistence.wrap.single.values": "maybe"})
