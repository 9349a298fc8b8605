"""The ZooKeeper tools, run as processes against a real ZooKeeper."""

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


GREETING = ["", "WATCHER::", "", "WatchedEvent state:SyncConnected type:None path:null"]


def event(kind, path):
    return ["", "WATCHER::", "", f"WatchedEvent state:SyncConnected type:{kind} path:{path}"]


def shell(zookeeper, *words, code=0, stdin=None):
    """Return the output after the greeting, stdout first."""
    command = [kafka_tool("zookeeper-shell"), zookeeper.connect, *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, input=stdin)
    assert ended.returncode == code, ended.stderr
    printed = ended.stdout.splitlines()
    begin = printed.index(GREETING[-1]) + 1
    assert printed[:begin] == [
        f"Connecting to {zookeeper.connect}",
        *([] if words else ["Welcome to ZooKeeper!"]),
        *GREETING,
    ]
    return [*printed[begin:], *ended.stderr.splitlines()]


def session(zookeeper, text):
    """Type the commands of a session one after another and return all output in between."""
    command = [kafka_tool("zkCli.sh"), "-server", zookeeper.connect]
    ended = subprocess.run(
        command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30
    )
    assert ended.returncode == 0, ended.stdout
    printed = ended.stdout.splitlines()
    return printed[printed.index(GREETING[-1]) + 1 :]


def test_the_shell_shows_and_changes_nodes(zookeeper):
    assert shell(zookeeper, "create", "/shell", "one") == ["Created /shell"]
    assert shell(zookeeper, "get", "/shell") == ["one"]
    shell(zookeeper, "set", "/shell", "two")
    said = shell(zookeeper, "get", "-s", "/shell")
    assert "two" in said
    assert "dataVersion = 1" in said
    assert "shell" in shell(zookeeper, "ls", "/")[-1][1:-1].split(", ")
    shell(zookeeper, "deleteall", "/shell")
    assert "shell" not in shell(zookeeper, "ls", "/")[-1][1:-1].split(", ")


def test_the_shell_says_what_it_cannot_do(zookeeper):
    assert shell(zookeeper, "rmr", "/none", code=1) == ["Node does not exist: /none"]
    refused = {
        "ls /none": "Node does not exist: /none",
        "deleteall /none": "Node does not exist: /none",
        "delete /zookeeper/": "Path must not end with / character",
        "get none": "Path must start with / character",
        "get": "get [-s] [-w] [-b] path",
        "ls -x /": "Unrecognized option: -x",
        "getAcl /none": "Node does not exist: /none",
        "set -v x / y": "set [-s] [-v version] path data",
        "addauth nobody x": "KeeperErrorCode = AuthFailed",
    }
    assert session(zookeeper, "\n".join(refused)) == list(refused.values())
    assert session(zookeeper, "none\nquit\n")[-1] == "Command not found: Command not found none"


def test_the_shell_reads_commands_from_its_input(zookeeper):
    said = session(
        zookeeper, "create /from-input x\nget /from-input\ndelete /from-input\nls /zookeeper\nquit\n"
    )
    assert said == ["Created /from-input", "x", "[config, quota]"]


def test_the_shell_has_a_history(zookeeper):
    said = session(zookeeper, "create /past x\nget /past\nrmr /past\nhistory\nredo 0\nredo 9\nrmr /past\n")
    assert said == [
        "Created /past", "x", "0 - create /past x", "1 - get /past", "2 - rmr /past", "3 - history",
        "Created /past", "Command index out of range",
    ]  # fmt: skip


def test_a_watch_prints_one_event(zookeeper):
    said = session(
        zookeeper,
        "create /watched one\nget -w /watched\nset /watched two\nset /watched three\n"
        "ls -w /watched\ncreate /watched/child x\nls /watched true\ndelete /watched/child\n"
        "stat -w /watched\nprintwatches off\ndelete /watched\nprintwatches\n",
    )
    state = [line for line in said if " = " in line]
    # A watch event may appear before or after the response to its command, because two threads print them.
    assert sorted(line for line in said if line not in state) == sorted(
        [
            "Created /watched",
            "one",
            *event("NodeDataChanged", "/watched"),
            "[]",
            *event("NodeChildrenChanged", "/watched"),
            "Created /watched/child",
            "'ls path [watch]' has been deprecated. Please use 'ls [-w] path' instead.",
            "[child]",
            *event("NodeChildrenChanged", "/watched"),
            "printwatches is off",
        ]
    )
    assert len(state) == 11


