"""`ottla start --brokers 3`: a cluster from one command, which one Ctrl-C shuts down in order."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.load import Load, read_all
from tests.ports import ports_in_a_row

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@contextlib.contextmanager
def started(port: int, data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command, with its output until it was ready."""
    command = [sys.executable, "-m", "ottla", "start", "--brokers", "3", "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        [*command, "--data", str(data), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        yield process, said
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_a_cluster_starts_serves_stops_and_is_there_again(tmp_path: Path) -> None:
    port = ports_in_a_row(3)
    servers = ",".join(f"127.0.0.1:{port + each}" for each in range(3))
    with started(port, tmp_path) as (process, said):
        assert said.startswith("Ottla is ready.\n")
        assert f"127.0.0.1:{port}, 127.0.0.1:{port + 1}, 127.0.0.1:{port + 2}" in said
        assert "ZooKeeper 127.0.0.1:" in said
        with Load(servers, "greetings") as load:
            load.wait_for(100)
        assert load.failed == []
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert (out.strip(), process.returncode) == ("Stopped cleanly.", 0)
    assert {"zookeeper", "broker-0", "broker-1", "broker-2"} <= {each.name for each in tmp_path.iterdir()}
    for broker in range(3):
        assert (tmp_path / f"broker-{broker}" / ".kafka_cleanshutdown").exists()
    with started(port, tmp_path):
        assert read_all(servers, "greetings")[: len(load.acknowledged)] == load.acknowledged


def test_a_port_that_is_taken_is_told_in_one_sentence_and_nothing_is_left(tmp_path: Path) -> None:
    port = ports_in_a_row(3)
    with socket.create_server(("127.0.0.1", port + 1)), started(port, tmp_path) as (process, said):
        process.wait(timeout=60)
        assert process.returncode == 1
        assert f"Broker 1 did not start: Port {port + 1} on 127.0.0.1 is taken by another program" in said
        assert "Traceback" not in said
