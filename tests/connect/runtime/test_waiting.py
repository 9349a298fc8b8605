"""Promise: a task outlasts broker downtime, and its status shows the reason until it continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.connect.runtime.engine import Engine, RunningConnector, State
from ottla.connect.runtime.spark.host import ThreadHost
from ottla.connect.runtime.tasks import clients, task, waiting
from ottla.testing import Broker
from tests.connect.runtime.conftest import Worker, wait_for


def traces(*connectors: RunningConnector) -> list[str]:
    """Return the traces of all running tasks."""
    tasks = [status for each in connectors for status in each.status.tasks]
    assert [status.state for status in tasks] == [State.RUNNING] * len(connectors), tasks
    return [status.trace or "" for status in tasks]


def test_a_broker_that_is_away_for_longer_than_requests_are_tried(
    fresh_ottla_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_API_SECONDS", 1.0)
    monkeypatch.setattr(waiting, "_PATIENCE", 0.2)
    monkeypatch.setattr(task, "_PAUSE_SECONDS", 0.1)
    broker = fresh_ottla_broker
    broker.create_topic("t")
    broker.create_topic("offsets", config={"cleanup.policy": "compact"})
    lines, copy = tmp_path / "lines", tmp_path / "copy"
    lines.write_text("a\nb\n")
    settings = {"offset.storage.topic": "offsets", "consumer.default.api.timeout.ms": "1000"}
    worker = Worker(broker, settings, lambda config: Engine(None, config, host=ThreadHost()))
    source = {"name": "in", "connector.class": "FileStreamSource", "file": str(lines), "topic": "t"}
    sink = {"name": "out", "connector.class": "FileStreamSink", "file": str(copy), "topics": "t"}
    try:
        both = worker.start(source), worker.start(sink)
        wait_for(lambda: copy.exists() and copy.read_text() == "a\nb\n", "nothing came")
        broker.stop()
        with lines.open("a") as more:
            more.write("c\n")
        [first, second] = wait_for(
            lambda: all(traces(*both)) and traces(*both), "they do not say what they wait for"
        )
        for sentence in (first, second):
            assert sentence.endswith(". The task tries again until it succeeds.")
            assert "\n" not in sentence
        broker.start()
        assert worker.await_values("t", 3) == ["a", "b", "c"]
        # At least once: uncommitted records are delivered again.
        wait_for(lambda: copy.read_text().endswith("a\nb\nc\n"), "the sink does not go on")
        wait_for(lambda: traces(*both) == ["", ""], "they still say that they wait")
    finally:
        worker.close()
