"""Promise: whatever is wrong with a command line or its files is told in one sentence, with a non-zero code.

Where Kafka's tool says more before it (a heading, the arguments, the partition it was about), so does ours.
"""

from __future__ import annotations

import pytest

PROPERTIES = "--command-config"
# Each tool with something to do, and the option that names a file with the client's properties.
WORK = {
    "topics": (["--list"], PROPERTIES),
    "configs": (["--entity-type", "topics", "--describe"], PROPERTIES),
    "console-producer": (["--topic", "t"], "--producer.config"),
    "console-consumer": (["--topic", "t"], "--consumer.config"),
    "consumer-groups": (["--list"], PROPERTIES),
    "get-offsets": ([], PROPERTIES),
    "log-dirs": (["--describe"], PROPERTIES),
    "broker-api-versions": ([], PROPERTIES),
    "leader-election": (["--election-type", "preferred", "--all-topic-partitions"], "--admin.config"),
    "preferred-replica-election": ([], "--admin.config"),
    "reassign-partitions": (["--list"], PROPERTIES),
    "producer-perf-test": (["--topic", "t", "--num-records", "1", "--record-size", "1"], PROPERTIES),
    "consumer-perf-test": (["--topic", "t", "--num-records", "1"], PROPERTIES),
    "e2e-latency": (
        ["--topic", "t", "--num-records", "1", "--producer-acks", "1", "--record-size", "1"],
        PROPERTIES,
    ),
    "verifiable-producer": (["--topic", "t", "--max-messages", "1"], PROPERTIES),
    "verifiable-consumer": (["--topic", "t", "--group-id", "g"], PROPERTIES),
    "transactions": (["list"], PROPERTIES),
    "groups": (["--list"], PROPERTIES),
    "share-groups": (["--list"], PROPERTIES),
    "streams-groups": (["--list"], PROPERTIES),
    "console-share-consumer": (["--topic", "t"], PROPERTIES),
    "verifiable-share-consumer": (["--topic", "t", "--group-id", "g"], PROPERTIES),
    "share-consumer-perf-test": (["--topic", "t", "--num-records", "1"], PROPERTIES),
    "features": (["describe"], PROPERTIES),
    "streams-application-reset": (["--application-id", "a"], PROPERTIES),
}
JSON = [
    ("delete-records", "--offset-json-file"),
    ("leader-election", "--election-type", "preferred", "--path-to-json-file"),
    ("preferred-replica-election", "--path-to-json-file"),
    ("reassign-partitions", "--execute", "--reassignment-json-file"),
    ("reassign-partitions", "--verify", "--reassignment-json-file"),
    ("reassign-partitions", "--cancel", "--reassignment-json-file"),
    ("reassign-partitions", "--generate", "--broker-list", "0", "--topics-to-move-json-file"),
]
FILES = [
    ("console-producer", "--topic", "t", "--reader-config"),
    ("console-consumer", "--topic", "t", "--formatter-config"),
    ("configs", "--topic", "t", "--alter", "--add-config-file"),
    ("consumer-groups", "--group", "g", "--reset-offsets", "--dry-run", "--from-file"),
    ("producer-perf-test", "--topic", "t", "--num-records", "1", "--payload-file"),
    ("console-share-consumer", "--topic", "t", "--formatter-config"),
]


def sentence(failed) -> str:
    """The one line, behind Kafka's own about kafka-configs."""
    lines = (failed.out + failed.err).strip().splitlines()
    if lines[0].startswith("Error while executing config command with args "):
        lines = lines[1:]
    lines = [line for line in lines if " deprecated " not in line]
    assert len(lines) == 1, lines
    return lines[0]


def broken(tmp_path, kind):
    """A file that is not there, one that is a directory, one that is no text."""
    path = tmp_path / kind
    if kind == "directory":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    return path


@pytest.mark.parametrize("tool", [*WORK, "delete-records", "cluster", "dump-log", "server-start", "storage"])
def test_something_is_missing(alone, tool):
    assert sentence(alone(tool, code=1))


@pytest.mark.parametrize("tool", ["zookeeper-server-start", "zookeeper-shell"])
def test_something_is_missing_for_zookeeper(alone, tool):
    assert "are required" in sentence(alone(tool, code=1))


