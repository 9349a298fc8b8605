"""Promise: Kafka's worker and ours answer the same requests with the same codes and the same JSON."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.peers.apache_kafka import Unavailable, application_classpath
from ottla.testing import Broker
from tests.connect.worker.workers import Worker, call, distributed_properties, wait_for
from tests.peers.connect.kafka_connect import KafkaConnect

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

HOIST = "org.apache.kafka.connect.transforms.HoistField$Value"
MATCHES = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
SOURCE = {"connector.class": "FileStreamSource", "topic": "t", "tasks.max": "1"}
SINK = {"connector.class": "FileStreamSink", "name": "q", "file": "x"}
VALIDATE = "/connector-plugins/{}/config/validate"

#: In this order, on empty workers. FILE is a file with two lines.
REQUESTS: list[tuple[str, str, Any]] = [
    ("GET", "/connectors", None),
    ("GET", "/health", None),
    *(
        ("GET", f"/connectors/x{path}", None)
        for path in ("", "/config", "/status", "/tasks", "/topics", "/offsets", "/tasks/0/status", "/nope")
    ),
    ("DELETE", "/connectors/x", None),
    ("PUT", "/connectors/x/pause", None),
    ("PUT", "/connectors/x/resume", None),
    ("PUT", "/connectors/x/stop", None),
    ("POST", "/connectors/x/restart", None),
    ("POST", "/connectors/x/restart?includeTasks=true", None),
    ("POST", "/connectors/x/tasks/0/restart", None),
    ("PUT", "/connectors/x/topics/reset", None),
    ("PATCH", "/connectors/x/config", {"a": "b"}),
    ("DELETE", "/connectors/x/offsets", None),
    ("PATCH", "/connectors/x/offsets", {"offsets": []}),
    ("POST", "/connectors", {"name": "f", "config": {**SOURCE, "name": "g"}}),
    (
        "POST",
        "/connectors",
        {"name": "f", "config": {"connector.class": "FileStreamSource", "tasks.max": "0"}},
    ),
    ("POST", "/connectors", {"name": "", "config": SOURCE}),
    ("POST", "/connectors", {"name": "f", "config": {**SOURCE, "errors.tolerance": "maybe"}}),
    ("POST", "/connectors", {"name": "f", "config": {**SOURCE, "transforms": "a,a"}}),
    ("POST", "/connectors", {"name": "f", "config": {**SOURCE, "transforms": "a"}}),
    (
        "POST",
        "/connectors",
        {"name": "f", "config": {**SOURCE, "transforms": "a", "transforms.a.type": HOIST}},
    ),
    ("POST", "/connectors", {"name": "f", "config": {**SOURCE, "file": "FILE"}}),
    ("POST", "/connectors", {"name": "f", "config": SOURCE}),
    ("PUT", "/connectors/f/config", {**SOURCE, "name": "g"}),
    ("POST", "/connectors", {"name": "st", "config": SOURCE, "initial_state": "STOPPED"}),
    ("POST", "/connectors", {"name": "pa", "config": SOURCE, "initial_state": "PAUSED"}),
    ("WAIT", "/connectors/f/status", "RUNNING"),
    ("WAIT", "/connectors/st/status", "STOPPED"),
    ("WAIT", "/connectors/pa/status", "PAUSED"),
    ("GET", "/connectors/pa/status", None),
    ("GET", "/connectors/pa/tasks", None),
    ("GET", "/connectors/f", None),
    ("GET", "/connectors/f/config", None),
    ("GET", "/connectors/f/tasks", None),
    ("GET", "/connectors/f/status", None),
    ("GET", "/connectors/st/status", None),
    ("GET", "/connectors/f/tasks/0/status", None),
    ("GET", "/connectors/f/tasks/7/status", None),
    ("GET", "/connectors?expand=info", None),
    ("GET", "/connectors?expand=what", None),
    ("PATCH", "/connectors/f/offsets", {"offsets": [{"partition": {"filename": "a"}, "offset": None}]}),
    ("POST", "/connectors/f/tasks/9/restart", None),
    ("PUT", "/connectors/f/pause", None),
    ("WAIT", "/connectors/f/status", "PAUSED"),
    ("PUT", "/connectors/f/resume", None),
    ("WAIT", "/connectors/f/status", "RUNNING"),
    ("PUT", "/connectors/f/stop", None),
    ("WAIT", "/connectors/f/status", "STOPPED"),
    ("GET", "/connectors/f/status", None),
    ("GET", "/connectors/f/tasks", None),
    (
        "PATCH",
        "/connectors/f/offsets",
        {"offsets": [{"partition": {"filename": "FILE"}, "offset": {"position": 2}}]},
    ),
    ("GET", "/connectors/f/offsets", None),
    ("DELETE", "/connectors/f/offsets", None),
    ("GET", "/connectors/f/offsets", None),
    ("PUT", VALIDATE.format("FileStreamSource"), SOURCE),
    ("PUT", VALIDATE.format("FileStreamSource"), {**SINK}),
    ("PUT", VALIDATE.format("FileStreamSink"), SINK),
    (
        "PUT",
        VALIDATE.format("FileStreamSink"),
        {
            **SINK,
            "topics": "a",
            "topics.regex": "b",
            "transforms": "h",
            "transforms.h.type": HOIST,
            "transforms.h.field": "f",
            "transforms.h.predicate": "pp",
            "predicates": "pp",
            "predicates.pp.type": MATCHES,
            "predicates.pp.pattern": "x.*",
            "errors.deadletterqueue.topic.name": "a",
        },
    ),
    ("GET", "/connector-plugins/FileStreamSource/config", None),
    ("GET", "/connector-plugins/FileStreamSink/config", None),
    ("GET", f"/connector-plugins/{HOIST}/config", None),
    ("GET", "/connector-plugins/TopicNameMatches/config", None),
    ("GET", "/connector-plugins/Nope/config", None),
    ("PUT", VALIDATE.format("FileStreamSource"), {**SOURCE, "batch.size": "x"}),
    ("POST", "/connectors", {"name": "q", "config": {**SINK, "topics": "a,,b"}}),
    ("PUT", "/admin/loggers/some.thing", {}),
    ("DELETE", "/connectors", None),
    ("GET", "/nope", None),
    ("DELETE", "/connectors/f", None),
    ("DELETE", "/connectors/f", None),
]


_NEVER_RUN = "/connectors/pa/status"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    try:
        application_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with Broker() as broker:
        yield broker


def answers(url: str, file: Path) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    for method, path, body in REQUESTS:
        if method == "WAIT":

            def is_so(path: str = path, state: str = body) -> bool:
                status = call(url, "GET", path)
                if status.status != 200:
                    return False
                tasks = [each["state"] for each in status.body["tasks"]]
                expected = [] if state == "STOPPED" or path == _NEVER_RUN else [state]
                return bool(status.body["connector"]["state"] == state and tasks == expected)

            wait_for(is_so, f"{path} does not become {body}")
            continue
        given = None if body is None else json.loads(json.dumps(body).replace("FILE", str(file)))
        answer = call(url, method, path, given)
        while answer.status == 409 and "stale configuration" in answer.body["message"]:
            time.sleep(0.1)  # Kafka's worker refuses requests while it rebalances; ours does not
            answer = call(url, method, path, given)
        found.append((answer.status, answer.body))
    return found


def plain(body: Any) -> Any:
    """Remove worker-specific parts: address, version, and individual wording."""
    if isinstance(body, dict):
        kept = {name: plain(value) for name, value in body.items() if name not in _OWN}
        if str(kept.get("name", "")).endswith("plugin.version"):
            kept.pop("value", None)
            kept.pop("default_value", None)
        return kept
    if isinstance(body, list):
        return [plain(each) for each in body]
    return re.sub(r"127\.0\.0\.1:\d+", "HOST", body) if isinstance(body, str) else body


def unlike(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the differing parts of two responses."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        parts = {name: unlike(one[name], other[name]) for name in one if one[name] != other[name]}
        return {name: each[0] for name, each in parts.items()}, {
            name: each[1] for name, each in parts.items()
        }
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [unlike(*each) for each in zip(one, other, strict=True) if each[0] != each[1]]
        return [each[0] for each in pairs], [each[1] for each in pairs]
    return one, other


_OWN = {"version", "documentation", "recommended_values"}


def test_the_same_requests_get_the_same_answers(broker: Broker, tmp_path: Path) -> None:
    files = [tmp_path / "lines", tmp_path / "l2nes"]
    for file in files:
        file.write_text("a\nb\n")
    given = distributed_properties(broker.bootstrap_servers, "theirs")
    del given["listeners"]
    with KafkaConnect(tmp_path, given) as kafka:
        wait_for(lambda: call(kafka.url, "GET", "/health").status == 200)
        theirs = answers(kafka.url, files[0])
    with Worker(distributed_properties(broker.bootstrap_servers, "ours")) as worker:
        worker.wait_until_ready()
        ours = answers(worker.url, files[0])
    asked = [each for each in REQUESTS if each[0] != "WAIT"]
    different = []
    for (method, path, body), (code, said), (our_code, we_said) in zip(asked, theirs, ours, strict=True):
        if (code, plain(said)) != (our_code, plain(we_said)):
            kafkas, our = unlike(plain(said), plain(we_said))
            different.append(f"{method} {path} {body}\n  Kafka: {code} {kafkas}\n  ours:  {our_code} {our}")
    assert not different, "\n".join(different)
