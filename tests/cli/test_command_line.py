"""Requirements for every command: it starts fast, prints help, and fails with a sentence."""

import os
import signal
import socket
import subprocess
import sys
import time

import click
import pytest

from ottla import __version__
from ottla.cli.main import COMMANDS, KAFKA_TOOLS, cli


def every_command():
    """Return the commands as tuples: ("topics", "list"), ("produce",), …"""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((name, sub) for sub in command.list_commands(context))
        else:
            yield (name,)


CLIENT_COMMANDS = {
    ("topics", "list"): (),
    ("topics", "describe"): ("t",),
    ("topics", "create"): ("t",),
    ("topics", "delete"): ("t", "--yes"),
    ("topics", "alter"): ("t", "--partitions", "2"),
    ("topics", "trim"): ("t", "--yes"),
    ("produce",): ("t", "-m", "x"),
    ("consume",): ("t",),
    ("groups", "list"): (),
    ("groups", "describe"): ("g",),
    ("groups", "delete"): ("g", "--yes"),
    ("groups", "reset-offsets"): ("g", "--topic", "t", "--to-latest"),
    ("groups", "delete-offsets"): ("g", "--topic", "t", "--yes"),
    ("sql",): ("-e", "SHOW TOPICS;"),
    ("deadletter", "list"): ("t",),
    ("deadletter", "replay"): ("t",),
    ("deadletter", "redrive"): ("t",),
    ("configs", "describe"): ("topic", "t"),
    ("configs", "set"): ("topic", "t", "a=b"),
    ("configs", "delete"): ("topic", "t", "a"),
    ("cluster", "rebalance"): (),
    ("cluster", "roll"): ("--restart-command", "true {broker}"),
    ("capacity",): (),
    ("canary",): (),
    ("audit", "count"): ("t", "--tier", "source"),
    ("audit", "balance"): (),
    ("audit", "watch"): (),
    ("users", "list"): (),
    ("users", "add"): ("ann",),
    ("users", "password"): ("ann",),
    ("users", "remove"): ("ann", "--yes"),
    ("acls", "list"): (),
    ("acls", "add"): ("ann", "--read", "t"),
    ("acls", "remove"): ("ann", "--read", "t"),
    ("backup",): ("/tmp/no-such-backup",),
    ("restore",): ("/tmp/no-such-backup",),
    ("export",): (),
    ("tables", "run"): (),
    ("tables", "list"): (),
    ("tables", "describe"): ("t",),
    ("tables", "backfill"): ("t", "--yes"),
    ("tables", "expire"): ("t",),
    ("tables", "compact"): ("t",),
    ("tables", "drop"): ("t", "--yes"),
}


# These commands run their own server, or contact none.
NO_CLIENTS = {
    "install",
    "start",
    "certs",
    "completion",
    "config",
    "connect",
    "console",
    "demo",
    "exporter",
    "fake",
    "keys",
    "mcp",
    "mirror",
    "pipeline",
    "registry",
    "rest",
    "schema",
    "zookeeper",
}


def test_every_client_command_is_covered_here():
    # `ottla sql` is a command itself, with a subcommand that runs a server. `ottla apply` reads its file first.
    clients = {command for command in every_command() if command[0] not in NO_CLIENTS}
    clients -= {("sql", "server"), ("apply",)}
    assert clients | {("sql",)} == set(CLIENT_COMMANDS)


@pytest.mark.parametrize("command", list(every_command()), ids=" ".join)
def test_help_has_a_description(command):
    context = click.Context(cli)
    found = cli
    for name in command:
        found = found.get_command(context, name)
    text = found.get_help(click.Context(found))
    assert found.help
    assert "Usage:" in text
    if len(command) == 1 and command != ("completion",):
        assert "Examples:" in text


@pytest.mark.parametrize("command", list(CLIENT_COMMANDS), ids=" ".join)
def test_an_unreachable_broker_is_said_in_one_sentence_and_soon(alone, command):
    started = time.monotonic()
    failed = alone(*command, *CLIENT_COMMANDS[command], check=False)
    assert time.monotonic() - started < 10
    assert failed.code == 1
    assert failed.err == (
        "Error: Cannot reach a broker at 127.0.0.1:1: is it running? Start one with `ottla start`.\n"
    )
    assert failed.out == b""


