"""Promise: `ottla connect` controls a worker, and reports each error in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.commands.connect import connect
from tests.connect.worker.workers import SOURCE, Worker, standalone_properties, wait_for


@pytest.fixture(scope="module")
def worker(broker, tmp_path_factory):  # type: ignore[no-untyped-def]
    offsets = tmp_path_factory.mktemp("standalone") / "offsets"
    with Worker(standalone_properties(broker.bootstrap_servers, offsets)) as worker:
        yield worker


def run(worker: Worker, *words: str) -> Result:
    return CliRunner().invoke(connect, [*words, "--url", worker.url], catch_exceptions=True)


def said(worker: Worker, *words: str) -> str:
    result = run(worker, *words)
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.output


def test_the_life_of_a_connector(worker: Worker, lines: Path, tmp_path: Path) -> None:
    assert "no connectors yet" in said(worker, "list")
    config = tmp_path / "c.properties"
    config.write_text(f"connector.class={SOURCE}\nfile={lines}\ntopic=nowhere\n")
    assert said(worker, "create", "lines", "-c", str(config), "topic=lines") == "Created connector lines.\n"
    worker.wait_until("lines", "RUNNING", ["RUNNING"])
    assert "1/1 running" in said(worker, "list")
    assert "task 0" in said(worker, "status", "lines")
    wait_for(lambda: "position" in said(worker, "offsets", "lines"))
    assert said(worker, "pause", "lines") == "Connector lines pauses.\n"
    worker.wait_until("lines", "PAUSED")
    assert said(worker, "resume", "lines") == "Connector lines runs again.\n"
    worker.wait_until("lines", "RUNNING", ["RUNNING"])
    said(worker, "restart", "lines", "--tasks")
    worker.wait_until("lines", "RUNNING", ["RUNNING"])
    said(worker, "restart", "lines", "--task", "0")
    assert "Nothing has failed." in said(worker, "logs", "lines")
    said(worker, "stop", "lines")
    worker.wait_until("lines", "STOPPED", [])
    changed = tmp_path / "offsets.json"
    shown = json.loads(said(worker, "offsets", "lines", "--json"))
    shown["offsets"][0]["offset"]["position"] = 2
    changed.write_text(json.dumps(shown))
    said(worker, "offsets", "lines", "--from", str(changed))
    assert json.loads(said(worker, "offsets", "lines", "--json")) == shown
    said(worker, "offsets", "lines", "--reset", "--yes")
    assert "committed no offsets yet" in said(worker, "offsets", "lines")
    assert said(worker, "delete", "lines", "--yes") == "Deleted connector lines.\n"


def test_a_config_of_json_and_one_that_is_replaced(worker: Worker, lines: Path, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(
        json.dumps({"name": "x", "config": {"connector.class": SOURCE, "file": str(lines), "topic": "json"}})
    )
    said(worker, "create", "j", "-c", str(file), "--state", "stopped")
    worker.wait_until("j", "STOPPED")
    said(worker, "create", "j", "-c", str(file), "topic=other", "--replace")
    assert worker.call("GET", "/connectors/j/config").body["topic"] == "other"


def test_plugins_and_their_settings(worker: Worker) -> None:
    assert SOURCE in said(worker, "plugins")
    assert "HoistField" in said(worker, "plugins", "--all")
    assert "(required)" in said(worker, "plugins", "FileStreamSource")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("status", "nobody"), "No status found for connector nobody (404)."),
        (("pause", "nobody"), "Unknown connector nobody (404)."),
        (("create", "x", "connector.class=FileStreemSource"), "Did you mean FileStreamSource? (400)."),
        (("offsets", "nobody", "--set", "t:0=1"), "Connector nobody not found (404)."),
    ],
)
def test_what_the_worker_refuses_is_said_in_its_words(
    worker: Worker, words: tuple[str, ...], sentence: str
) -> None:
    result = run(worker, *words)
    assert result.exit_code == 1
    assert sentence in str(result.exception)


def test_a_worker_that_is_not_there(worker: Worker) -> None:
    result = CliRunner().invoke(connect, ["list", "--url", "http://127.0.0.1:1"])
    assert "Cannot reach a Connect worker at http://127.0.0.1:1" in str(result.exception)
    assert "ottla connect start" in str(result.exception)


def test_offsets_and_settings_that_cannot_be_read(worker: Worker) -> None:
    assert run(worker, "offsets", "x", "--set", "t=1").exit_code == 2
    assert run(worker, "create", "x", "no-equals-sign").exit_code == 2
