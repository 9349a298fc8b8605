"""kafka-server-start and kafka-server-stop, with a typical server.properties."""

import re
import socket
import time
from pathlib import Path

import pytest

from ottla.testing.ports import ReservedPorts

CONFIG = Path(__file__).parents[3] / "config"


@pytest.fixture
def properties(tmp_path):
    file = tmp_path / "server.properties"
    text = (CONFIG / "server.properties").read_text()
    file.write_text(text.replace("\nzookeeper.connect=localhost:2181\n", "\n"))
    return file


def test_a_broker_in_the_background(alone, properties, tmp_path):
    reserved = ReservedPorts(1)
    [port] = reserved.numbers
    overrides = [
        f"listeners=PLAINTEXT://127.0.0.1:{port}",
        f"log.dirs={tmp_path / 'data'}",
        "num.partitions=2",
    ]
    options = [part for override in overrides for part in ("--override", override)]
    alone("server-start", "-daemon", properties, *options, cwd=tmp_path, installed=True)
    try:
        log = tmp_path / "logs" / "kafkaServer.out"
        _wait_until(lambda: "[KafkaServer id=0] started (kafka.server.KafkaServer)" in log.read_text())
        server = ("--bootstrap-server", f"127.0.0.1:{port}")
        alone("topics", *server, "--create", "--topic", "t")
        assert "PartitionCount: 2" in alone("topics", *server, "--describe", "--topic", "t").out
    finally:
        alone("server-stop", properties)
    _wait_until(lambda: alone("server-stop", properties, code=None).err == "No kafka server to stop\n")
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    lines = log.read_text().splitlines()
    assert all(
        re.match(r"\[[\d :,-]{23}\] (INFO|WARN) \[[^]]*[= ]0\] .* \([\w.]+\)$", line) for line in lines
    )
    assert lines[-1].endswith(" INFO [KafkaServer id=0] shut down completed (kafka.server.KafkaServer)")


def test_a_broker_that_cannot_start_says_why(alone, properties, tmp_path):
    options = ("-daemon", properties, "--override", "listeners=bogus")
    failed = alone("server-start", *options, code=1, cwd=tmp_path, installed=True)
    assert failed.err.startswith("listeners: 'bogus' is not a listener")
    failed = alone("server-start", tmp_path / "missing.properties", code=1)
    assert failed.err.startswith("There is no file")
    failed = alone("server-start", "config/server.properties", code=1, cwd=tmp_path)
    assert failed.err.endswith("or write Kafka's classic files into ./config with `ottla config init`.\n")


def test_a_port_that_is_taken_can_be_changed_as_the_message_says(alone, properties, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ("--override", f"listeners=PLAINTEXT://127.0.0.1:{port}")
        options += ("--override", f"log.dirs={tmp_path / 'data'}")
        failed = alone("server-start", properties, *options, code=1)
    assert failed.err == (
        f"Port {port} on 127.0.0.1 is taken by another program: stop it, or listen elsewhere with --override "
        f"listeners=PLAINTEXT://HOST:PORT, or set listeners in {properties}.\n"
    )


def _wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