def test_an_unknown_host_is_said(alone):
    failed = alone("topics", "list", "-b", "no-such-host.invalid", check=False)
    assert (
        failed.err
        == "Error: Cannot reach a broker at no-such-host.invalid:9092: the host name does not exist.\n"
    )


def test_something_that_does_not_speak_kafka_is_given_up_on(alone):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        failed = alone("topics", "list", "-b", address, "--timeout", 2, check=False)
    assert failed.code == 1
    assert failed.err.startswith(f"Error: Cannot reach a broker at {address}")


def test_version(alone):
    assert alone("--version").text == f"ottla, version {__version__}\n"


def test_a_command_that_is_nearly_right(alone):
    wrong = alone("topcs", "list", check=False)
    assert wrong.code == 2
    assert "There is no command 'topcs'. Did you mean 'topics'?" in wrong.err


def test_a_bad_properties_file_is_one_sentence(alone, tmp_path):
    missing = alone("topics", "list", "--command-config", tmp_path / "missing", check=False)
    assert missing.code == 1
    assert "No such file or directory" in missing.err
    wrong = tmp_path / "client.properties"
    wrong.write_text("security.protocol=CARRIER_PIGEON\n")
    refused = alone("topics", "list", "--command-config", wrong, check=False)
    assert refused.code == 1
    assert refused.err.startswith("Error: The client configuration is not valid: ")
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize("module", ["confluent_kafka", "rich", "uvloop", "asyncio", "ottla.broker"])
def test_help_loads_nothing_heavy(module):
    program = (
        "import sys, contextlib, io\n"
        "from ottla.cli.main import run\n"
        "with contextlib.redirect_stdout(io.StringIO()): run(['--help'])\n"
        f"sys.exit({module!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.mark.parametrize("args", [["--help"], ["topics", "--help"], ["consume", "--help"]])
def test_help_starts_in_under_half_a_second_of_work(args):
    before = os.times()
    subprocess.run([sys.executable, "-m", "ottla.cli", *args], check=True, capture_output=True, timeout=60)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 0.5


def test_pipes_get_no_colours(ottla, topic):
    assert b"\x1b" not in ottla("topics", "describe", topic).out


@pytest.mark.parametrize("tool", KAFKA_TOOLS)
def test_kafkas_tools_are_commands_too(alone, tool):
    assert alone(tool, "--help").text.startswith(f"usage: kafka-{tool}")
    assert alone(tool, "--no-such-option", check=False).code == 1


def test_a_tool_of_kafka_works_as_a_command(ottla, bootstrap, topic):
    offsets = ottla("get-offsets", "--bootstrap-server", bootstrap, "--topic", topic)
    assert offsets.lines == [f"{topic}:{partition}:0" for partition in range(3)]


@pytest.mark.parametrize("what", [("topics", "describe"), ("groups", "describe")], ids=" ".join)
def test_it_is_watched_until_ctrl_c(ottla, topic, group, what):
    ottla("groups", "reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    name = topic if what[0] == "topics" else group
    process = ottla.start(*what, name, "--watch")
    try:
        seen = b""
        while seen.count(b"PARTITION") < 2:  # the second refresh
            line = process.stdout.readline()
            assert line, process.stderr.read()
            seen += line
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
    assert b"Traceback" not in seen


@pytest.mark.parametrize(
    "command", [("start", "--brokers", 2), ("zookeeper", "start")], ids=lambda words: words[0]
)
def test_a_directory_that_cannot_be_made_is_one_sentence(alone, command):
    failed = alone(*command, "--data", "/proc/none", "--listen", "127.0.0.1:0", check=False)
    assert (failed.code, failed.err) == (
        1,
        "Error: /proc/none cannot be used for its data: No such file or directory.\n",
    )


def test_zookeeper_does_not_take_another_server_for_its_own(alone, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        failed = alone("zookeeper", "start", "--data", tmp_path, "--listen", where, check=False)
    assert failed.code == 1
    assert failed.err.endswith(
        "is taken by another program: stop it, or listen elsewhere with --listen HOST:PORT.\n"
    )


def test_a_number_of_partitions_that_fits_nowhere_is_refused(alone):
    failed = alone("topics", "create", "t", "--partitions", 1 << 31, check=False)
    assert failed.code == 2
    assert "2147483648 is not in the range" in failed.err
