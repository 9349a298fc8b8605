"""Promise: on a full disk a task reports it in one sentence, loses nothing, and continues once space is free."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.settings import Settings, parse_servers
from ottla.connect.runtime.tasks import waiting
from ottla.connect.worker.java_maps import decode_map
from ottla.testing import Broker
from tests.broker_process import BrokerProcess
from tests.connect.chaos.small_disk import small_disk
from tests.connect.chaos.worker_processes import WorkerProcess
from tests.connect.runtime.conftest import committed_records
from tests.connect.worker.workers import (
    SINK,
    SOURCE,
    Worker,
    call,
    distributed_properties,
    standalone_properties,
    wait_for,
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_PATIENCE", 0.2)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def trace(worker: Worker, name: str) -> str:
    """Return the trace of the first task, which keeps running."""
    answer = worker.call("GET", f"/connectors/{name}/status")
    if answer.status != 200 or not answer.body["tasks"]:
        return ""
    [task] = answer.body["tasks"]
    assert task["state"] == "RUNNING", task
    return str(task.get("trace", ""))


def append(file: Path, lines: list[str]) -> None:
    with file.open("a") as more:
        more.writelines(f"{line}\n" for line in lines)


def test_a_file_sink_waits_for_room(broker: Broker, tmp_path: Path) -> None:
    expected = [f"line {number} {'x' * 500}" for number in range(400)]
    broker.create_topic("wide")
    for line in expected:
        broker.produce("wide", line.encode())
    with (
        small_disk(tmp_path / "disk", "64k") as disk,
        Worker(distributed_properties(broker.bootstrap_servers)) as worker,
    ):
        copy = disk.path / "copy"
        config = {
            "connector.class": SINK,
            "topics": "wide",
            "file": str(copy),
            "errors.retry.delay.max.ms": "300",
        }
        wait_for(lambda: worker.call("PUT", "/connectors/copy/config", config).status == 201)
        sentence = wait_for(lambda: trace(worker, "copy"), "it does not say why it waits")
        assert sentence == (
            f"The file {copy} cannot be written: No space left on device. The task tries again until it succeeds."
        )
        written = copy.read_text().splitlines(keepends=True)
        assert written == [f"{line}\n" for line in expected[: len(written)]]
        disk.resize("1m")
        wait_for(lambda: copy.read_text().splitlines() == expected, "lines are missing")
        wait_for(lambda: trace(worker, "copy") == "", "it still says that it waits")


def test_the_offsets_of_a_standalone_worker_wait_for_room(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = tmp_path / "lines"
    append(lines, ["a", "b"])
    key = json.dumps(["one", {"filename": str(lines)}], separators=(",", ":")).encode()
    connector = {"name": "one", "connector.class": SOURCE, "file": str(lines), "topic": "one"}

    def values() -> list[bytes]:
        return [bytes(each.value) for each in broker.records("one") if each.value is not None]

    with small_disk(tmp_path / "disk", "64k") as disk:
        file = disk.path / "offsets"
        given = standalone_properties(broker.bootstrap_servers, file)

        def stored() -> object:
            # The file exists, and is empty, before the first offsets are written.
            offset = decode_map(file.read_bytes()).get(key) if file.exists() else None
            return offset and json.loads(offset)["position"]

        with Worker(given, connectors=[connector]) as worker:
            wait_for(lambda: stored() == 4)
            disk.fill()
            append(lines, ["c"])
            wait_for(lambda: "Offsets cannot be written" in caplog.text)
            worker.wait_until("one", "RUNNING", ["RUNNING"])
        assert stored() == 4
        [said] = {each.getMessage() for each in caplog.records if "cannot be written" in each.getMessage()}
        assert f"{file}: No space left on device. They are kept in topic" in said
        # The file is stale and written by us, so it does not count.
        with Worker(given, connectors=[connector]):
            append(lines, ["d"])
            wait_for(lambda: values() == [b"a", b"b", b"c", b"d"])
            disk.free()
            wait_for(lambda: stored() == 8, "the file does not follow")
        assert values() == [b"a", b"b", b"c", b"d"]


@pytest.mark.slow
def test_a_source_waits_for_a_broker_whose_disk_is_full(tmp_path: Path) -> None:
    """Uses a standalone worker, because a distributed worker's topics are on the same disk."""
    lines = tmp_path / "lines"
    expected = ["a", "b"]
    append(lines, expected)
    connector = {"name": "one", "connector.class": SOURCE, "file": str(lines), "topic": "one"}
    small = ["offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1"]
    with small_disk(tmp_path / "disk", "64m") as disk:
        options = [part for each in small for part in ("--set", each)]
        with BrokerProcess(disk.path / "data", options) as broker:
            client = Settings(parse_servers(broker.bootstrap_servers))

            def values() -> list[str]:
                return [(each.value or b"").decode() for each in committed_records(client, "one")]

            given = standalone_properties(broker.bootstrap_servers, tmp_path / "offsets")
            with Worker(given, connectors=[connector]) as worker:
                wait_for(lambda: values() == expected, "nothing came")
                disk.fill()
                for number in range(200):
                    expected.append(f"{number} {'x' * 1000}")
                append(lines, expected[2:])
                sentence = wait_for(lambda: trace(worker, "one"), "it does not say why it waits")
                assert "its broker cannot write to its disk, which may be full: make room there" in sentence
                assert "\n" not in sentence
                disk.free()
                wait_for(lambda: values() == expected, "lines are missing", 120)
                wait_for(lambda: trace(worker, "one") == "", "it still says that it waits")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tasks_run_and_start_though_the_local_directory_of_spark_is_full(
    broker: Broker, tmp_path: Path
) -> None:
    """Tasks keep nothing there."""
    lines = tmp_path / "lines"
    append(lines, ["a"])
    broker.create_topic("local")

    def values() -> list[bytes]:
        return [
            bytes(each.value) for each in broker.records("local") if each.value is not None and not each.key
        ]

    config = {"connector.class": SOURCE, "file": str(lines), "topic": "local"}
    with small_disk(tmp_path / "disk", "64m") as disk:
        given = {**distributed_properties(broker.bootstrap_servers), "spark.local.dir": str(disk.path)}
        worker = WorkerProcess(tmp_path, {**given, "spark.driver.memory": "512m"})
        try:
            worker.wait_until_ready()
            created = lambda: call(worker.url, "PUT", "/connectors/local/config", config).status  # noqa: E731
            wait_for(lambda: created() in (200, 201), "it cannot be created", 120)
            wait_for(lambda: values() == [b"a"], "nothing came", 120)
            disk.fill()
            assert call(worker.url, "POST", "/connectors/local/restart?includeTasks=true").status == 202
            append(lines, ["b"])
            wait_for(lambda: values() == [b"a", b"b"], "it did not start again", 120)
        finally:
            worker.terminate()