def test_a_watch_sees_what_others_do(zookeeper):
    shell(zookeeper, "create", "/seen", "one")
    command = [kafka_tool("zookeeper-shell"), f"{zookeeper.connect}/seen"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdin is not None
        assert watching.stdout is not None
        watching.stdin.write("get -w /\n")
        watching.stdin.flush()
        printed = iter(line.rstrip("\n") for line in watching.stdout)
        assert "one" in printed  # read up to that word
        shell(zookeeper, "set", "/seen", "two")
        assert [next(printed) for _ in range(4)] == event("NodeDataChanged", "/")
        watching.stdin.close()
    assert watching.returncode == 0
    shell(zookeeper, "delete", "/seen")


def test_who_may_do_what_is_shown_and_changed(zookeeper):
    said = session(
        zookeeper,
        "create /mine secret world:anyone:ra\ngetAcl /mine\nset /mine changed\n"
        "addauth digest user:pass\nsetAcl /mine auth:user:pass:cdrwa\ngetAcl /mine\nset /mine changed\n"
        "setAcl /mine nobody:x:r\nsetAcl -v 7 /mine world:anyone:r\nquit\n",
    )
    assert said == [
        "Created /mine",
        "'world,'anyone",
        ": ra",
        "Insufficient permission : /mine",
        "'digest,'user:smGaoVKd/cQkjm7b88GyorAUz20=",
        ": cdrwa",
        "Acl is not valid : /mine",
        "version No is not valid : /mine",
    ]
    assert shell(zookeeper, "get", "/mine", code=1) == ["Insufficient permission : /mine"]
    assert session(zookeeper, "addauth digest user:pass\nget /mine\ndelete /mine\n") == ["changed"]


@pytest.fixture(scope="module")
def where(zookeeper, kafka_broker):
    """Return the znode of the broker's registration."""
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
    for elsewhere in (zookeeper.connect, f"{zookeeper.connect}/nowhere"):
        failed = alone("topics", "--zookeeper", elsewhere, "--list", code=1)
        assert failed.out.startswith(
            "Error while executing topic command : No broker is registered with ZooKeeper"
        )
        assert failed.err == ""
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
        # The tool finds the server by its file, in any spelling, and leaves other servers alone.
        stop = [kafka_tool("zookeeper-server-stop"), properties.name]
        subprocess.run(stop, check=True, timeout=30, cwd=tmp_path)
        server.communicate(timeout=20)
        again = subprocess.run(stop, capture_output=True, text=True, timeout=30, cwd=tmp_path)
        assert (again.returncode, again.stderr) == (1, "No zookeeper server to stop\n")
    finally:
        server.kill()
        server.communicate(timeout=20)


def test_a_server_is_started_asked_and_stopped_as_zookeepers_own_script_does(tmp_path):
    [port] = free_ports(1)
    (tmp_path / "conf").mkdir()
    settings = f"dataDir={tmp_path}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
    (tmp_path / "conf" / "zoo.cfg").write_text(settings)

    def zk_server(*words, code=0):
        command = [kafka_tool("zkServer.sh"), *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=90, cwd=tmp_path)
        assert ended.returncode == code, ended
        assert ended.stderr.startswith("Using config: conf/zoo.cfg\n")
        return ended.stdout

    here = f"Client port found: {port}. Client address: 127.0.0.1. Client SSL: false.\n"
    try:
        assert zk_server("status", code=1) == here + "Error contacting service. It is probably not running.\n"
        assert zk_server("start") == "Starting zookeeper ... STARTED\n"
        _wait_for(port)
        assert zk_server("status", "zoo.cfg") == here + "Mode: standalone\n"
        assert zk_server("start", "conf/zoo.cfg", code=1) == "Starting zookeeper ... "
        restarted = "Stopping zookeeper ... STOPPED\nStarting zookeeper ... STARTED\n"
        assert zk_server("restart") == restarted
    finally:
        assert zk_server("stop") == "Stopping zookeeper ... STOPPED\n"
    nothing = "Stopping zookeeper ... no zookeeper to stop (none runs with conf/zoo.cfg)\n"
    assert zk_server("stop") == nothing


@pytest.mark.parametrize(
    ("file", "where"),
    [
        ("zookeeper-3.4.6/conf/zoo.cfg", "."),
        ("zookeeper-3.4.6/conf/zoo.cfg", "zookeeper-3.4.6"),
        ("zookeeper-3.4.6/conf/zoo.cfg", "zookeeper-3.4.6/bin"),
        ("apache-zookeeper-3.9.3-bin/conf/zoo.cfg", "."),
        (None, "."),
    ],
)
def test_the_settings_of_an_unpacked_archive_are_found(tmp_path, file, where):
    (tmp_path / where).mkdir(parents=True, exist_ok=True)
    [port] = free_ports(1)
    if file is not None:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(f"dataDir={tmp_path}\nclientPort={port}\n")
    status = [kafka_tool("zkServer.sh"), "status"]
    said = subprocess.run(status, capture_output=True, text=True, timeout=90, cwd=tmp_path / where)
    assert f"Client port found: {2181 if file is None else port}." in said.stdout
    used = "config/zookeeper.properties" if file is None else "conf/zoo.cfg"
    assert said.stderr.strip().endswith(used)


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
    # ZooKeeper answers "imok" before it serves clients.
    while "Mode:" not in (four_letter_word("127.0.0.1", port, "srvr") or ""):
        assert time.monotonic() < deadline, "the server did not start"
        with contextlib.suppress(OSError):
            time.sleep(0.05)
