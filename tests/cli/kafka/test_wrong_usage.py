"""Promise: a bad command line or file gives one sentence and a non-zero exit code.

If Kafka's tool prints more before that (a heading, the arguments, the partition), Ottla's does too.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess

import pytest

PROPERTIES = "--command-config"
# A working command line of each tool, and its option for the client properties file.
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
    """Return the single error line, without Kafka's deprecation line for kafka-configs."""
    lines = (failed.out + failed.err).strip().splitlines()
    if lines[0].startswith("Error while executing config command with args "):
        lines = lines[1:]
    lines = [line for line in lines if " deprecated " not in line]
    assert len(lines) == 1, lines
    return lines[0]


def broken(tmp_path, kind):
    """Return a missing file, a directory, and a file that is not text."""
    path = tmp_path / kind
    if kind == "directory":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    return path


@pytest.mark.parametrize("tool", [*WORK, "delete-records", "cluster", "dump-log", "server-start", "storage"])
def test_something_is_missing(alone, tool):
    assert sentence(alone(tool, code=1))


@pytest.mark.parametrize(
    ("tool", "usage"),
    [
        (
            "server-start",
            "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*",
        ),
        ("zookeeper-server-start", "USAGE: zookeeper-server-start [-daemon] zookeeper.properties"),
        (
            "zookeeper-shell",
            "USAGE: zookeeper-shell zookeeper_host:port[/path] [-zk-tls-config-file file] [args...]",
        ),
        (
            "zkServer",
            "Usage: zkServer [--config <conf-dir>] {start|start-foreground|stop|restart|status} [zoo.cfg]",
        ),
    ],
)
def test_a_script_without_arguments_shows_its_usage(alone, tool, usage):
    assert alone(tool, code=1).err == f"{usage}\n"


@pytest.mark.parametrize("address", ["localhost:abc", ":2181", ",", "localhost:99999"])
def test_what_is_not_the_address_of_a_zookeeper(alone, address):
    said = sentence(alone("topics", "--zookeeper", address, "--list", code=1))
    assert f"'{address}' is not the address of a ZooKeeper: write HOST:PORT" in said


@pytest.mark.parametrize("moment", ["2021-09-02", "2021-09-02T99:00", "1630540800000", "yesTerday"])
def test_a_moment_is_quoted_as_it_was_typed(tools, topic, moment):
    to = ("--reset-offsets", "--to-datetime", moment, "--dry-run")
    assert f"'{moment}' " in sentence(tools("consumer-groups", "--group", "g", "--topic", topic, *to, code=1))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (f"{0:020}.log", "cannot be read: No such file or directory."),
        ("nosuch.log", "cannot be read: No such file or directory."),
        ("nosuch.index", "cannot be read: No such file or directory."),
        ("customers.log", "is not a file of a log: it would have the name of its first offset, such as 0"),
        ("7.log", "cannot be read: Is a directory."),
    ],
)
def test_a_file_that_cannot_be_dumped(alone, tmp_path, name, said):
    (tmp_path / "customers.log").write_text("alice\n")
    (tmp_path / "7.log").mkdir()
    failed = alone("dump-log", "--files", name, code=1, cwd=tmp_path)
    assert failed.err.startswith(f"{name} {said}")


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "--list", "--bootstrap-server", "127.0.0.1:1"),  # reports the problem on stdout
        ("topics",),
        ("storage", "random-uuid"),
        ("storage", "--help"),
    ],
    ids=" ".join,
)
def test_nothing_is_said_when_nobody_reads(alone, command):
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as nobody:
        ended = subprocess.run(
            alone.command(*command),
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert ended.stderr == (
        "Create, delete, describe, or change a topic.\n" if command == ("topics",) else ""
    )


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


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "--create", "--topic", "t", "--replica-assignment", "99999999999"),
        ("topics", "--create", "--topic", "t", "--partitions", "99999999999"),
        ("leader-election", "--election-type", "preferred", "--path-to-json-file", "large.json"),
        ("reassign-partitions", "--execute", "--reassignment-json-file", "large.json"),
    ],
    ids=" ".join,
)
def test_a_number_that_is_too_large(tools, command, tmp_path):
    entry = {"topic": "t", "partition": 99999999999, "replicas": [99999999999]}
    (tmp_path / "large.json").write_text(json.dumps({"version": 1, "partitions": [entry]}))
    assert sentence(tools(*command, code=1, cwd=tmp_path))


def test_a_negative_timeout_is_none(tools):
    tools("consumer-groups", "--list", "--timeout", "-1")


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


@pytest.mark.parametrize("tool", ["topics", "storage"])
def test_output_that_nobody_can_write(alone, tool):
    words = {"topics": ("--list", "--bootstrap-server", "127.0.0.1:1"), "storage": ("random-uuid",)}[tool]
    command = ["sh", "-c", '"$@" > /dev/full', "sh", *alone.command(tool, *words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (1, "The output cannot be written: No space left on device.\n")
    command[2] = '"$@" >&-'  # as if redirected to /dev/null
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (1 if tool == "topics" else 0, "")


def test_nothing_is_said_when_head_has_read_enough(alone, tmp_path):
    index = tmp_path / f"{0:020}.index"
    index.write_bytes(b"".join(struct.pack(">ii", n, n) for n in range(1, 20_000)))  # exceeds a pipe's buffer
    command = ["sh", "-c", '"$@" | head -2', "sh", *alone.command("dump-log", "--files", index)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.stdout.splitlines(), ended.stderr) == ([f"Dumping {index}", "offset: 1 position: 1"], "")


@pytest.mark.parametrize("daemon", [(), ("-daemon",)])
def test_a_zookeeper_that_finds_no_place(alone, tmp_path, daemon):
    properties = tmp_path / "zookeeper.properties"
    properties.write_text("dataDir=/proc/none\nclientPort=0\n")
    start = ("zookeeper-server-start", *daemon, properties)
    failed = alone(*start, code=1, cwd=tmp_path, installed=True)
    assert failed.err == "/proc/none cannot be used as dataDir: No such file or directory.\n"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        place = f"dataDir={tmp_path}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        properties.write_text(place)
        failed = alone(*start, code=1, cwd=tmp_path, installed=True)
    assert failed.err == (
        f"Port {port} on 127.0.0.1 is taken by another program: stop it, or listen elsewhere with another clientPort "
        f"in {properties}.\n"
    )
