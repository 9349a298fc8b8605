"""Promise: the plain install is a broker, the tools and the testing kit, without a JVM, Spark or numba."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing.ports import ReservedPorts

ROOT = Path(__file__).parents[2]
MOST_MEGABYTES = 120

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KIT = """
from ottla.testing import Broker
with Broker(config={"log.cleaner.backoff.ms": "100"}) as broker:
    broker.create_topic("t", config={"cleanup.policy": "compact"})
    broker.produce("t", b"value", key=b"key")
    assert [record.value for record in broker.records("t")] == [b"value"]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("plain")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", folder, ROOT], check=True, cwd=folder)
    [wheel] = folder.glob("ottla-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "-q", wheel], check=True, cwd=folder)
    return python.parent


def run(*command: object, cwd: Path) -> str:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "OTTLA"))}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=clean, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def test_it_is_small(installed: Path) -> None:
    [packages] = (installed.parent / "lib").glob("python3*/site-packages")
    size = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())
    assert size < MOST_MEGABYTES * 1_000_000
    assert not list(packages.glob("numba"))
    assert not list(packages.glob("pyspark"))


def test_pages_of_the_console_are_part_of_it(installed: Path) -> None:
    [packages] = (installed.parent / "lib").glob("python3*/site-packages")
    console = packages / "ottla" / "console"
    assert (console / "templates" / "layout.html").is_file()
    assert (console / "templates" / "topics" / "topics.html").is_file()
    assert (console / "static" / "console.js").is_file()


def test_the_testing_kit_works(installed: Path, tmp_path: Path) -> None:
    run(installed / "python", "-c", KIT, cwd=tmp_path)


def test_a_broker_starts_and_the_tools_reach_it(installed: Path, tmp_path: Path) -> None:
    ports = ReservedPorts(1)
    address = f"127.0.0.1:{ports.numbers[0]}"
    server = subprocess.Popen(
        [installed / "ottla", "start", "--listen", address, "--data", tmp_path / "data"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline(), "it says where it listens"
        tool = [installed / "kafka-topics", "--bootstrap-server", address]
        assert run(*tool, "--create", "--topic", "orders", cwd=tmp_path) == "Created topic orders.\n"
        assert run(*tool, "--list", cwd=tmp_path) == "orders\n"
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.communicate()
