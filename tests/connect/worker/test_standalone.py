"""Promise: a standalone worker runs connectors from files, and shares its offsets file format with Kafka's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli.commands.connect import read_connector_file
from ottla.connect.config.config_def import ConfigError
from ottla.connect.worker.java_maps import decode_map, encode_map
from ottla.testing import Broker
from tests.connect.worker.workers import Worker, standalone_properties, wait_for


def config(name: str, lines: Path) -> dict[str, str]:
    return {"name": name, "connector.class": "FileStreamSource", "file": str(lines), "topic": f"t-{name}"}


def values(broker: Broker, topic: str) -> list[bytes]:
    return [bytes(each.value) for each in broker.records(topic) if each.value is not None]


def test_connectors_of_files_run_and_their_offsets_stay(broker: Broker, tmp_path: Path, lines: Path) -> None:
    file = tmp_path / "offsets"
    key = json.dumps(["one", {"filename": str(lines)}], separators=(",", ":")).encode()
    given = standalone_properties(broker.bootstrap_servers, file)
    with Worker(given, connectors=[config("one", lines)]) as worker:
        worker.wait_until("one", "RUNNING", ["RUNNING"])
        wait_for(lambda: file.exists() and decode_map(file.read_bytes()) == {key: b'{"position":4}'})
        assert worker.call("GET", "/connectors/one/offsets").body["offsets"] == [
            {"partition": {"filename": str(lines)}, "offset": {"position": 4}}
        ]
    with lines.open("a") as more:
        more.write("c\n")
    with Worker(given, connectors=[config("one", lines)]):
        wait_for(lambda: decode_map(file.read_bytes()) == {key: b'{"position":6}'})
    assert values(broker, "t-one") == [b"a", b"b", b"c"]
    # Another program, such as Kafka's worker, has written the file, so its contents count.
    file.write_bytes(encode_map({key: b'{"position":2}'}))
    with Worker(given, connectors=[config("one", lines)]):
        wait_for(lambda: values(broker, "t-one") == [b"a", b"b", b"c", b"b", b"c"])


def test_what_a_crash_leaves_of_the_file_is_not_taken_for_the_word_of_others(
    broker: Broker, tmp_path: Path, lines: Path
) -> None:
    file = tmp_path / "offsets"
    broker.create_topic("t-five")
    given = standalone_properties(broker.bootstrap_servers, file)
    with Worker(given, connectors=[config("five", lines)]):
        wait_for(lambda: values(broker, "t-five") == [b"a", b"b"])
    before = file.read_bytes()
    with lines.open("a") as more:
        more.write("c\n")
    with Worker(given, connectors=[config("five", lines)]):
        wait_for(lambda: values(broker, "t-five") == [b"a", b"b", b"c"])
    # The state after a kill between writing the marker and the file.
    file.write_bytes(before)
    with lines.open("a") as more:
        more.write("d\n")
    with Worker(given, connectors=[config("five", lines)]):
        wait_for(lambda: values(broker, "t-five")[-1:] == [b"d"])
    assert values(broker, "t-five") == [b"a", b"b", b"c", b"d"]


def test_connectors_are_created_over_rest_as_well(broker: Broker, tmp_path: Path, lines: Path) -> None:
    with Worker(standalone_properties(broker.bootstrap_servers, tmp_path / "offsets")) as worker:
        made = worker.call("POST", "/connectors", {"name": "two", "config": config("two", lines)})
        assert made.status == 201
        worker.wait_until("two", "RUNNING", ["RUNNING"])
        assert worker.call("POST", "/connectors/two/restart").status == 204
        assert worker.call("PUT", "/connectors/two/pause").status == 202
        worker.wait_until("two", "PAUSED", ["PAUSED"])
        assert worker.call("DELETE", "/connectors/two").status == 204
        wait_for(lambda: worker.call("GET", "/connectors/two/status").status == 404)


def test_a_connector_that_could_not_start_is_restarted(broker: Broker, tmp_path: Path, lines: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text("topic=t-six\n")
    provider = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
    }
    given = {**standalone_properties(broker.bootstrap_servers, tmp_path / "offsets"), **provider}
    with Worker(given) as worker:
        secret = {**config("six", lines), "topic": f"${{file:{secrets}:topic}}"}
        body = {"name": "six", "config": secret, "initial_state": "STOPPED"}
        assert worker.call("POST", "/connectors", body).status == 201
        worker.wait_until("six", "STOPPED")
        assert worker.call("POST", "/connectors/six/restart").status == 204
        assert worker.status("six") == ("STOPPED", [])
        secrets.rename(tmp_path / "elsewhere")
        worker.call("PUT", "/connectors/six/resume")
        worker.wait_until("six", "FAILED")
        (tmp_path / "elsewhere").rename(secrets)
        assert worker.call("POST", "/connectors/six/restart").status == 204
        worker.wait_until("six", "RUNNING", ["RUNNING"])


def test_a_connector_of_a_file_may_begin_stopped(broker: Broker, tmp_path: Path, lines: Path) -> None:
    file = tmp_path / "seven.json"
    asked = {"name": "seven", "config": {**config("seven", lines), "x": None}, "initial_state": "stopped"}
    file.write_text(json.dumps(asked))
    read = read_connector_file(file)
    assert read.initial_state == "stopped"
    given = standalone_properties(broker.bootstrap_servers, tmp_path / "offsets")
    with Worker(given, connectors=[read.config], initial_states={"seven": read.initial_state}) as worker:
        worker.wait_until("seven", "STOPPED", [])
        assert "x" not in worker.call("GET", "/connectors/seven/config").body
    with (
        pytest.raises(ConfigError, match="initial_state cannot be asleep"),
        Worker(given, connectors=[read.config], initial_states={"seven": "asleep"}),
    ):
        pass


def test_nothing_is_started_after_the_worker_has_stopped(broker: Broker, tmp_path: Path, lines: Path) -> None:
    """Task configs may arrive after the stop and change the target state."""
    given = standalone_properties(broker.bootstrap_servers, tmp_path / "offsets")
    with Worker(given, connectors=[config("six", lines)]) as worker:
        worker.wait_until("six", "RUNNING", ["RUNNING"])
        assert worker.server is not None
        herder = worker.server.herder
    assert herder is not None
    herder.apply()
    assert herder.connectors.names == set()


def test_a_file_with_a_wrong_config_or_wrong_offsets_keeps_it_from_starting(
    broker: Broker, tmp_path: Path, lines: Path
) -> None:
    given = standalone_properties(broker.bootstrap_servers, tmp_path / "offsets")
    wrong = Worker(given, connectors=[{"name": "x", "connector.class": "FileStreamSource"}])
    with pytest.raises(ConfigError, match=r'Connector x cannot be created: .*\n.*"topic"'):
        wrong.start()
    (tmp_path / "offsets").write_text("hello")
    with pytest.raises(ConfigError, match="is not an offsets file of a standalone worker"):
        Worker(given, connectors=[config("three", lines)]).start()


def test_secrets_are_looked_up_and_never_shown(broker: Broker, tmp_path: Path, lines: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"where={lines}\n")
    given = {
        **standalone_properties(broker.bootstrap_servers, tmp_path / "offsets"),
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
    }
    variable = f"${{file:{secrets}:where}}"
    broker.create_topic("t-four")
    connector = {**config("four", lines), "file": variable}
    with Worker(given, connectors=[connector]) as worker:
        wait_for(lambda: values(broker, "t-four") == [b"a", b"b"])
        assert worker.call("GET", "/connectors/four/config").body["file"] == variable
        wait_for(lambda: worker.call("GET", "/connectors/four/tasks").body)
        [task] = worker.call("GET", "/connectors/four/tasks").body
        assert task["config"]["file"] == variable
        checked = worker.call("PUT", "/connector-plugins/FileStreamSource/config/validate", connector).body
        [shown] = [each["value"] for each in checked["configs"] if each["value"]["name"] == "file"]
        assert (checked["error_count"], shown["value"]) == (0, variable)
