"""Every message of a task reaches the driver, including the last."""

from __future__ import annotations

from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.tasks.control import ControlServer, Report, TaskControl
from ottla.connect.runtime.tasks.task_spec import TaskSpec


def spec(server: ControlServer, run: str) -> TaskSpec:
    text = "org.apache.kafka.connect.storage.StringConverter"
    properties = {"bootstrap.servers": "localhost:1", "key.converter": text, "value.converter": text}
    properties["offset.storage.file.filename"] = "unused"
    worker = WorkerConfig.from_properties(properties, distributed=False)
    return TaskSpec("files", 0, run, {}, {}, worker, server.address)


def test_a_failure_that_comes_just_before_the_end_of_a_run_is_heard() -> None:
    server = ControlServer("127.0.0.1")
    try:
        for number in range(50):
            heard: list[Report] = []
            run = f"run {number}"
            server.begin(run, lambda _task, report, heard=heard: heard.append(report))
            task = TaskControl(spec(server, run))
            task.report(state="FAILED")
            task.close()
            server.end(run)
            assert heard[0] == {"state": "FAILED"}
    finally:
        server.close()


def test_a_task_of_a_run_that_is_over_is_asked_to_stop() -> None:
    server = ControlServer("127.0.0.1")
    try:
        task = TaskControl(spec(server, "nobody began it"))
        assert task.stopping.wait(10)
        task.close()
    finally:
        server.close()
