"""The driver's side: lost tasks run again, and tasks that lose their driver stop."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.connect.api import TopicPartition
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.assignment import by_range, subscription
from ottla.connect.runtime.engine import RunningConnector, State
from ottla.connect.runtime.spark.host import ThreadHost
from ottla.connect.runtime.spark.spark_session import spark_master
from ottla.connect.runtime.tasks.control import ControlServer, TaskControl
from ottla.connect.runtime.tasks.task_spec import ControlAddress, TaskSpec
from tests.connect.runtime.conftest import Worker, wait_for


class LosingHost(ThreadHost):
    """Loses the first runs, before or after their tasks have started."""

    def __init__(self, losses: int, *, after_start: bool) -> None:
        self.losses = losses
        self.after_start = after_start
        self.running: list[RunningConnector] = []

    def run(self, specs: Sequence[TaskSpec]) -> None:
        if self.losses <= 0:
            super().run(specs)
            return
        self.losses -= 1
        if self.after_start:
            controls = [TaskControl(each) for each in specs]
            for each in controls:
                each.report(state=State.RUNNING)
            wait_for(
                lambda: State.RUNNING in [task.state for each in self.running for task in each.status.tasks]
            )
            for each in controls:
                each.close()
        raise RuntimeError("[STREAM_FAILED] An executor was lost.")


def _config(path: Path, topic: str) -> dict[str, str]:
    path.write_text("a\n")
    return {"name": f"in-{topic}", "connector.class": "FileStreamSource", "file": str(path), "topic": topic}


def test_tasks_that_are_lost_run_again(
    new_worker: Callable[..., Worker],
    ottla_topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.connect.runtime.supervisor._BACKOFF_SECONDS", 0.01)
    host = LosingHost(7, after_start=True)
    worker = new_worker(host)
    host.running = worker.running
    running = worker.start(_config(tmp_path / "lines", ottla_topic))
    assert worker.await_values(ottla_topic, 1) == ["a"]
    worker.await_state(running, State.RUNNING, State.RUNNING)


def test_tasks_that_never_get_to_run_have_failed(
    new_worker: Callable[..., Worker],
    ottla_topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.connect.runtime.supervisor._BACKOFF_SECONDS", 0.01)
    worker = new_worker(LosingHost(5, after_start=False))
    running = worker.start(_config(tmp_path / "lines", ottla_topic))
    worker.await_state(running, State.RUNNING, State.FAILED)
    trace = running.status.tasks[0].trace or ""
    assert trace.partition("\n")[0] == (
        f"Spark cannot run the tasks of in-{ottla_topic}: An executor was lost."
    )
    running.restart()
    assert worker.await_values(ottla_topic, 1) == ["a"]


@pytest.fixture
def spec() -> TaskSpec:
    topics = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    worker = WorkerConfig.from_properties(
        {"group.id": "g", "key.converter": "S", "value.converter": "S", **topics}
    )
    return TaskSpec("c", 3, "run", {}, {}, worker, ControlAddress("", 0, ""))


def test_a_task_reports_and_is_asked_to_stop_also_if_it_comes_later(spec: TaskSpec) -> None:
    server = ControlServer("127.0.0.1")
    reports: list[tuple[int, dict[str, object]]] = []
    server.begin("run", lambda task, report: reports.append((task, report)))
    task = TaskControl(replace(spec, control=server.address))
    task.report(state="RUNNING")
    wait_for(lambda: reports == [(3, {"state": "RUNNING"})])
    assert not task.stopping.is_set()
    server.stop("run")
    assert task.stopping.wait(10)
    assert not task.lost
    late = TaskControl(replace(spec, control=server.address))
    assert late.stopping.wait(10)
    for each in (task, late):
        each.close()
    server.close()


def test_a_task_whose_driver_is_gone_stops(spec: TaskSpec) -> None:
    server = ControlServer("127.0.0.1")
    server.begin("run", lambda task, report: None)
    task = TaskControl(replace(spec, control=server.address))
    task.report(state="RUNNING")
    server.close()
    assert task.stopping.wait(10)
    wait_for(lambda: task.lost)
    task.close()


def test_who_does_not_know_the_secret_is_not_heard(spec: TaskSpec) -> None:
    server = ControlServer("127.0.0.1")
    heard = threading.Event()
    server.begin("run", lambda task, report: heard.set())
    stranger = TaskControl(replace(spec, control=replace(server.address, token="guess")))
    stranger.report(state="RUNNING")
    assert stranger.stopping.wait(10)  # the driver has closed the connection
    stranger.close()
    with socket.create_connection((server.address.host, server.address.port), 10) as other:
        other.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert other.recv(100) == b""
    assert not heard.is_set()
    server.close()


def test_partitions_are_divided_as_by_kafkas_range_assignor() -> None:
    partitions = [TopicPartition(topic, n) for topic, count in (("a", 5), ("b", 2)) for n in range(count)]
    assert [[*each] for each in by_range(partitions, 3)] == [
        [("a", 0), ("a", 1), ("b", 0)],
        [("a", 2), ("a", 3), ("b", 1)],
        [("a", 4)],
    ]


def test_a_sink_names_topics_or_a_pattern() -> None:
    assert subscription({"topics": "a, b"}) == (["a", "b"], None)
    names, pattern = subscription({"topics.regex": "a.*"})
    assert names == []
    assert pattern is not None
    for config in (
        {},
        {"topics": "a", "topics.regex": "b"},
        {"topics.regex": "("},
        {"topics.regex": "(?P<a>b)"},
    ):
        with pytest.raises(Exception, match=r"topics"):
            subscription(config)


def test_a_local_spark_has_slots_for_all_tasks() -> None:
    assert spark_master("local[*]") == spark_master("local") == "local[512]"
    assert spark_master("local[3]") == "local[3]"
    assert spark_master("spark://host:7077") == "spark://host:7077"


class OneCore(ThreadHost):
    """Runs one task, and the others when there is room. Loses a task when asked to, and starts it again later."""

    def __init__(self) -> None:
        self.room, self.lose = threading.Event(), threading.Event()

    def run(self, specs: Sequence[TaskSpec]) -> None:
        first = TaskControl(specs[0])
        first.report(state=State.RUNNING)
        self.lose.wait(60)
        first.close()
        self.room.wait(60)
        super().run(specs)

    def why_waiting(self) -> str:
        return "Spark has no free core for it."


def test_a_task_without_a_core_is_shown_as_waiting(
    new_worker: Callable[..., Worker],
    ottla_topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.connect.runtime.supervisor._START_SECONDS", 0.1)
    host = OneCore()
    worker = new_worker(host)
    config = {
        "name": f"in-{ottla_topic}",
        "connector.class": "Datagen",
        "quickstart": "users",
        "kafka.topic": ottla_topic,
        "tasks.max": "2",
    }
    running = worker.start(config)
    worker.await_state(running, State.RUNNING, State.RUNNING, State.UNASSIGNED)
    wait_for(lambda: running.status.tasks[1].trace)
    assert running.status.tasks[1].trace == "The task waits. Spark has no free core for it."
    assert running.status.tasks[0].trace is None
    host.lose.set()
    worker.await_state(running, State.RUNNING, State.UNASSIGNED, State.UNASSIGNED)
    wait_for(lambda: "The task waits." in (running.status.tasks[0].trace or ""))
    host.room.set()
    worker.await_state(running, State.RUNNING, State.RUNNING, State.RUNNING)
    assert {each.trace for each in running.status.tasks} == {None}


@pytest.mark.parametrize("kind", ["Source", "Sink"])
def test_a_connector_fails_alone(new_worker: Callable[..., Worker], ottla_topic: str, kind: str) -> None:
    """As in Kafka, a connector that reports an error has failed, and its tasks go on."""
    worker = new_worker(ThreadHost())
    config = {
        "name": f"mock-{ottla_topic}",
        "connector.class": f"Mock{kind}",
        "mock_mode": "connector-failure",
        "delay_ms": "100",
    }
    running = worker.start({**config, "topics": ottla_topic} if kind == "Sink" else config)
    worker.await_state(running, State.FAILED, State.RUNNING)
    assert (running.status.trace or "").startswith("This connector-failure was requested by mock_mode.")
    running.restart()
    worker.await_state(running, State.FAILED, State.RUNNING)
