"""The tools around ZooKeeper, run as processes against a real one."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time

import pytest
from kazoo.client import KazooClient

from ottla.jvm.zookeeper import four_letter_word
from ottla.testing import ZooKeeper
from ottla.testing.ports import free_ports
from tests.installed import kafka_tool
from tests.ports import ports_in_a_row

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def zookeeper():
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    with ZooKeeper() as server:
        yield server


def shell(zookeeper, *words, code=0, stdin=None):
    command = [kafka_tool("zookeeper-shell"), zookeeper.connect, *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, input=stdin)
    assert ended.returncode == code, ended.stderr
    return ended.stdout.splitlines()


def test_the_shell_shows_and_changes_nodes(zookeeper):
    assert shell(zookeeper, "create", "/shell", "one")[-1] == "Created /shell"
    assert shell(zookeeper, "get", "/shell") == [
        f"Connecting to {zookeeper.connect}",
        "",
        "WATCHER::",
        "",
        "WatchedEvent state:SyncConnected type:None path:null",
        "one",
    ]
    shell(zookeeper, "set", "/shell", "two")
    said = shell(zookeeper, "get", "-s", "/shell")
    assert "two" in said
    assert "dataVersion = 1" in said
    assert shell(zookeeper, "ls", "/")[-1] == "[shell, zookeeper]"
    assert shell(zookeeper, "ls", "/none", code=1)[-1] == "Node does not exist: /none"
    shell(zookeeper, "deleteall", "/shell")
    assert shell(zookeeper, "ls", "/")[-1] == "[zookeeper]"


def test_the_shell_reads_commands_from_its_input(zookeeper):
    said = shell(zookeeper, stdin="create /from-input x\nget /from-input\ndelete /from-input\nls /\nquit\n")
    assert said[-3:] == ["Created /from-input", "x", "[zookeeper]"]


@pytest.fixture(scope="module")
def where(zookeeper, kafka_broker):
    """Where the broker is registered."""
    client = KazooClient(zookeeper.connect)
    client.start()
    try:
        registration = {"endpoints": [f"PLAINTEXT://{kafka_broker.bootstrap_servers}"], "version": 5}
        client.create("/here/brokers/ids/0", json.dumps(registration).encode(), makepath=True)
        yield f"{zookeeper.connect}/here"
        client.delete("/here", recursive=True)
    finally:
        client.stop()
        client.close()


def test_tools_find_the_brokers_through_zookeeper(zookeeper, where, alone):
    created = alone("topics", "--zookeeper", where, "--create", "--topic", "through-zookeeper")
    assert created.out == "Created topic through-zookeeper.\n"
    assert "through-zookeeper" in alone("topics", "--zookeeper", where, "--list").out.split()
    failed = alone("topics", "--zookeeper", zookeeper.connect, "--list", code=1)
    assert f"No broker is registered with ZooKeeper at {zookeeper.connect}" in failed.out


def test_with_zookeeper_settings_and_partitions_of_a_topic_are_altered_as_they_once_were(
    where, alone, unique
):
    name = unique("altered")
    topic = ("--zookeeper", where, "--topic", name)
    warning = [
        "WARNING: Altering topic configuration from this script has been deprecated and may be removed in future "
        "releases.",
        "         Going forward, please use kafka-configs.sh for this functionality",
        f"Updated config for topic {name}.",
    ]
    alone("topics", *topic, "--create")
    settings = ("--config", "retention.ms=3600000", "--config", "segment.bytes=2097152")
    assert alone("topics", *topic, "--alter", *settings).lines == warning
    described = alone("topics", *topic, "--describe").lines[0]
    assert "retention.ms=3600000" in described
    assert "segment.bytes=2097152" in described
    assert alone("topics", *topic, "--alter", "--delete-config", "retention.ms").lines == warning
    described = alone("topics", *topic, "--describe").lines[0]
    assert "retention.ms" not in described
    assert "segment.bytes=2097152" in described
    assert alone("topics", *topic, "--alter", "--partitions", 5).lines == [
        "WARNING: If partitions are increased for a topic that has a key, the partition logic or ordering of the "
        "messages will be affected",
        "Adding partitions succeeded!",
    ]
    failed = alone("topics", *topic, "--alter", "--config", "no.such=1", code=1)
    assert failed.lines[-1] == "Error while executing topic command : Unknown topic config name: no.such"
    assert alone("topics", *topic, "--delete").lines == [
        f"Topic {name} is marked for deletion.",
        "Note: This will have no impact if delete.topic.enable is not set to true.",
    ]


def test_a_server_is_started_and_stopped_by_its_tools(tmp_path):
    [port] = free_ports(1)
    properties = tmp_path / "zookeeper.properties"
    properties.write_text(f"dataDir={tmp_path}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
    start = [kafka_tool("zookeeper-server-start"), str(properties)]
    server = subprocess.Popen(start, stderr=subprocess.PIPE)
    try:
        _wait_for(port)
        assert four_letter_word("127.0.0.1", port, "ruok") == "imok"
        for word in ("srvr", "mntr", "conf", "cons"):
            assert "not executed" not in str(four_letter_word("127.0.0.1", port, word))
        # By its file, however that is spelled: others' servers are left alone.
        stop = [kafka_tool("zookeeper-server-stop"), properties.name]
        subprocess.run(stop, check=True, timeout=30, cwd=tmp_path)
        server.communicate(timeout=20)
        again = subprocess.run(stop, capture_output=True, text=True, timeout=30, cwd=tmp_path)
        assert (again.returncode, again.stderr) == (1, "No zookeeper server to stop\n")
    finally:
        server.kill()
        server.communicate(timeout=20)


def test_an_ensemble_is_one_command(tmp_path):
    port = ports_in_a_row(3)
    command = [sys.executable, "-m", "ottla", "zookeeper", "start", "--servers", "3"]
    command += ["--listen", f"127.0.0.1:{port}", "--data", str(tmp_path)]
    ensemble = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert ensemble.stdout is not None
        ready = ensemble.stdout.readline()
        assert ready.startswith(f"ZooKeeper is ready at 127.0.0.1:{port},127.0.0.1:{port + 1},")
        modes = [str(four_letter_word("127.0.0.1", port + n, "srvr")) for n in range(3)]
        assert sorted("leader" if "Mode: leader" in mode else "follower" for mode in modes) == [
            "follower",
            "follower",
            "leader",
        ]
    finally:
        ensemble.send_signal(signal.SIGINT)
        said, _ = ensemble.communicate(timeout=40)
    assert said.endswith("Stopped cleanly.\n")
    assert ensemble.returncode == 0
    assert four_letter_word("127.0.0.1", port, "ruok") is None


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while four_letter_word("127.0.0.1", port, "ruok") != "imok":
        assert time.monotonic() < deadline, "the server did not start"
        with contextlib.suppress(OSError):
            time.sleep(0.05)
