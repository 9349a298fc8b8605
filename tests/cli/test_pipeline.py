"""Promise: a pipeline is started, watched, stopped and restarted by name, and its errors are sentences."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.pipelines.state import Phase, Pipelines, PipelineState
from ottla.testing import Broker

from .conftest import Ottla

NUMBERS = """
from pyspark.sql import functions as F
from ottla.spark import json, read_topic, to_topic


@F.udf("int")
def checked(number):
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def pipeline(spark):
    numbers = read_topic(
        spark, "numbers", value=json("number INT"), options={"maxOffsetsPerTrigger": "10"}, commit_group="doubler"
    )
    doubled = numbers.select((checked("value.number") * 2).alias("doubled"))
    return to_topic(doubled, "doubled")
"""


@pytest.fixture
def running(fresh_ottla_broker: Broker, tmp_path: Path) -> Iterator[Ottla]:
    ottla = Ottla(fresh_ottla_broker.bootstrap_servers)
    ottla.environment |= {"OTTLA_STATE_DIR": str(tmp_path / "state"), "SPARK_MASTER": "local[2]"}
    yield ottla
    for name in ("doubler", "broken"):
        ottla("pipeline", "stop", name, check=False)


def produce(broker: Broker, *numbers: int) -> None:
    for number in numbers:
        broker.produce("numbers", json.dumps({"number": number}).encode())


def doubled(broker: Broker) -> list[int]:
    return [json.loads(bytes(record.value or b""))["doubled"] for record in broker.records("doubled")]


def wait_for(what: str, condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.1)


@pytest.fixture
def commit_log(fresh_ottla_broker: Broker) -> Iterator[Callable[[Path], str]]:
    """Create a checkpoint and its query's commit log, as Spark does, and return the topic."""
    pytest.importorskip("pyspark")
    from ottla.client.cluster import Cluster
    from ottla.client.settings import Settings
    from ottla.spark.checkpoints import location
    from ottla.spark.sink.exactly_once.commit_topic import CommitTopic

    cluster = Cluster(Settings.from_properties({"bootstrap.servers": fresh_ottla_broker.bootstrap_servers}))

    def make(checkpoint: Path) -> str:
        query = str(uuid.uuid4())
        checkpoint.mkdir(parents=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": query}))
        topic = CommitTopic(query)
        topic.append(cluster, topic.read(cluster).begin("run-1", location(str(checkpoint))))
        return topic.name

    yield make
    cluster.close()


def test_clean_removes_the_commit_logs_of_queries_that_are_gone(
    running: Ottla, commit_log: Callable[[Path], str], tmp_path: Path
) -> None:
    kept, gone = (commit_log(tmp_path / name) for name in ("kept", "gone"))
    assert running("pipeline", "clean", "--yes").err == "Nothing to remove.\n"
    shutil.rmtree(tmp_path / "gone")
    shown = running("pipeline", "clean", "--dry-run")
    assert sorted(line.split(maxsplit=2) for line in shown.lines[1:]) == [
        ["no", kept, f"its query can go on from {tmp_path / 'kept'}"],
        ["yes", gone, f"the checkpoint of its query is gone from {tmp_path / 'gone'}"],
    ]
    refused = running("pipeline", "clean", check=False)
    assert (refused.code, "Pass --yes" in refused.err) == (1, True)
    assert {gone, kept} <= set(running("topics", "list", "--internal").text.split())
    assert running("pipeline", "clean", "--yes").lines[-1] == "Removed 1 commit log."
    listed = running("topics", "list", "--internal").text.split()
    assert (gone in listed, kept in listed) == (False, True)


def test_a_pipeline_is_forgotten_with_its_checkpoints_and_commit_logs(
    running: Ottla, fresh_ottla_broker: Broker, commit_log: Callable[[Path], str], tmp_path: Path
) -> None:
    pipelines = Pipelines(tmp_path / "state")
    checkpoints = pipelines.default_checkpoints() / "doubler"
    topic, other = commit_log(checkpoints / "doubled"), commit_log(tmp_path / "other")
    with pipelines.claim("doubler"):
        pipelines.write(
            PipelineState(
                name="doubler",
                pid=1,
                pid_started=0,
                file="doubler.py",
                master="local[2]",
                bootstrap_servers=fresh_ottla_broker.bootstrap_servers,
                checkpoints=str(checkpoints),
                log=str(pipelines.log_file("doubler")),
                started_at=0.0,
                phase=Phase.STOPPED,
            )
        )
    forgotten = running("pipeline", "stop", "doubler", "--forget", "--yes")
    assert forgotten.lines == ["Pipeline 'doubler' is forgotten."]
    assert not checkpoints.exists()
    assert running("pipeline", "list", "--json").json == []
    listed = running("topics", "list", "--internal").text.split()
    assert (topic in listed, other in listed) == (False, True)


LARGE = """
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM orders (id BIGINT KEY, item STRING, amount DOUBLE)
  WITH (kafka_topic='orders', value_format='JSON', partitions=1);
CREATE STREAM large AS SELECT id, item, amount FROM orders WHERE amount > 100;
"""


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_statements_are_a_pipeline(running: Ottla, fresh_ottla_broker: Broker, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    file = tmp_path / "large.sql"
    file.write_text(LARGE)
    broker = fresh_ottla_broker
    broker.create_topic("orders")
    broker.produce("orders", b'{"item": "tea", "amount": 2}')
    for amount in (900, 9000):  # the second run continues after the first
        broker.produce("orders", json.dumps({"item": "car", "amount": amount}).encode())
        finished = running("pipeline", "run", file, "--available-now", timeout=200)
        assert finished.lines[-1] == "Pipeline 'large' is finished."
    values = [json.loads(bytes(record.value or b"")) for record in broker.records("LARGE")]
    assert [value["AMOUNT"] for value in values] == [900, 9000]


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_the_life_of_a_pipeline(running: Ottla, fresh_ottla_broker: Broker, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    broker = fresh_ottla_broker
    broker.create_topic("numbers")
    broker.create_topic("doubled")
    file = tmp_path / "doubler.py"
    file.write_text(NUMBERS)
    produce(broker, *range(15))

    started = running("pipeline", "run", file, "--detach", timeout=200)
    assert "Pipeline 'doubler' is running as process" in started.text
    wait_for("what was there", lambda: doubled(broker) == [2 * n for n in range(15)])
    produce(broker, 15)
    wait_for("what came later", lambda: len(doubled(broker)) == 16)

    [listed] = running("pipeline", "list", "--json").json
    assert (listed["name"], listed["phase"], listed["master"]) == ("doubler", "running", "local[2]")
    again = running("pipeline", "run", file, check=False)
    assert (again.code, len(again.err.splitlines())) == (1, 1)
    assert f"'doubler' already runs as process {listed['pid']}" in again.err

    def figures() -> dict[str, object]:
        [query] = running("pipeline", "status", "doubler", "--json").json["queries"]
        return dict(query)

    wait_for("the figures of the last batch", lambda: figures()["batch"] == 2)
    assert (figures()["name"], figures()["lag"]) == ("doubled", 0)
    shown = running("pipeline", "status", "doubler")
    assert shown.lines[0] == "Pipeline     doubler (running)"
    assert shown.lines[-1].split()[:2] == ["doubled", "2"]
    assert running("groups", "describe", "doubler", "--json").json

    assert running("pipeline", "stop", "doubler").lines == ["Pipeline 'doubler' is stopped."]
    stopped = running("pipeline", "stop", "doubler", check=False)
    assert stopped.err == "Error: Pipeline 'doubler' is not running: it is stopped.\n"

    # After a restart the pipeline continues from its checkpoint.
    produce(broker, 16, 17)
    finished = running("pipeline", "run", file, "--available-now", timeout=200)
    assert finished.lines[0] == "doubler: Spark is starting…"
    assert finished.lines[-1] == "Pipeline 'doubler' is finished."
    assert any(line.startswith("doubler/doubled: batch 3, 2 rows, ") for line in finished.lines)
    assert finished.lines[-2] == "doubler/doubled: 2 rows processed"
    assert not re.search(r"\b0 rows/s in", finished.text)
    assert finished.err == ""
    assert doubled(broker) == [2 * n for n in range(18)]

    # The error for an unprocessable record names the pipeline, the batch, the records and the reason.
    produce(broker, -1)
    failed = running("pipeline", "run", file, "--available-now", check=False, timeout=200)
    sentence = (
        "Pipeline 'doubler' failed in batch 4 of query 'doubled': ValueError: -1 is negative. "
        "The batch had numbers-0 at offset 18."
    )
    assert (failed.code, failed.err) == (1, f"Error: {sentence}\n")
    status = running("pipeline", "status", "doubler", check=False)
    assert status.lines[0] == "Pipeline     doubler (failed)"
    assert status.err == f"Error: {sentence}\n"
    assert "Traceback" in (tmp_path / "state" / "pipelines" / "doubler.log").read_text()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_detached_pipeline_that_does_not_start_says_why(running: Ottla, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    file = tmp_path / "broken.py"
    file.write_text("def pipeline(spark):\n    return spark.range(3)\n")
    failed = running("pipeline", "run", file, "--detach", check=False, timeout=200)
    assert failed.code == 1
    assert failed.err == (
        f"Error: pipeline(spark) in {file} returned a DataFrame: "
        "it must return the query that it started, or a list of them.\n"
    )


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_pipeline_whose_java_is_killed_says_so(
    running: Ottla, fresh_ottla_broker: Broker, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    fresh_ottla_broker.create_topic("numbers")
    file = tmp_path / "doubler.py"
    file.write_text(NUMBERS)
    running("pipeline", "run", file, "--detach", timeout=200)

    def state() -> Any:
        return running("pipeline", "status", "doubler", "--json").json

    pid = state()["pid"]
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [java] = [int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "java\n"]
    os.kill(java, signal.SIGKILL)
    wait_for("the end", lambda: state()["phase"] != "running")
    assert state()["phase"] == "failed"
    assert "Pipeline 'doubler' failed: the Java that ran it has ended; " in state()["error"]


@pytest.mark.spark
def test_bad_files_are_refused_at_once(running: Ottla, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    empty = tmp_path / "empty.py"
    empty.write_text("")
    for file, words in (
        (tmp_path / "none.py", "There is no file"),
        (empty, "has no function pipeline(spark)"),
    ):
        refused = running("pipeline", "run", file, check=False)
        assert (refused.code, len(refused.err.splitlines())) == (1, 1)
        assert words in refused.err


def test_without_any_pipeline(running: Ottla) -> None:
    assert running("pipeline", "list", "--json").json == []
    assert running("pipeline", "status", "nope", check=False).err == (
        "Error: There is no pipeline 'nope'. None was ever run here.\n"
    )


def test_without_spark_it_says_how_to_install_it(running: Ottla, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name == 'pyspark' else find(name, package)\n"
    )
    running.environment["PYTHONPATH"] = str(hidden)
    for command in (["pipeline", "run", "x.py"], ["demo"]):
        refused = running(*command, check=False, new_python=True)
        assert refused.code == 1
        assert refused.err == (
            "Error: Pipelines run on PySpark, which is not installed: pip install 'ottla[spark]'.\n"
        )
