"""Promise: every tool logs in with the properties of Java's clients, which it takes as Kafka's does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.testing import Broker
from tests.cli.kafka.test_every_tool import ACTIONS

# What they are called to do, if it is another thing than where nobody has to log in: here they have to end.
MORE = {
    "console-consumer": ["--topic", "t", "--from-beginning", "--max-messages", "1"],
    "console-share-consumer": ["--topic", "t", "--max-messages", "1", "--timeout-ms", "60000"],
    "consumer-perf-test": ["--topic", "t", "--num-records", "1", "--timeout", "60000"],
    "share-consumer-perf-test": ["--topic", "t", "--num-records", "1", "--timeout", "60000"],
    "verifiable-consumer": ["--topic", "t", "--group-id", "g", "--max-messages", "1"],
    "verifiable-share-consumer": ["--topic", "t", "--group-id", "s", "--max-messages", "1"],
    "acls": ["--list"],
}
TOOLS = {**ACTIONS, **MORE}
OTHER_NAMES = {
    "console-producer": "--producer.config",
    "console-consumer": "--consumer.config",
    "producer-perf-test": "--producer.config",
    "consumer-perf-test": "--consumer.config",
    "verifiable-producer": "--producer.config",
    "verifiable-consumer": "--consumer.config",
    "leader-election": "--admin.config",
    "streams-application-reset": "--config-file",
    "console-share-consumer": "--consumer-config",
    "cluster": "--config",
}


@pytest.fixture(
    scope="module",
    params=["SASL_SSL", *(pytest.param(each, marks=pytest.mark.slow) for each in ("SASL_PLAINTEXT", "SSL"))],
)
def broker(request):
    with Broker(security=request.param, acls=[]) as broker:
        broker.create_topic("t")
        for _ in range(20):
            broker.produce("t", b"x")
        yield broker


def write(path, properties):
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


def test_every_tool_logs_in(alone, broker, tmp_path):
    file = write(tmp_path / "client.properties", broker.client_properties())
    server = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", file)
    groups = ("--entity-type", "groups", "--entity-name")
    for name in ("s", "share", "perf-share-consumer", "console-share-consumer"):
        alone(
            "configs", *server, "--alter", *groups, name, "--add-config", "share.auto.offset.reset=earliest"
        )

    def run(tool):
        options = [
            "--bootstrap-server",
            broker.bootstrap_servers,
            OTHER_NAMES.get(tool, "--command-config"),
            file,
        ]
        words = [*TOOLS[tool], *options] if tool == "cluster" else [*options, *TOOLS[tool]]
        return alone(tool, *words, stdin="x\n", code=None)

    with ThreadPoolExecutor(3) as threads:
        runs = dict(zip(TOOLS, threads.map(run, TOOLS), strict=True))
    failed = {tool: (done.out, done.err) for tool, done in runs.items() if done.code}
    assert failed == {}


@pytest.mark.slow
def test_a_wrong_password_is_one_sentence_in_every_tool(alone, broker, tmp_path):
    if not broker.client_config()["security.protocol"].startswith("SASL"):
        pytest.skip("there are no passwords")
    properties = broker.client_properties()
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace("admin-secret", "pencil-7")
    file = write(tmp_path / "client.properties", properties)

    def run(tool):
        options = ["--bootstrap-server", broker.bootstrap_servers, "--command-config", file]
        words = [*TOOLS[tool], *options] if tool == "cluster" else [*options, *TOOLS[tool]]
        return alone(tool, *words, stdin="x\n", code=None)

    with ThreadPoolExecutor(3) as threads:
        runs = dict(zip(TOOLS, threads.map(run, TOOLS), strict=True))
    for tool, done in runs.items():
        assert done.code == 1, tool
        said = (done.out + done.err).strip().splitlines()
        assert "refused the credentials: Authentication failed during authentication" in said[-1], tool
        assert "pencil-7" not in done.out + done.err, tool
