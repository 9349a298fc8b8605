"""Promise: every tool logs in with the Java clients' properties, given the same way as for Kafka's tools."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from ottla.testing import Broker
from tests.cli.kafka.test_every_tool import ACTIONS

# Arguments that differ from the ones for an open broker, because the tools have to end here.
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


@pytest.fixture(scope="module", params=["SASL_SSL", "SASL_PLAINTEXT", "SSL"])
def broker(request):
    with Broker(security=request.param, acls=[]) as broker:
        broker.create_topic("t")
        for _ in range(20):
            broker.produce("t", b"x")
        yield broker


def write(path, properties):
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


# One tool for each kind of client: our client, librdkafka's producer, its consumer, and both together.
QUICK = ("topics", "console-producer", "console-consumer", "consumer-groups")


@pytest.mark.parametrize(
    "tools",
    [QUICK, pytest.param([each for each in TOOLS if each not in QUICK], marks=pytest.mark.slow)],
    ids=len,
)
def test_every_tool_logs_in(alone, broker, tmp_path, tools):
    file = write(tmp_path / "client.properties", broker.client_properties())
    server = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", file)
    groups = ("--entity-type", "groups", "--entity-name")
    shared = ("s", "share", "perf-share-consumer", "console-share-consumer") if tools != QUICK else ()
    for name in shared:
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
        runs = dict(zip(tools, threads.map(run, tools), strict=True))
    failed = {tool: (done.out, done.err) for tool, done in runs.items() if done.code}
    assert failed == {}


def test_stores_in_pkcs12_are_read_by_all_kinds_of_tools(alone, tmp_path):
    """One tool administers, and one produces with librdkafka, which reads certificates only in PEM."""
    with Broker(security="SSL", acls=[]) as broker:
        broker.create_topic("t")
        properties = broker.client_properties()
        for store in ("keystore", "truststore"):
            found = Path(properties[f"ssl.{store}.location"]).read_bytes()
            file = tmp_path / f"{store}.jks"  # keytool writes PKCS12 under this name too
            file.write_bytes(as_pkcs12(found, b"secret", with_key=store == "keystore"))
            properties[f"ssl.{store}.location"] = str(file)
            properties[f"ssl.{store}.password"] = "secret"
            properties[f"ssl.{store}.type"] = "JKS"
        file = write(tmp_path / "client.properties", properties)
        options = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", file)
        assert alone("topics", *options, "--list").lines == ["t"]
        alone("console-producer", *options, "--topic", "t", stdin="hello\n")
        assert [record.value for record in broker.records("t")] == [b"hello"]
        write(file, {**properties, "ssl.truststore.password": "wrong"})
        for tool, words in (("topics", ["--list"]), ("console-producer", ["--topic", "t"])):
            failed = alone(tool, *options, *words, stdin="x\n", code=1)
            [said] = (failed.out + failed.err).splitlines()
            assert "ssl.truststore.password does not open" in said


def as_pkcs12(pem, password, *, with_key):
    leaf, *others = x509.load_pem_x509_certificates(pem)
    secret = serialization.BestAvailableEncryption(password)
    if not with_key:
        return pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(leaf, b"ca")], secret)
    key = serialization.load_pem_private_key(pem, None)
    return pkcs12.serialize_key_and_certificates(b"client", key, leaf, others, secret)


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
