"""Promise: Kafka's own clients and tools log in at our SASL listeners, and understand our refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.apache_kafka import TOPICS, Unavailable, kafka_jars, run_tool
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

CONFIGS = "kafka.admin.ConfigCommand"
_ANN = ("--entity-type", "users", "--entity-name", "ann")
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Open and secured addresses; Kafka's own tool has created the users."""
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    plain, sasl = ReservedPorts(2).numbers
    jaas = f'{MODULES["PLAIN"]} required user_ann="pencil";'
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "sasl.enabled.mechanisms": ",".join(MODULES),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }
    with Broker(data=tmp_path_factory.mktemp("broker"), config=config) as broker:
        broker.create_topic("secret-plans")
        scram = "SCRAM-SHA-256=[iterations=8192,password=pencil],SCRAM-SHA-512=[password=pencil]"
        said = run_tool(
            CONFIGS,
            ["--bootstrap-server", f"127.0.0.1:{plain}", "--alter", *_ANN, "--add-config", scram],
        )
        assert "Completed updating config for user ann." in said.stdout
        yield f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}"


def listed(servers: str, mechanism: str, password: str, directory: Path) -> tuple[int, str]:
    file = directory / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={MODULES[mechanism]} required username="ann" password="{password}";\n'
        "default.api.timeout.ms=20000\nrequest.timeout.ms=10000\n"
    )
    done = run_tool(
        TOPICS, ["--bootstrap-server", servers, "--command-config", str(file), "--list"], check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("mechanism", MODULES)
def test_kafkas_tools_log_in_and_are_refused(
    servers: tuple[str, str], mechanism: str, tmp_path: Path
) -> None:
    _, sasl = servers
    code, said = listed(sasl, mechanism, "pencil", tmp_path)
    assert (code, "secret-plans" in said) == (0, True), said
    code, said = listed(sasl, mechanism, "crayon", tmp_path)
    assert code != 0
    assert "SaslAuthenticationException" in said
    assert "secret-plans" not in said
    expected = {"PLAIN": "Authentication failed: Invalid username or password"}.get(
        mechanism, f"due to invalid credentials with SASL mechanism {mechanism}"
    )
    assert expected in said


def test_kafkas_tool_describes_users_without_their_secrets(servers: tuple[str, str]) -> None:
    plain, _ = servers
    said = run_tool(
        CONFIGS,
        ["--bootstrap-server", plain, "--describe", *_ANN],
    ).stdout
    assert "SCRAM credential configs for user-principal 'ann' are " in said
    assert "SCRAM-SHA-256=iterations=8192" in said
    assert "SCRAM-SHA-512=iterations=4096" in said
