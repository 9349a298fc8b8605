"""Promise: Kafka's own tools need nothing beyond the Java files that `ottla start --secure` writes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.apache_kafka import Unavailable, kafka_jars, run_tool
from tests.peers.tools.kafka_tools import CLASSES, QUICK_JVM

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    directory = tmp_path_factory.mktemp("secure") / "data"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ottla.cli",
            "start",
            "--secure",
            "--listen",
            "127.0.0.1:0",
            "--data",
            directory,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert any("Ctrl-C stops" in line for line in process.stdout)
        yield directory
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def kafkas(data: Path, tool: str, *args: str, config: str = "client-java.properties") -> str:
    file = data / config
    servers = next(line for line in file.read_text().splitlines() if line.startswith("bootstrap.servers="))
    words = ["--bootstrap-server", servers.partition("=")[2], "--command-config", str(file), *args]
    done = run_tool(CLASSES[tool], words, check=False, timeout=60, jvm=QUICK_JVM)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kafkas_tools_administer_it(data: Path) -> None:
    assert "Created topic orders." in kafkas(data, "topics", "--create", "--topic", "orders")
    scram = (
        "--entity-type",
        "users",
        "--entity-name",
        "ann",
        "--add-config",
        "SCRAM-SHA-512=[password=pencil]",
    )
    assert "Completed updating config for user ann." in kafkas(data, "configs", "--alter", *scram)
    ann = ("--topic", "orders", "--allow-principal", "User:ann")
    assert "Adding ACLs" in kafkas(data, "acls", "--add", *ann, "--operation", "Describe")
    admins = (data / "client-java.properties").read_text()
    password = admins.partition('password="')[2].partition('"')[0]
    (data / "ann.properties").write_text(admins.replace("admin", "ann").replace(password, "pencil"))
    assert kafkas(data, "topics", "--list", config="ann.properties").split() == ["orders"]
    kafkas(data, "acls", "--remove", "--force", *ann, "--operation", "Describe")
    assert kafkas(data, "topics", "--list", config="ann.properties").split() == []