@pytest.mark.parametrize("kind", ["missing", "directory", "binary"])
@pytest.mark.parametrize("tool", WORK)
def test_properties_that_cannot_be_read(tools, tool, kind, tmp_path):
    action, option = WORK[tool]
    said = sentence(tools(tool, option, broken(tmp_path, kind), *action, code=1))
    assert "annot" in said
    assert kind in said


@pytest.mark.parametrize("kind", ["missing", "directory", "binary"])
@pytest.mark.parametrize("command", FILES, ids=" ".join)
def test_files_that_cannot_be_read(tools, command, kind, tmp_path):
    said = sentence(tools(*command, broken(tmp_path, kind), code=1))
    assert "annot" in said
    assert kind in said


@pytest.mark.parametrize("kind", ["missing", "directory", "binary"])
def test_properties_of_kafka_cluster_that_cannot_be_read(alone, kafka_broker, kind, tmp_path):
    at = ("--bootstrap-server", kafka_broker.bootstrap_servers)
    assert kind in sentence(alone("cluster", "cluster-id", *at, "--config", broken(tmp_path, kind), code=1))
    good = tmp_path / "good.properties"
    good.write_text("client.id=me\n")
    assert alone("cluster", "cluster-id", *at, "--config", good).out.startswith("Cluster ID: ")


@pytest.mark.parametrize("text", ["{", "[1]", '{"version": 7, "partitions": [], "topics": []}', "\x00"])
@pytest.mark.parametrize("command", JSON, ids=" ".join)
def test_bad_json(tools, command, text, tmp_path):
    file = tmp_path / "bad.json"
    file.write_text(text)
    if command[0].endswith("-election") and "version" in text:
        pytest.skip("Kafka's file of partitions to elect has no version")
    assert sentence(tools(*command, file, code=1))


@pytest.mark.parametrize("kind", ["missing", "directory", "binary"])
@pytest.mark.parametrize("command", JSON, ids=" ".join)
def test_json_that_cannot_be_read(tools, command, kind, tmp_path):
    assert sentence(tools(*command, broken(tmp_path, kind), code=1))


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "--describe", "--topic", "nowhere"),
        ("topics", "--delete", "--topic", "nowhere"),
        ("topics", "--alter", "--topic", "nowhere", "--partitions", "2"),
        ("configs", "--topic", "nowhere", "--alter", "--add-config", "retention.ms=1"),
        ("console-producer", "--topic", "no where"),
        ("console-consumer", "--topic", "no where", "--timeout-ms", "1000"),
        ("consumer-groups", "--group", "g", "--topic", "nowhere", "--reset-offsets", "--to-latest", "--execute"),
        ("get-offsets", "--topic", "nowhere"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_topic_that_is_not_there(tools, command):
    assert sentence(tools(*command, code=1))


@pytest.mark.parametrize("tool", ["server-start", "zookeeper-server-start"])
def test_output_that_cannot_be_written(alone, tool, tmp_path, monkeypatch):
    properties = tmp_path / "server.properties"
    properties.write_text("dataDir=/tmp/none\nclientPort=2181\n")
    monkeypatch.setitem(alone.environment, "LOG_DIR", str(properties / "logs"))
    said = sentence(alone(tool, "-daemon", properties, code=1))
    assert said == f"{properties / 'logs'} cannot be used for the server's output: Not a directory."


def test_a_log_directory_that_cannot_be_written(alone, tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text("listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs=/proc/none\n")
    failed = alone("server-start", properties, code=1)
    assert failed.err == "/proc/none cannot be used as a log directory: No such file or directory.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clientPort=2181\n", "has no dataDir: add a line such as dataDir=/tmp/zookeeper."),
        ("dataDir=/tmp/none\n", "has no clientPort: add a line such as clientPort=2181."),
        ("dataDir=/tmp/none\nclientPort=abc\n", "clientPort cannot be 'abc'; give the number of a port."),
    ],
)
def test_a_zookeeper_that_cannot_be_started(alone, tmp_path, text, said):
    properties = tmp_path / "zookeeper.properties"
    properties.write_text(text)
    assert sentence(alone("zookeeper-server-start", properties, code=1)).endswith(said)
