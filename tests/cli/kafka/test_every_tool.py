"""Requirements for every tool: two installed spellings, a fast start, a help text, and errors in one sentence."""

import importlib
import resource
import socket
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla import KAFKA_VERSION, __version__
from ottla.cli.main import KAFKA_TOOLS
from ottla.testing import Broker

SCRIPTS = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["scripts"]
REPLACED = "ottla.cli.kafka.replaced:"
NAMES = sorted(name for name in SCRIPTS if name != "ottla" and name[-3:] != ".sh")
TOOLS = [
    name.removeprefix("kafka-")
    for name in NAMES
    if name.startswith("kafka-")
    and not SCRIPTS[name].startswith(REPLACED)
    and name != "kafka-end-to-end-latency"
]
ACTIONS = {
    "topics": ["--list"],
    "configs": ["--entity-type", "topics", "--describe"],
    "console-producer": ["--topic", "t"],
    "console-consumer": ["--topic", "t"],
    "consumer-groups": ["--list"],
    "get-offsets": [],
    "log-dirs": ["--describe"],
    "broker-api-versions": [],
    "cluster": ["cluster-id"],
    "preferred-replica-election": [],
    "reassign-partitions": ["--list"],
    "e2e-latency": ["--topic", "t", "--num-records", "1", "--producer-acks", "1", "--record-size", "1"],
    "leader-election": ["--election-type", "preferred", "--all-topic-partitions"],
    "producer-perf-test": ["--topic", "t", "--num-records", "1", "--record-size", "1"],
    "consumer-perf-test": ["--topic", "t", "--num-records", "1"],
    "verifiable-producer": ["--topic", "t", "--max-messages", "1"],
    "verifiable-consumer": ["--topic", "t", "--group-id", "g"],
    "transactions": ["list"],
    "groups": ["--list"],
    "share-groups": ["--list"],
    "streams-groups": ["--list"],
    "console-share-consumer": ["--topic", "t"],
    "verifiable-share-consumer": ["--topic", "t", "--group-id", "g"],
    "share-consumer-perf-test": ["--topic", "t", "--num-records", "1"],
    "features": ["describe"],
    "client-metrics": ["--list"],
    "streams-application-reset": ["--application-id", "a"],
}
# Kafka's bin directory: all tools of 4.3, and the ZooKeeper tools of 3.9,
KAFKAS = [
    "connect-distributed",
    "connect-mirror-maker",
    "connect-plugin-path",
    "connect-standalone",
    "kafka-acls",
    "kafka-broker-api-versions",
    "kafka-client-metrics",
    "kafka-cluster",
    "kafka-configs",
    "kafka-console-consumer",
    "kafka-console-producer",
    "kafka-console-share-consumer",
    "kafka-consumer-groups",
    "kafka-consumer-perf-test",
    "kafka-delegation-tokens",
    "kafka-delete-records",
    "kafka-dump-log",
    "kafka-e2e-latency",
    "kafka-features",
    "kafka-get-offsets",
    "kafka-groups",
    "kafka-jmx",
    "kafka-leader-election",
    "kafka-log-dirs",
    "kafka-metadata-quorum",
    "kafka-metadata-shell",
    "kafka-mirror-maker",
    "kafka-producer-perf-test",
    "kafka-reassign-partitions",
    "kafka-replica-verification",
    "kafka-run-class",
    "kafka-server-start",
    "kafka-server-stop",
    "kafka-share-consumer-perf-test",
    "kafka-share-groups",
    "kafka-storage",
    "kafka-streams-application-reset",
    "kafka-streams-groups",
    "kafka-topics",
    "kafka-transactions",
    "kafka-verifiable-consumer",
    "kafka-verifiable-producer",
    "kafka-verifiable-share-consumer",
    "trogdor",
    "zookeeper-security-migration",
    "zookeeper-server-start",
    "zookeeper-server-stop",
    "zookeeper-shell",
    # plus ZooKeeper's own tools.
    "zkCli",
    "zkServer",
]


def test_every_tool_of_kafka_can_be_found():
    assert set(KAFKAS) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_both_spellings_are_installed(name):
    assert SCRIPTS[name] == SCRIPTS[f"{name}.sh"]
    module, _, attribute = SCRIPTS[name].partition(":")
    assert callable(getattr(importlib.import_module(module), attribute))


@pytest.mark.parametrize("name", sorted(KAFKA_TOOLS))
def test_a_tool_that_is_a_command_of_ottla_is_the_same_tool(name):
    module, _, function = KAFKA_TOOLS[name].partition(":")
    assert SCRIPTS[f"kafka-{name}"] == f"{module}:{function or 'main'}"


