"""Promise: Kafka's own tool creates delegation tokens on our brokers, and Kafka's own clients log in with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.apache_kafka import TOPICS, Unavailable, kafka_jars, run_tool
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    [port] = ReservedPorts(1).numbers
    config = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} required user_ann="pencil" user_bob="crayon";',
        "delegation.token.secret.key": "secret of all brokers",
    }
    with Broker(data=tmp_path_factory.mktemp("broker"), config=config):
        yield f"127.0.0.1:{port}"


def properties(directory: Path, mechanism: str, module: str, user: str, password: str, more: str = "") -> str:
    file = directory / f"{user}.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}"{more};\n'
        "default.api.timeout.ms=20000\nrequest.timeout.ms=10000\n"
    )
    return str(file)


def test_kafkas_tool_and_kafkas_client(server: str, tmp_path: Path) -> None:
    ann = properties(tmp_path, "PLAIN", PLAIN, "ann", "pencil")
    to = ["--bootstrap-server", server, "--command-config", ann]
    created = run_tool(
        TOKENS, [*to, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"]
    ).stdout
    [row] = [line for line in created.splitlines() if "User:ann" in line]
    token_id, hmac, *rest = row.split()
    assert rest[:3] == ["User:ann", "User:ann", "[User:bob]"], created
    described = run_tool(TOKENS, [*to, "--describe", "--owner-principal", "User:ann"]).stdout
    assert token_id in described
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        with_token = properties(tmp_path, mechanism, SCRAM, token_id, hmac, ' tokenauth="true"')
        asked = ["--bootstrap-server", server, "--command-config", with_token]
        assert run_tool(TOPICS, [*asked, "--list"]).returncode == 0
    refused = run_tool(TOKENS, [*asked, "--create", "--max-life-time-period", "-1"], check=False)
    assert "DelegationTokenDisabledException" not in refused.stdout + refused.stderr
    assert re.search("UnsupportedByAuthentication|not allowed", refused.stdout + refused.stderr)
    renewed = run_tool(TOKENS, [*to, "--renew", "--renew-time-period", "-1", "--hmac", hmac]).stdout
    assert "Completed renew operation" in renewed
    expired = run_tool(TOKENS, [*to, "--expire", "--expiry-time-period", "-1", "--hmac", hmac]).stdout
    assert "Completed expire operation" in expired
    gone = run_tool(TOPICS, [*asked, "--list"], check=False)
    assert "SaslAuthenticationException" in gone.stdout + gone.stderr
