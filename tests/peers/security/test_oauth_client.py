"""Promise: Kafka's client gets a token from its issuer and logs in at our broker; a forged token is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.apache_kafka import TOOL_JVM, TOPICS, Unavailable, kafka_jars, run_tool
from ottla.security.jaas import ALLOWED_URLS
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.issuer import AUDIENCE, ISSUER, Issuer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture(scope="module")
def server(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    [port] = ReservedPorts(1).numbers
    config = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.jwks_url,
        ALLOWED_URLS: issuer.jwks_url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with Broker(data=tmp_path_factory.mktemp("broker"), config=config):
        yield f"127.0.0.1:{port}"


def listed(server: str, directory: Path, jaas: str, *more: str, urls: str) -> str:
    file = directory / "client.properties"
    lines = [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=OAUTHBEARER",
        f"sasl.jaas.config={MODULE} required {jaas};",
        "default.api.timeout.ms=20000",
        "request.timeout.ms=10000",
        *more,
    ]
    file.write_text("\n".join(lines))
    asked = ["--bootstrap-server", server, "--command-config", str(file), "--list"]
    done = run_tool(TOPICS, asked, check=False, jvm=(*TOOL_JVM, f"-D{ALLOWED_URLS}={urls}"))
    return "listed" if done.returncode == 0 else done.stdout + done.stderr


def test_kafkas_client_asks_the_token_endpoint(server: str, issuer: Issuer, tmp_path: Path) -> None:
    more = (
        f"sasl.login.callback.handler.class={HANDLER}",
        f"sasl.oauthbearer.token.endpoint.url={issuer.token_url}",
    )
    jaas = 'clientId="app" clientSecret="s3cret" scope="kafka" extension_traceId="7"'
    assert listed(server, tmp_path, jaas, *more, urls=issuer.token_url) == "listed"
    assert issuer.granted


def test_kafkas_client_reads_a_token_from_a_file(server: str, issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "token.jwt"
    more = (
        f"sasl.login.callback.handler.class={HANDLER}",
        f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}",
    )
    file.write_text(issuer.token(alg="ES256", scope="kafka"))
    assert listed(server, tmp_path, "", *more, urls=file.as_uri()) == "listed"
    file.write_text(issuer.token(aud="web", scope="kafka"))
    assert '{"status":"invalid_token"}' in listed(server, tmp_path, "", *more, urls=file.as_uri())


def test_a_token_that_nobody_has_signed_is_refused(server: str, tmp_path: Path) -> None:
    said = listed(server, tmp_path, 'unsecuredLoginStringClaim_sub="admin"', urls="x")
    assert '{"status":"invalid_token"}' in said
