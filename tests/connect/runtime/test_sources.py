"""Sources write each record to the topic once, whatever happens to their tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from ottla.client.admin.topics import describe_topics
from ottla.client.cluster import Cluster
from ottla.connect import SourceConnector, SourceRecord, SourceTask, SourceTaskContext
from ottla.connect.api import Config
from ottla.connect.runtime.compacted_topic import read_topic
from ottla.connect.runtime.engine import State
from ottla.connect.runtime.offsets import read_offsets, reset_offsets, write_offsets
from ottla.monitoring.audit.audit_topic import read_tier_counts
from tests.connect.runtime.conftest import Worker, wait_for


def _file_source(path: Path, topic: str, **more: str) -> dict[str, str]:
    return {
        "name": f"lines-of-{topic}",
        "connector.class": "FileStreamSource",
        "file": str(path),
        "topic": topic,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def _append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_the_lines_of_a_file_are_in_the_topic_with_their_position_beside_them(
    worker: Worker, ottla_topic: str, offset_topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    _append(path, "one", "zwei", "drüben")
    config = _file_source(path, ottla_topic)
    running = worker.start(config)
    assert worker.await_values(ottla_topic, 3) == ["one", "zwei", "drüben"]
    _append(path, "four")
    assert worker.await_values(ottla_topic, 4)[3:] == ["four"]
    worker.await_state(running, State.RUNNING, State.RUNNING)
    wait_for(lambda: worker.topics == {(ottla_topic, 0)}, "the topic was not reported")
    running.stop()
    assert running.status.state is State.STOPPED

    cluster = Cluster(worker.config.client_settings)
    key = json.dumps([config["name"], {"filename": str(path)}], separators=(",", ":")).encode()
    assert read_topic(cluster, offset_topic) == {key: b'{"position":%d}' % path.stat().st_size}
    cluster.close()


def test_a_source_goes_on_where_its_offsets_say(
    new_worker: Callable[..., Worker], ottla_topic: str, offset_topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    _append(path, "a", "b")
    config = _file_source(path, ottla_topic)
    first = new_worker()
    running = first.start(config)
    first.await_values(ottla_topic, 2)
    running.stop()
    _append(path, "c")

    second = new_worker()
    running = second.start(config)
    assert second.await_values(ottla_topic, 3) == ["a", "b", "c"]
    running.stop()

    settings = second.config.client_settings
    write_offsets(settings, [offset_topic], config["name"], [({"filename": str(path)}, {"position": 2})])
    running = second.start(config)
    assert second.await_values(ottla_topic, 5)[3:] == ["b", "c"]
    running.stop()

    assert reset_offsets(settings, [offset_topic], config["name"]) == 1
    cluster = Cluster(settings)
    assert not len(read_offsets(cluster, [offset_topic], config["name"]))
    cluster.close()


def test_a_connector_with_an_offsets_topic_of_its_own_goes_on_from_the_workers(
    new_worker: Callable[..., Worker], ottla_topic: str, offset_topic: str, tmp_path: Path
) -> None:
    worker = new_worker(offset_storage_replication_factor="1", offset_storage_partitions="2")
    path = tmp_path / "lines"
    _append(path, "a")
    config = _file_source(path, ottla_topic)
    running = worker.start(config)
    worker.await_values(ottla_topic, 1)
    running.stop()
    own = f"own-{offset_topic}"
    for line in ("b", "c"):
        _append(path, line)
        running = worker.start({**config, "offsets.storage.topic": own})
        worker.await_values(ottla_topic, 2 if line == "b" else 3)
        running.stop()
    assert worker.values(ottla_topic) == ["a", "b", "c"]
    cluster = Cluster(worker.config.client_settings)
    assert [*read_topic(cluster, offset_topic).values()] == [b'{"position":2}']
    assert [*read_topic(cluster, own).values()] == [b'{"position":6}']
    (described,) = describe_topics(cluster, [own], with_configs=True)
    assert (len(described.partitions), described.configs) == (2, {"cleanup.policy": "compact"})
    cluster.close()


def test_a_source_that_is_paused_reads_nothing(worker: Worker, ottla_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    _append(path, "a")
    running = worker.start(_file_source(path, ottla_topic))
    worker.await_values(ottla_topic, 1)
    running.pause()
    worker.await_state(running, State.PAUSED, State.PAUSED)
    _append(path, "b")
    running.resume()
    assert worker.await_values(ottla_topic, 2) == ["a", "b"]
    worker.await_state(running, State.RUNNING, State.RUNNING)


def test_a_source_may_be_started_paused(worker: Worker, ottla_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    _append(path, "a")
    running = worker.start(_file_source(path, ottla_topic), paused=True)
    worker.await_state(running, State.PAUSED, State.PAUSED)
    assert worker.values(ottla_topic) == []
    running.resume()
    assert worker.await_values(ottla_topic, 1) == ["a"]


def test_a_task_that_fails_says_why_and_can_be_restarted(
    worker: Worker, ottla_topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    path.mkdir()
    running = worker.start(_file_source(path, ottla_topic))
    worker.await_state(running, State.RUNNING, State.FAILED)
    trace = running.status.tasks[0].trace or ""
    assert trace.startswith(f"The file {path} cannot be read: Is a directory.\n")
    assert "Traceback" in trace

    path.rmdir()
    _append(path, "a")
    running.restart(connector=False, tasks=[0])
    assert worker.await_values(ottla_topic, 1) == ["a"]
    worker.await_state(running, State.RUNNING, State.RUNNING)


def test_a_connector_that_cannot_start_says_why(worker: Worker) -> None:
    running = worker.start({"name": "wrong", "connector.class": "FileStreamSauce"})
    wait_for(lambda: running.status.state is State.FAILED)
    assert "Did you mean" in (running.status.trace or "")
    assert running.status.tasks == ()


class GrowingTask(SourceTask):
    def start(self, config: Config, context: SourceTaskContext) -> None:
        self.name, self.topic = config["part"], config["topic"]
        self.done = context.offset({"part": self.name}) is not None

    def poll(self) -> Sequence[SourceRecord]:
        if self.done:
            return ()
        self.done = True
        return [
            SourceRecord(
                self.topic, value=self.name, source_partition={"part": self.name}, source_offset={"n": 1}
            )
        ]


class GrowingSource(SourceConnector):
    """Has one more task for each added part, and requests reconfiguration."""

    task_class = GrowingTask
    running: ClassVar[dict[str, GrowingSource]] = {}

    def start(self, config: Config) -> None:
        super().start(config)
        self.parts = ["a"]
        self.running[config["name"]] = self

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "part": each} for each in self.parts]

    def add(self, part: str) -> None:
        self.parts.append(part)
        self.context.request_task_reconfiguration()


def test_a_connector_may_ask_for_other_tasks_while_it_runs(worker: Worker, ottla_topic: str) -> None:
    config = {
        "name": f"growing-{ottla_topic}",
        "connector.class": f"{__name__}:GrowingSource",
        "tasks.max": "2",
        "topic": ottla_topic,
    }
    running = worker.start(config)
    assert worker.await_values(ottla_topic, 1) == ["a"]
    connector = GrowingSource.running[config["name"]]
    connector.add("b")
    assert worker.await_values(ottla_topic, 2) == ["a", "b"]
    worker.await_state(running, State.RUNNING, State.RUNNING, State.RUNNING)
    connector.add("c")
    wait_for(lambda: running.status.state is State.FAILED)
    assert "has generated 3 tasks, which is greater than 2" in (running.status.trace or "")
    worker.await_state(running, State.FAILED, State.RUNNING, State.RUNNING)


def test_lines_go_through_transforms_and_converters_and_a_bad_one_is_passed_over(
    worker: Worker, ottla_topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    _append(path, *map(str, range(50)), "x", *map(str, range(50, 100)))
    config = _file_source(
        path,
        ottla_topic,
        value_converter="org.apache.kafka.connect.json.JsonConverter",
        value_converter_schemas_enable="false",
        transforms="cast,hoist,route",
        transforms_cast_type="Cast$Value",
        transforms_cast_spec="int32",
        transforms_hoist_type="HoistField$Value",
        transforms_hoist_field="n",
        transforms_route_type="RegexRouter",
        transforms_route_regex="(.*)",
        transforms_route_replacement="$1-numbers",
        ottla_audit_enable="true",
        errors_tolerance="all",
    )
    running = worker.start(config)
    topic = f"{ottla_topic}-numbers"
    assert worker.await_values(topic, 100) == [f'{{"n":{number}}}' for number in range(100)]
    running.stop()
    cluster = Cluster(worker.config.client_settings)
    counted = read_tier_counts(cluster).counts[topic, config["name"]]
    assert sum(each.count for each in counted.values()) == 100
    (offset,) = [offset for _, offset in read_offsets(cluster, [worker.config.offset_topic], config["name"])]
    assert offset == {"position": path.stat().st_size}
    cluster.close()


def test_a_bad_line_fails_the_task_with_the_position_of_that_line(
    worker: Worker, ottla_topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    _append(path, "1", "2", "x", "4", "5")
    running = worker.start(
        _file_source(
            path,
            ottla_topic,
            transforms="cast",
            transforms_cast_type="Cast$Value",
            transforms_cast_spec="int32",
        )
    )
    worker.await_state(running, State.RUNNING, State.FAILED)
    sentence = (running.status.tasks[0].trace or "").partition("\n")[0]
    assert sentence == (
        "Tolerance exceeded in error handler: Value (x) was out of range for requested data type "
        f"(TRANSFORMATION of {{'filename': '{path}'}} at offset {{'position': 6}})."
    )
    assert worker.values(ottla_topic) == []
