"""Access to the proxy, and the identity it uses in the cluster."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ottla.cli.commands.servers.rest import start_beside
from ottla.cli.errors import JobError
from ottla.http.background import InBackground
from ottla.http.tls import BadTlsSettings
from ottla.rest.server import RestProxy
from ottla.rest.settings import BadSettings, RestSettings
from ottla.security.acls import Acl
from ottla.security.certificates import make_authority
from ottla.testing import Broker, acl

JSON = {"Content-Type": "application/vnd.kafka.json.v2+json"}
RECORD = json.dumps({"records": [{"value": 1}]})


def running(settings: RestSettings) -> InBackground:
    return InBackground(lambda: RestProxy(settings), "rest")


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    acls: list[Acl] = [acl("ann", "write", topic="orders"), acl("ann", "describe", topic="orders")]
    users = {"ann": "ann-secret", "bob": "bob-secret"}
    with Broker(security="SASL_PLAINTEXT", users=users, acls=acls) as broker:
        broker.create_topic("orders")
        yield broker


@pytest.fixture(scope="module")
def passed_on(secured: Broker) -> Iterator[InBackground]:
    """A proxy without rights of its own."""
    properties = secured.client_properties("ann")
    properties.pop("sasl.password", None)
    with running(RestSettings(properties, port=0, authentication="PROPAGATE")) as proxy:
        yield proxy


def write(url: str, auth: tuple[str, str] | None) -> httpx.Response:
    return httpx.post(f"{url}/topics/orders", content=RECORD, headers=JSON, auth=auth, timeout=30)


def test_a_user_has_the_rights_that_the_cluster_gives_him(passed_on: InBackground) -> None:
    assert write(passed_on.url, ("ann", "ann-secret")).json()["offsets"][0]["error_code"] is None
    refused = write(passed_on.url, ("bob", "bob-secret"))
    assert refused.status_code in (403, 404), refused.text


def test_a_wrong_password_is_401_and_nothing_of_it_is_told(passed_on: InBackground) -> None:
    for auth in (("ann", "wrong-secret"), None):
        answer = write(passed_on.url, auth)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic")
        assert "secret" not in answer.text


def test_an_instance_is_of_the_user_who_made_it(passed_on: InBackground) -> None:
    made = httpx.post(
        f"{passed_on.url}/consumers/g", json={"name": "mine"}, auth=("ann", "ann-secret"), timeout=30
    )
    assert made.status_code == 200, made.text
    base = f"{passed_on.url}/consumers/g/instances/mine"
    assert httpx.get(f"{base}/subscription", auth=("ann", "ann-secret")).status_code == 200
    other = httpx.get(f"{base}/subscription", auth=("bob", "bob-secret"))
    assert (other.status_code, other.json()["error_code"]) == (404, 40403)
    assert httpx.delete(base, auth=("ann", "ann-secret")).status_code == 204


@pytest.mark.parametrize("listen", ["0.0.0.0:8082", ":8082", "rest.example"])
def test_beside_a_secured_broker_it_is_open_to_this_machine_only(tmp_path: Path, listen: str) -> None:
    with pytest.raises(JobError, match="listens on this machine only"):
        start_beside(listen, ["127.0.0.1:1"], tmp_path / "client.properties", None)


def test_beside_a_secured_broker_nobody_has_the_rights_of_the_admin(secured: Broker, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "".join(f"{name}={value}\n" for name, value in secured.client_properties("admin").items())
    )
    with start_beside("127.0.0.1:0", [secured.bootstrap_servers], file, None) as proxy:
        assert write(proxy.url, None).status_code == 401
        assert write(proxy.url, ("ann", "ann-secret")).json()["offsets"][0]["error_code"] is None
        assert write(proxy.url, ("bob", "bob-secret")).status_code in (403, 404)


def test_users_of_a_password_file(broker: Broker, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann: secret,admin\n")
    properties = {"bootstrap.servers": broker.bootstrap_servers}
    settings = RestSettings(properties, port=0, authentication="BASIC", password_file=str(users))
    with running(settings) as proxy:
        assert httpx.get(f"{proxy.url}/topics").status_code == 401
        assert httpx.get(f"{proxy.url}/topics", auth=("ann", "secret")).status_code == 200


def test_https(broker: Broker, tmp_path: Path) -> None:
    authority = make_authority()
    issued = authority.issue("proxy", ["127.0.0.1"])
    (tmp_path / "proxy.pem").write_bytes(issued.key_pem + issued.certificate_pem)
    settings = RestSettings.parse(
        {
            "bootstrap.servers": f"PLAINTEXT://{broker.bootstrap_servers}",
            "listeners": "https://127.0.0.1:0",
            "ssl.keystore.location": str(tmp_path / "proxy.pem"),
        }
    )
    context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    with running(settings) as proxy, httpx.Client(verify=context, http2=True) as client:
        answer = client.get(f"{proxy.url}/v3/clusters")
        assert answer.http_version == "HTTP/2"
        assert answer.json()["data"][0]["metadata"]["self"].startswith("https://")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "a:1", "listeners": "8082"}, "listeners must be like"),
        (
            {"bootstrap.servers": "a:1", "authentication.method": "MAGIC"},
            "authentication.method must be one of",
        ),
        ({"bootstrap.servers": "a:1", "authentication.method": "BASIC"}, "needs ottla.password.file"),
        ({"bootstrap.servers": "a:1", "consumer.instance.timeout.ms": "soon"}, "must be a number"),
    ],
)
def test_bad_settings_are_one_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadSettings, match=sentence):
        RestSettings.parse(given)


def test_https_without_a_key() -> None:
    settings = RestSettings.parse({"bootstrap.servers": "a:1", "listeners": "https://127.0.0.1:0"})
    with pytest.raises(BadTlsSettings, match=r"ssl\.keystore\.location"):
        RestProxy(settings)