@pytest.mark.parametrize("name", [name for name in NAMES if SCRIPTS[name].startswith(REPLACED)])
def test_a_tool_that_is_not_there_says_so_by_name(name, capsys):
    module, _, attribute = SCRIPTS[name].partition(":")
    with pytest.raises(SystemExit) as ended:
        getattr(importlib.import_module(module), attribute)()
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"{name} is not part of Ottla: ")
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


def processor_seconds():
    """Return the CPU time of the ended child processes. Unlike wall time, it ignores other load on the machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
    "tool",
    [*TOOLS, "zookeeper-server-start", "zookeeper-server-stop", "zookeeper-shell", "zkServer", "zkCli"],
)
def test_it_helps_in_no_time(alone, tool):
    began = processor_seconds()
    helped = alone(tool, "--help", installed=True)
    assert processor_seconds() - began < 0.35
    assert helped.out.startswith(f"usage: {'' if tool.startswith('z') else 'kafka-'}{tool}")
    assert alone(tool, "--version", installed=True).out == f"{KAFKA_VERSION} (ottla {__version__})\n"


@pytest.mark.parametrize("tool", TOOLS)
def test_an_unknown_option_is_one_sentence(tool, monkeypatch, capsys):
    module, _, attribute = SCRIPTS[f"kafka-{tool}"].partition(":")
    monkeypatch.setattr("sys.argv", [tool, "--no-such-option"])
    with pytest.raises(SystemExit) as ended:
        getattr(importlib.import_module(module), attribute)()
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


@pytest.mark.parametrize("tool", [*sorted(ACTIONS), "delete-records"])
def test_an_unreachable_broker_is_said_at_once(alone, tool, tmp_path):
    actions = ACTIONS.get(tool)
    if actions is None:
        file = tmp_path / "offsets.json"
        file.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 1}]}')
        actions = ["--offset-json-file", file]
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    began = time.monotonic()
    servers = ("-bootstrap-server", address)  # every tool accepts a single dash
    # Most tools with subcommands expect their own options before the subcommand.
    failed = alone(tool, *((*actions, *servers) if tool == "cluster" else (*servers, *actions)), code=1)
    assert time.monotonic() - began < 10
    assert f"Cannot reach a broker at {address}" in failed.out + failed.err


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_wrong_advertised_address_is_named_instead_of_the_one_that_answered(alone, host):
    with socket.create_server(("127.0.0.1", 0)) as server:
        advertised = f"{host}:{server.getsockname()[1]}"
    # These tools ask any broker; every other tool needs a leader, a coordinator or each broker.
    content = {"topics", "configs", "cluster", "features", "client-metrics"}
    with Broker(config={"advertised.listeners": f"PLAINTEXT://{advertised}"}) as broker:
        broker.create_topic("t")
        at = broker.bootstrap_servers

        def run(tool):
            servers = ("--bootstrap-server", at)
            words = (*ACTIONS[tool], *servers) if tool == "cluster" else (*servers, *ACTIONS[tool])
            return alone(tool, *words, stdin="x\n", code=None)

        with ThreadPoolExecutor(4) as threads:
            runs = dict(zip(ACTIONS, threads.map(run, ACTIONS), strict=True))
    for tool, result in runs.items():
        said = result.out + result.err
        if tool in content:
            assert result.code == 0, said
            continue
        assert result.code == 1, said
        assert f"{at} answered, but " in said
        assert f" advertises {advertised}, which cannot be reached from here: " in said
        assert "advertised.listeners" in said


def test_an_unreachable_zookeeper_is_said_in_one_sentence(alone):
    tools = ["topics", "configs", "console-consumer", "consumer-groups", "reassign-partitions"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with ThreadPoolExecutor(len(tools)) as threads:  # each tool waits for some seconds
        runs = {
            tool: threads.submit(alone, tool, *ACTIONS[tool], "--zookeeper", address, code=1)
            for tool in tools
        }
    for tool, run in runs.items():
        said = run.result().out + run.result().err
        sentence = f"ZooKeeper at {address} cannot be reached: is it running, and is the address right?"
        assert sentence in said, tool


def test_brokers_are_lists_with_commas_semicolons_and_blanks(alone, kafka_broker):
    servers = f"127.0.0.1:1; {kafka_broker.bootstrap_servers}"
    alone("topics", "--bootstrap-server", servers, "--list")
