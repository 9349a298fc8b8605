"""Promise: Connect workers of Apache Kafka and Ottla take over from each other without loss or repetition."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.measuring.wire import free_port
from bench.peers.apache_kafka import ApacheKafka, Unavailable, application_classpath, java
from ottla.connect.worker.java_maps import decode_map
from ottla.python_process import start_child
from ottla.testing import Broker
from tests.connect.worker.workers import (
    SINK,
    SOURCE,
    Worker,
    call,
    distributed_properties,
    standalone_properties,
    wait_for,
)
from tests.peers.connect.kafka_connect import KafkaConnect

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def kafka() -> None:
    try:
        application_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def committed(broker: Broker, topic: str) -> list[str]:
    """Return the records without transaction markers; no transaction is aborted here."""
    return [bytes(each.value).decode() for each in broker.records(topic) if each.value and not each.key]


def append(file: Path, *lines: str) -> None:
    with file.open("a") as more:
        more.writelines(f"{line}\n" for line in lines)


def test_distributed_workers_follow_each_other(broker: Broker, tmp_path: Path) -> None:
    given = distributed_properties(broker.bootstrap_servers, "both-kinds")
    given |= {"scheduled.rebalance.max.delay.ms": "0", "consumer.auto.offset.reset": "earliest"}
    kafkas = {name: value for name, value in given.items() if name != "listeners"}
    lines, copy = tmp_path / "lines", tmp_path / "copy"
    lines.touch()
    copy.touch()
    broker.create_topic("handed")
    source = {
        "name": "source",
        "connector.class": SOURCE,
        "file": str(lines),
        "topic": "handed",
        "tasks.max": "1",
    }
    sink = {"name": "sink", "connector.class": SINK, "file": str(copy), "topics": "handed", "tasks.max": "1"}
    said: list[str] = []

    def go_on(*more: str) -> None:
        said.extend(more)
        append(lines, *more)
        wait_for(lambda: copy.read_text().splitlines() == said, f"{said} are not copied")
        assert [each for each in committed(broker, "handed") if each] == said

    with KafkaConnect(tmp_path, kafkas) as worker:
        worker.put(source)
        worker.put(sink)
        go_on("kafka 1", "kafka 2")
    with Worker(given) as ours:
        for name in ("source", "sink"):
            ours.wait_until(name, "RUNNING", ["RUNNING"])
        assert ours.call("GET", "/connectors/source/config").body == source
        go_on("ottla 1", "ottla 2")
        paused = {**source, "name": "other", "topic": "elsewhere"}
        body = {"name": "other", "config": paused, "initial_state": "STOPPED"}
        assert ours.call("POST", "/connectors", body).status == 201
        ours.wait_until("other", "STOPPED", [])
    with KafkaConnect(tmp_path, kafkas) as worker:

        def states() -> dict[str, str]:
            found = worker.ask("GET", "/connectors?expand=status")
            return {
                name: each["status"]["connector"]["state"] for name, each in found.items() if "status" in each
            }

        expected = {"source": "RUNNING", "sink": "RUNNING", "other": "STOPPED"}
        wait_for(lambda: states() == expected, str(states()))
        go_on("kafka 3", "kafka 4")
        worker.ask("DELETE", "/connectors/other")
    with Worker(given) as ours:
        ours.wait_until("source", "RUNNING", ["RUNNING"])
        assert sorted(ours.call("GET", "/connectors").body) == ["sink", "source"]
        go_on("ottla 3")


def test_standalone_workers_follow_each_other(broker: Broker, tmp_path: Path) -> None:
    lines, offsets = tmp_path / "lines", tmp_path / "offsets"
    lines.touch()
    broker.create_topic("alone")
    config = {
        "name": "alone",
        "connector.class": SOURCE,
        "file": str(lines),
        "topic": "alone",
        "tasks.max": "1",
    }
    given = standalone_properties(broker.bootstrap_servers, offsets)
    position = 0

    def go_on(line: str) -> None:
        nonlocal position
        append(lines, line)
        position += len(line) + 1
        key = json.dumps(["alone", {"filename": str(lines)}], separators=(",", ":")).encode()
        expected = {key: b'{"position":%d}' % position}
        wait_for(lambda: offsets.exists() and _read(offsets) == expected, f"{position} is not committed")

    with Worker(given, connectors=[config]):
        go_on("ottla 1")
    with _KafkasStandalone(tmp_path, given, config):
        go_on("kafka 1")
    with Worker(given, connectors=[config]):
        go_on("ottla 2")
    assert committed(broker, "alone") == ["ottla 1", "kafka 1", "ottla 2"]


def _read(file: Path) -> object:
    try:
        return decode_map(file.read_bytes())
    except ValueError:  # the file is being written
        return None


class _KafkasStandalone:
    def __init__(self, directory: Path, settings: dict[str, str], config: dict[str, str]) -> None:
        self._url = f"http://127.0.0.1:{free_port()}"
        files = {"worker": {**settings, "listeners": self._url}, "connector": config}
        for name, values in files.items():
            (directory / f"{name}.properties").write_text("".join(f"{k}={v}\n" for k, v in values.items()))
        self._command = [java(), "-Xmx512m", "-cp", application_classpath()]
        self._command += ["org.apache.kafka.connect.cli.ConnectStandalone"]
        self._command += [str(directory / f"{name}.properties") for name in files]
        self._log = directory / "standalone.log"

    def __enter__(self) -> None:
        with self._log.open("ab") as log:
            self._process: subprocess.Popen[bytes] = start_child(self._command, log)
        deadline = time.monotonic() + 120
        while True:
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, "Kafka's worker did not start"
            try:
                if call(self._url, "GET", "/connectors").status == 200:
                    return
            except (OSError, ValueError):
                time.sleep(0.2)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)


def test_our_workers_share_connectors_on_apache_kafka(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    append(lines, "a", "b")
    with ApacheKafka(data=tmp_path / "kafka") as kafka:
        given = distributed_properties(kafka.bootstrap_servers, "ours")
        given |= {"scheduled.rebalance.max.delay.ms": "0", "session.timeout.ms": "6000"}
        with Worker(given) as first, Worker(given) as second:
            for number, worker in enumerate((first, second)):
                config = {
                    "connector.class": SOURCE,
                    "file": str(lines),
                    "topic": f"t{number}",
                    "tasks.max": "1",
                }
                wait_for(
                    lambda worker=worker, number=number, config=config: (  # type: ignore[misc]
                        worker.call("PUT", f"/connectors/c{number}/config", config).status in (200, 201)
                    )
                )

            def workers() -> set[str]:
                found = first.call("GET", "/connectors?expand=status").body
                return {
                    each["status"]["connector"]["worker_id"]
                    for each in found.values()
                    if [task["state"] for task in each["status"]["tasks"]] == ["RUNNING"]
                }

            wait_for(lambda: len(workers()) == 2, "they do not share")
            for name in ("c0", "c1"):
                wait_for(lambda name=name: second.call("GET", f"/connectors/{name}/offsets").body["offsets"])  # type: ignore[misc]
            first.stop()
            wait_for(lambda: len(_running_on(second)) == 2, "the other one does not take over")


def _running_on(worker: Worker) -> list[str]:
    host = worker.url.removeprefix("http://")
    found = worker.call("GET", "/connectors?expand=status").body
    return [
        name
        for name, each in found.items()
        if each["status"]["connector"]
        == {**each["status"]["connector"], "state": "RUNNING", "worker_id": host}
    ]


def test_workers_of_both_kinds_do_not_share_connectors(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = tmp_path / "lines"
    append(lines, "a")
    broker.create_topic("mixed")
    given = distributed_properties(broker.bootstrap_servers, "mixed")
    kafkas = {name: value for name, value in given.items() if name != "listeners"}
    config = {"name": "c", "connector.class": SOURCE, "file": str(lines), "topic": "mixed", "tasks.max": "1"}

    def has_said(words: str) -> bool:
        return any(words in record.getMessage() for record in caplog.records)

    with Worker(given) as ours:
        ours.wait_until_ready()
        assert ours.call("PUT", "/connectors/c/config", config).status == 201
        wait_for(lambda: committed(broker, "mixed") == ["a"])
        with KafkaConnect(tmp_path, kafkas) as worker:
            # Our worker leads: it keeps its connectors, and gives the other none.
            wait_for(lambda: has_said("has workers of Apache Kafka"), "it does not say so")
            append(lines, "b")
            wait_for(lambda: committed(broker, "mixed") == ["a", "b"])
            status = worker.status("c")
            assert f"http://{status['connector']['worker_id']}" == ours.url
            # Kafka's worker leads: ours no longer runs anything.
            ours.stop()
            wait_for(lambda: worker.status("c")["connector"]["state"] == "RUNNING")
            append(lines, "c")
            wait_for(lambda: committed(broker, "mixed") == ["a", "b", "c"])
            with Worker(given) as again:
                wait_for(lambda: has_said("is a worker of Apache Kafka"), "it does not say so")
                assert again.server is not None
                assert again.server.herder is not None
                assert not again.server.herder.connectors.names
