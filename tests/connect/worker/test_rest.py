"""Promise: the REST API responds like Kafka's worker. Codes and messages come from a running 4.3."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from ottla import KAFKA_VERSION, __version__
from ottla.testing import Broker
from tests.connect.worker.workers import SINK, SOURCE, Worker, wait_for

ENDPOINT = (
    "\nYou can also find the above list of errors at the endpoint "
    "`/connector-plugins/{connectorType}/config/validate`"
)


def source(file: Path, **more: str) -> dict[str, str]:
    return {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": f"t-{uuid.uuid4().hex[:8]}",
        "tasks.max": "1",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@pytest.fixture
def name() -> str:
    return f"c-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def running(worker: Worker, name: str, lines: Path) -> str:
    answer = worker.call("POST", "/connectors", {"name": name, "config": source(lines)})
    assert answer.status == 201
    worker.wait_until(name, "RUNNING", ["RUNNING"])
    return name


def test_the_root_names_the_cluster_and_health_is_good(worker: Worker) -> None:
    root = worker.call("GET", "/")
    assert root.status == 200
    assert set(root.body) == {"version", "commit", "kafka_cluster_id"}
    assert root.body["kafka_cluster_id"]
    # kcctl refuses "restart --tasks" for a Connect before 3.0, and "stop" before 3.5.
    assert root.body["version"] == KAFKA_VERSION
    assert root.body["commit"] == f"ottla-{__version__}"
    assert worker.call("GET", "/health").body == {
        "status": "healthy",
        "message": "Worker has completed startup and is ready to handle requests.",
    }


def test_a_connector_is_created_shown_and_deleted(worker: Worker, name: str, lines: Path) -> None:
    config = source(lines)
    made = worker.call("POST", "/connectors", {"name": name, "config": config})
    assert made.status == 201
    assert made.headers["Location"] == f"{worker.url}/connectors/{name}"
    assert made.body == {
        "name": name,
        "config": {**config, "name": name},
        "tasks": [],
        "type": "source",
    }
    worker.wait_until(name, "RUNNING", ["RUNNING"])
    assert name in worker.call("GET", "/connectors").body
    wait_for(lambda: worker.call("GET", f"/connectors/{name}").body["tasks"])
    assert worker.call("GET", f"/connectors/{name}").body == {
        "name": name,
        "config": {**config, "name": name},
        "tasks": [{"connector": name, "task": 0}],
        "type": "source",
    }
    assert worker.call("GET", f"/connectors/{name}/config").body == {**config, "name": name}
    [task] = worker.call("GET", f"/connectors/{name}/tasks").body
    assert task["id"] == {"connector": name, "task": 0}
    assert task["config"]["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"
    assert worker.call("DELETE", f"/connectors/{name}").status == 204
    assert worker.call("GET", f"/connectors/{name}").status == 404
    wait_for(lambda: worker.call("GET", f"/connectors/{name}/status").status == 404)


def test_the_location_of_a_connector_leads_to_it_whatever_its_name(worker: Worker, lines: Path) -> None:
    name = f"ä b/{uuid.uuid4().hex[:8]}"
    made = worker.call(
        "POST", "/connectors", {"name": name, "config": source(lines), "initial_state": "STOPPED"}
    )
    assert made.status == 201
    path = made.headers["Location"].removeprefix(worker.url)
    assert worker.call("GET", path).body["name"] == name
    assert worker.call("DELETE", path).status == 204


def test_the_status_names_worker_version_and_type(worker: Worker, running: str) -> None:
    status = worker.call("GET", f"/connectors/{running}/status").body
    host = worker.url.removeprefix("http://")
    assert status["name"] == running
    assert status["type"] == "source"
    assert status["connector"]["state"] == "RUNNING"
    assert status["connector"]["worker_id"] == host
    assert status["connector"]["version"]
    assert [each["id"] for each in status["tasks"]] == [0]
    task = worker.call("GET", f"/connectors/{running}/tasks/0/status")
    assert task.body == status["tasks"][0]


def test_connectors_are_expanded_by_status_and_info(worker: Worker, running: str) -> None:
    both = worker.call("GET", "/connectors?expand=status&expand=info").body[running]
    assert set(both) == {"status", "info"}
    assert set(worker.call("GET", "/connectors?expand=info").body[running]) == {"info"}
    assert worker.call("GET", "/connectors?expand=something").body[running] == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "message"),
    [
        ("GET", "/connectors/x", None, "Connector x not found"),
        ("GET", "/connectors/x/config", None, "Connector x not found"),
        ("GET", "/connectors/x/tasks", None, "Connector x not found"),
        ("GET", "/connectors/x/offsets", None, "Connector x not found"),
        ("DELETE", "/connectors/x", None, "Connector x not found"),
        ("PATCH", "/connectors/x/config", {"a": "b"}, "Connector x not found"),
        ("DELETE", "/connectors/x/offsets", None, "Connector x not found"),
        ("GET", "/connectors/x/status", None, "No status found for connector x"),
        ("GET", "/connectors/x/tasks/0/status", None, "No status found for task x-0"),
        ("PUT", "/connectors/x/pause", None, "Unknown connector x"),
        ("PUT", "/connectors/x/resume", None, "Unknown connector x"),
        ("PUT", "/connectors/x/stop", None, "Unknown connector x"),
        ("POST", "/connectors/x/restart", None, "Unknown connector: x"),
        ("POST", "/connectors/x/restart?includeTasks=true", None, "Unknown connector: x"),
        ("POST", "/connectors/x/tasks/0/restart", None, "Unknown connector: x"),
        ("GET", "/connectors/x/tasks/y/status", None, "HTTP 404 Not Found"),
        ("GET", "/connector-plugins/Nope/config", None, "Unknown plugin Nope."),
        ("GET", "/nope", None, "HTTP 404 Not Found"),
    ],
)
def test_what_is_not_there_is_404(worker: Worker, method: str, path: str, body: object, message: str) -> None:
    answer = worker.call(method, path, body)
    assert (answer.status, answer.body) == (404, {"error_code": 404, "message": message})


def test_a_second_connector_of_a_name_is_409(worker: Worker, running: str, lines: Path) -> None:
    answer = worker.call("POST", "/connectors", {"name": running, "config": source(lines)})
    assert (answer.status, answer.body["message"]) == (409, f"Connector {running} already exists")


def test_a_config_with_another_name_is_400(worker: Worker, lines: Path) -> None:
    sentence = "Connector name configuration (g) doesn't match connector name in the URL (f)"
    for answer in (
        worker.call("POST", "/connectors", {"name": "f", "config": source(lines, name="g")}),
        worker.call("PUT", "/connectors/f/config", source(lines, name="g")),
        worker.call("PATCH", "/connectors/f/config", {"name": "g"}),
    ):
        assert (answer.status, answer.body["message"]) == (400, sentence)


def test_an_invalid_config_is_400_with_every_error(worker: Worker) -> None:
    config = {
        "connector.class": "FileStreamSource",
        "tasks.max": "0",
        "key.converter": "nope",
        "transforms": "a,b",
        "transforms.a.type": "Nope",
        "transforms.b.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    }
    answer = worker.call("POST", "/connectors", {"name": "f", "config": config})
    assert answer.status == 400
    assert answer.body["message"] == (
        "Connector configuration is invalid and contains the following 5 error(s):\n"
        "Invalid value 0 for configuration tasks.max: Value must be at least 1\n"
        "Invalid value nope for configuration key.converter: Class nope could not be found.\n"
        "Invalid value Nope for configuration transforms.a.type: Class Nope could not be found.\n"
        'Missing required configuration "transforms.b.field" which has no default value.\n'
        'Missing required configuration "topic" which has no default value.' + ENDPOINT
    )


def test_an_unknown_class_is_400_with_a_guess(worker: Worker) -> None:
    answer = worker.call(
        "POST", "/connectors", {"name": "f", "config": {"connector.class": "FileStreemSource"}}
    )
    assert answer.status == 400
    message = answer.body["message"]
    assert message.startswith(
        "Failed to find any class that implements Connector and which name matches FileStreemSource, "
        "available connectors are: "
    )
    assert message.endswith("Did you mean FileStreamSource?")


def test_a_config_without_a_class_is_400(worker: Worker) -> None:
    answer = worker.call("POST", "/connectors", {"name": "f", "config": {"topic": "t"}})
    assert answer.status == 400
    assert answer.body["message"] == "Connector config {topic=t, name=f} contains no connector type"


@pytest.mark.parametrize("body", [b"{", b"", b"[]", {"name": "f"}, {"name": "f", "config": {}, "x": 1}])
def test_a_body_that_makes_no_sense_is_one_sentence(worker: Worker, body: object) -> None:
    answer = worker.call("POST", "/connectors", body)
    assert answer.status == 400
    assert len(answer.body["message"].splitlines()) == 1


def test_put_creates_or_replaces_and_patch_merges(worker: Worker, name: str, lines: Path) -> None:
    config = source(lines)
    assert worker.call("PUT", f"/connectors/{name}/config", config).status == 201
    again = worker.call("PUT", f"/connectors/{name}/config", {**config, "batch.size": "7"})
    assert (again.status, again.body["config"]["batch.size"]) == (200, "7")
    patched = worker.call("PATCH", f"/connectors/{name}/config", {"batch.size": None, "tasks.max": 1})
    assert patched.status == 200
    assert patched.body["config"] == {**config, "name": name}
    worker.wait_until(name, "RUNNING", ["RUNNING"])


def test_pause_and_resume_are_202_and_stop_is_204(worker: Worker, running: str) -> None:
    assert worker.call("PUT", f"/connectors/{running}/pause").status == 202
    worker.wait_until(running, "PAUSED", ["PAUSED"])
    assert worker.call("PUT", f"/connectors/{running}/resume").status == 202
    worker.wait_until(running, "RUNNING", ["RUNNING"])
    assert worker.call("PUT", f"/connectors/{running}/stop").status == 204
    worker.wait_until(running, "STOPPED", [])
    assert worker.call("GET", f"/connectors/{running}/tasks").body == []
    assert worker.call("PUT", f"/connectors/{running}/resume").status == 202
    worker.wait_until(running, "RUNNING", ["RUNNING"])


@pytest.mark.parametrize(("initial", "state"), [("PAUSED", "PAUSED"), ("stopped", "STOPPED")])
def test_a_connector_may_begin_otherwise_than_running(
    worker: Worker, name: str, lines: Path, initial: str, state: str
) -> None:
    body = {"name": name, "config": source(lines), "initial_state": initial}
    assert worker.call("POST", "/connectors", body).status == 201
    worker.wait_until(name, state, [])
    assert worker.call("GET", f"/connectors/{name}").body["tasks"] == []
    assert worker.call("PUT", f"/connectors/{name}/resume").status == 202
    worker.wait_until(name, "RUNNING", ["RUNNING"])
    wrong = {**body, "name": "w", "initial_state": "DESTROYED"}
    assert worker.call("POST", "/connectors", wrong).status == 400


def test_restarts(worker: Worker, running: str) -> None:
    assert worker.call("POST", f"/connectors/{running}/restart").status == 204
    answer = worker.call("POST", f"/connectors/{running}/restart?includeTasks=true")
    assert answer.status == 202
    assert answer.body["connector"]["state"] == "RESTARTING"
    assert [each["state"] for each in answer.body["tasks"]] == ["RESTARTING"]
    worker.wait_until(running, "RUNNING", ["RUNNING"])
    only = worker.call("POST", f"/connectors/{running}/restart?includeTasks=true&onlyFailed=true")
    assert (only.status, only.body["connector"]["state"]) == (202, "RUNNING")
    assert worker.call("POST", f"/connectors/{running}/tasks/0/restart").status == 204
    missing = worker.call("POST", f"/connectors/{running}/tasks/9/restart")
    assert (missing.status, missing.body["message"]) == (404, f"Unknown task: {running}-9")


def test_a_task_that_fails_is_shown_with_its_trace(worker: Worker, name: str, tmp_path: Path) -> None:
    config = source(tmp_path / "lines", transforms="x")
    config |= {
        "transforms.x.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.x.field": "nothing",
    }
    (tmp_path / "lines").write_text("a\n")
    assert worker.call("POST", "/connectors", {"name": name, "config": config}).status == 201
    worker.wait_until(name, "RUNNING", ["FAILED"])
    task = worker.call("GET", f"/connectors/{name}/tasks/0/status").body
    assert task["trace"].strip()


def test_topics_in_use_are_shown_and_reset(worker: Worker, running: str) -> None:
    topic = worker.call("GET", f"/connectors/{running}/config").body["topic"]
    wait_for(
        lambda: worker.call("GET", f"/connectors/{running}/topics").body == {running: {"topics": [topic]}}
    )
    assert worker.call("PUT", f"/connectors/{running}/pause").status == 202
    worker.wait_until(running, "PAUSED")
    assert worker.call("PUT", f"/connectors/{running}/topics/reset").status == 202
    wait_for(lambda: worker.call("GET", f"/connectors/{running}/topics").body == {running: {"topics": []}})


def test_offsets_of_a_source_are_shown_altered_and_reset(worker: Worker, running: str, lines: Path) -> None:
    path = f"/connectors/{running}/offsets"
    partition = {"filename": str(lines)}
    expected = {"offsets": [{"partition": partition, "offset": {"position": 4}}]}
    wait_for(lambda: worker.call("GET", path).body == expected)
    change = {"offsets": [{"partition": partition, "offset": {"position": 2}}]}
    refused = worker.call("PATCH", path, change)
    assert refused.status == 400
    assert refused.body["message"] == (
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
        f"specified connector by issuing a 'PUT' request to the '/connectors/{running}/stop' endpoint"
    )
    assert worker.call("PUT", f"/connectors/{running}/stop").status == 204
    worker.wait_until(running, "STOPPED", [])
    altered = worker.call("PATCH", path, change)
    assert (altered.status, altered.body) == (
        200,
        {"message": "The offsets for this connector have been altered successfully"},
    )
    assert worker.call("GET", path).body == change
    for empty in ({"offsets": []}, {}):
        none = worker.call("PATCH", path, empty)
        assert (none.status, none.body["message"]) == (
            400,
            "Partitions / offsets need to be provided for an alter offsets request",
        )
    reset = worker.call("DELETE", path)
    assert (reset.status, reset.body) == (
        200,
        {"message": "The offsets for this connector have been reset successfully"},
    )
    assert worker.call("GET", path).body == {"offsets": []}


def test_offsets_of_a_sink_are_those_of_its_group(
    worker: Worker, broker: Broker, name: str, tmp_path: Path
) -> None:
    topic = f"t-{name}"
    broker.create_topic(topic)
    for value in (b"1", b"2", b"3"):
        broker.produce(topic, value)
    config = {"connector.class": SINK, "topics": topic, "file": str(tmp_path / "out"), "tasks.max": "1"}
    assert worker.call("POST", "/connectors", {"name": name, "config": config}).status == 201
    path = f"/connectors/{name}/offsets"

    def at(offset: int) -> Any:
        return {
            "offsets": [
                {
                    "partition": {"kafka_topic": topic, "kafka_partition": 0},
                    "offset": {"kafka_offset": offset},
                }
            ]
        }

    wait_for(lambda: worker.call("GET", path).body == at(3))
    assert worker.call("PUT", f"/connectors/{name}/stop").status == 204
    worker.wait_until(name, "STOPPED", [])
    assert worker.call("PATCH", path, at(1)).status == 200
    assert worker.call("GET", path).body == at(1)
    assert worker.call("PATCH", path, {"offsets": [{"partition": {"a": 1}, "offset": {}}]}).status == 400
    for where, offset, code, message in (
        ({"kafka_topic": None}, 1, 400, "Kafka topic names must be valid strings and may not be null"),
        ({"kafka_partition": "x"}, 1, 400, "Failed to parse the following Kafka partition value"),
        ({}, "x", 400, "Failed to parse the following Kafka offset value in the provided offsets: 'x'."),
        ({"kafka_topic": "none"}, 1, 500, "Failed to alter consumer group offsets for connector"),
    ):
        [given] = at(1)["offsets"]
        wrong = {"partition": {**given["partition"], **where}, "offset": {"kafka_offset": offset}}
        answer = worker.call("PATCH", path, {"offsets": [wrong]})
        assert (answer.status, message in answer.body["message"]) == (code, True), answer
    assert worker.call("DELETE", path).status == 200
    assert worker.call("GET", path).body == {"offsets": []}


def test_plugins_are_listed_by_kind(worker: Worker) -> None:
    connectors = worker.call("GET", "/connector-plugins").body
    assert {"class": SOURCE, "type": "source"} in [
        {key: each[key] for key in ("class", "type")} for each in connectors
    ]
    assert {each["type"] for each in connectors} == {"source", "sink"}
    every = worker.call("GET", "/connector-plugins?connectorsOnly=false").body
    assert {each["type"] for each in every} == {
        "source",
        "sink",
        "converter",
        "header_converter",
        "transformation",
        "predicate",
    }


def test_a_plugin_shows_its_settings(worker: Worker) -> None:
    settings = {
        each["name"]: each for each in worker.call("GET", "/connector-plugins/FileStreamSource/config").body
    }
    assert settings["topic"]["required"] is True
    assert settings["batch.size"]["default_value"] == "2000"
    assert settings["name"]["group"] == "Common"
    field = "/connector-plugins/org.apache.kafka.connect.transforms.HoistField$Value/config"
    assert [each["name"] for each in worker.call("GET", field).body] == ["field"]
    by_alias = worker.call("GET", "/connector-plugins/TopicNameMatches/config").body
    assert [each["name"] for each in by_alias] == ["pattern"]
    assert worker.call("GET", "/connector-plugins/JsonConverter/config").status == 200


def test_validation_has_definition_and_value_of_each_setting(worker: Worker) -> None:
    config = {"connector.class": "FileStreamSource", "topic": "t", "tasks.max": "1"}
    answer = worker.call("PUT", "/connector-plugins/FileStreamSource/config/validate", config)
    assert answer.status == 200
    assert answer.body["name"] == "FileStreamSource"
    assert answer.body["error_count"] == 1
    assert answer.body["groups"] == [
        "Common",
        "Transforms",
        "Predicates",
        "Error Handling",
        "Topic Creation",
        "Exactly Once Support",
        "offsets.topic",
    ]
    configs = {each["definition"]["name"]: each for each in answer.body["configs"]}
    assert list(configs)[:2] == ["name", "connector.class"]
    assert configs["name"]["value"]["errors"] == [
        'Missing required configuration "name" which has no default value.'
    ]
    assert configs["key.converter"]["definition"]["default_value"].endswith(".StringConverter")
    assert configs["tasks.max"]["definition"] == {
        **configs["tasks.max"]["definition"],
        "type": "INT",
        "required": False,
        "default_value": "1",
        "importance": "HIGH",
        "group": "Common",
        "order_in_group": 4,
        "width": "SHORT",
        "display_name": "Tasks max",
    }
    assert list(configs)[-3:] == ["file", "topic", "batch.size"]
    other = worker.call("PUT", "/connector-plugins/FileStreamSink/config/validate", config)
    assert (other.status, other.body["message"]) == (
        400,
        "Included connector type FileStreamSource does not match request type FileStreamSink",
    )


def test_overridden_client_settings_are_checked(worker: Worker) -> None:
    path = "/connector-plugins/FileStreamSink/config/validate"
    given = {
        "connector.class": "FileStreamSink",
        "name": "q",
        "topics": "a",
        "producer.override.acks": "maybe",
        "producer.override.linger.ms": "5",
        "consumer.override.max.poll.records": "0",
        "consumer.override.isolation.level": "read_some",
        "admin.override.request.timeout.ms": "soon",
        "consumer.override.unknown.setting": "x",
    }
    configs = worker.call("PUT", path, given).body["configs"]
    wrong = {each["value"]["name"]: each["value"]["errors"] for each in configs if each["value"]["errors"]}
    assert wrong == {
        "producer.override.acks": [
            "Invalid value maybe for configuration acks: String must be one of: all, -1, 0, 1"
        ],
        "consumer.override.max.poll.records": [
            "Invalid value 0 for configuration max.poll.records: Value must be at least 1"
        ],
        "consumer.override.isolation.level": [
            "Invalid value read_some for configuration isolation.level: String must be one of: read_committed, "
            "read_uncommitted"
        ],
        "admin.override.request.timeout.ms": [
            "Invalid value soon for configuration request.timeout.ms: Not a number of type INT"
        ],
    }


def test_a_sink_needs_topics(worker: Worker) -> None:
    path = "/connector-plugins/FileStreamSink/config/validate"
    answer = worker.call("PUT", path, {"connector.class": "FileStreamSink", "name": "q", "file": "x"})
    assert answer.body["error_count"] == 2
    assert answer.body["groups"] == ["Common", "Transforms", "Predicates", "Error Handling"]
    given = {
        "connector.class": "FileStreamSink",
        "name": "q",
        "file": "x",
        "topics": "a,,b",
        "tasks.max": "x",
    }
    found = {each["value"]["name"]: each["value"] for each in worker.call("PUT", path, given).body["configs"]}
    assert found["topics"]["errors"] == ["Configuration 'topics' values must not be empty."]
    assert found["topics"]["value"] == "a,,b"
    # An invalid number has no value to show.
    assert (found["tasks.max"]["value"], len(found["tasks.max"]["errors"])) == (None, 1)


def test_loggers_are_shown_and_set(worker: Worker) -> None:
    path = "/admin/loggers/ottla.connect.made.up"
    assert "root" in worker.call("GET", "/admin/loggers").body
    assert worker.call("PUT", path, {"level": "debug"}).body == ["ottla.connect.made.up"]
    shown = worker.call("GET", path).body
    assert shown["level"] == "DEBUG"
    assert shown["last_modified"] > 0
    assert worker.call("PUT", f"{path}?scope=cluster", {"level": "ERROR"}).status == 204
    wait_for(lambda: worker.call("GET", path).body["level"] == "ERROR")
    missing = worker.call("PUT", path, {})
    assert (missing.status, missing.body["message"]) == (
        400,
        "Desired 'level' parameter was not specified in request.",
    )
    assert worker.call("PUT", path, {"level": "HUGE"}).status == 404
    unknown = worker.call("GET", "/admin/loggers/no.such.logger")
    assert (unknown.status, unknown.body["message"]) == (404, "Logger no.such.logger not found.")
    assert worker.call("GET", "/admin/loggers/ROOT").body == worker.call("GET", "/admin/loggers/root").body


def test_a_level_of_the_root_counts_for_loggers_that_have_their_own(worker: Worker) -> None:
    path = "/admin/loggers/ottla.connect.made.down"
    before = worker.call("GET", "/admin/loggers/root").body["level"]
    worker.call("PUT", path, {"level": "TRACE"})
    try:
        changed = worker.call("PUT", "/admin/loggers/root", {"level": "ERROR"}).body
        assert {"root", "ottla.connect.made.down"} <= set(changed)
        assert worker.call("GET", path).body["level"] == "ERROR"
    finally:
        worker.call("PUT", "/admin/loggers/root", {"level": before})


def test_methods_and_content_types_that_there_are_not(worker: Worker) -> None:
    assert worker.call("DELETE", "/connectors").status == 405
    assert worker.call("POST", "/connectors", b"x", Content_Type="text/plain").status == 415


def test_configs_of_tasks_are_taken_from_workers_only(worker: Worker, running: str) -> None:
    path = f"/connectors/{running}/tasks"
    assert worker.call("POST", path, [{"a": "b"}]).status == 400
    forged = worker.call(
        "POST",
        path,
        [{"a": "b"}],
        X_Connect_Authorization="bm8=",
        X_Connect_Request_Signature_Algorithm="HmacSHA256",
    )
    assert forged.status == 403


def test_the_openapi_document_has_every_path(worker: Worker) -> None:
    document = worker.call("GET", "/openapi.json").body
    assert "/connectors/{connector}/offsets" in document["paths"]
    assert json.dumps(document)
