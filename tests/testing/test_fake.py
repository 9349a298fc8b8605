"""`ottla fake` as a program in another language uses it: a process, and HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from ottla.http.router import Router
from ottla.testing.fake import Fake


class Control:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.addresses: dict[str, Any] = json.loads(process.stdout.readline())
        self.servers: str = self.addresses["bootstrap_servers"]

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.addresses["control"] + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["message"]

    def post(self, path: str, **body: object) -> Any:
        status, answer = self.call("POST", path, body)
        assert status < 300, answer
        return answer

    def values(self, topic: str) -> list[str | None]:
        return [each["value"] for each in self.call("GET", f"/topics/{topic}/records")[1]]

    def producer(self, **options: object) -> Producer:
        return Producer({"bootstrap.servers": self.servers, "linger.ms": 0, "log_level": 0, **options})


@contextmanager
def fake(*options: str) -> Iterator[Control]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.testing", "--with-parent", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Control(process)
    finally:
        process.communicate(timeout=60)
        assert process.returncode == 0


@pytest.fixture(scope="module")
def running() -> Iterator[Control]:
    with fake() as control:
        yield control


@pytest.fixture
def control(running: Control) -> Control:
    """The same process for every test, as a test suite would use it."""
    running.post("/reset")
    return running


def delivery(producer: Producer, topic: str, value: str) -> list[str | None]:
    """Return the outcome of one record: an empty list before it is known, then its error or None."""
    outcome: list[str | None] = []
    producer.produce(
        topic, value, on_delivery=lambda error, _: outcome.append(None if error is None else str(error))
    )
    producer.flush(30)
    return outcome


def test_topics_and_records(control: Control) -> None:
    control.post("/topics", name="orders", partitions=2, config={"cleanup.policy": "compact"})
    assert control.call("GET", "/topics")[1] == [{"name": "orders", "partitions": 2}]
    assert control.post("/topics/orders/records", key="k", value={"n": 1}, partition=1)["offset"] == 0
    control.post("/topics/orders/records", key="k", value_base64="/w==", partition=1, timestamp=5)
    first, second = control.call("GET", "/topics/orders/records?partition=1")[1]
    assert (first["key"], json.loads(first["value"])) == ("k", {"n": 1})
    assert (second["value_base64"], second["timestamp"]) == ("/w==", 5)
    assert control.call("DELETE", "/topics/orders")[0] == 204
    assert control.call("GET", "/topics")[1] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/topics", {"nam": "t"}, 400, "Did you mean 'name'?"),
        ("POST", "/topics", {}, 400, "lacks name"),
        ("POST", "/topics", {"name": "a b"}, 400, "INVALID_TOPIC"),
        ("POST", "/topics", {"name": "t", "partitions": -1}, 400, "0 or more"),
        ("POST", "/topics", {"name": "t", "config": {"retention.mss": "1"}}, 400, "retention.mss"),
        ("POST", "/topics", [1], 400, "JSON object"),
        ("DELETE", "/topics/none", None, 404, "no topic none"),
        ("GET", "/topics/none/records", None, 404, "no topic none"),
        ("POST", "/faults", {"api": "Prodce", "error": "UNKNOWN_TOPIC_ID"}, 400, "Did you mean 'Produce'?"),
        ("POST", "/faults", {"api": "Produce", "error": "NOT_LEADER"}, 400, "Did you mean"),
        ("POST", "/faults", {"api": "Produce"}, 400, "needs an effect"),
        ("GET", "/requests?api=Fetsch", None, 400, "Did you mean 'Fetch'?"),
        ("POST", "/wait", {"api": "Fetsch"}, 400, "Did you mean 'Fetch'?"),
        ("POST", "/wait", {"timeout_ms": 1}, 400, "group must be a text"),
        ("POST", "/users", {"name": "ann", "password": "x"}, 400, "start it with security"),
        ("POST", "/snapshots/none/restore", {}, 404, "no snapshot none"),
    ],
)
def test_mistakes_are_explained(
    control: Control, method: str, path: str, body: object, status: int, words: str
) -> None:
    found, message = control.call(method, path, body)
    assert found == status
    assert words in message


def test_an_error_strikes_one_topic_and_then_is_gone(control: Control) -> None:
    for name in ("a", "b"):
        control.post("/topics", name=name)
    control.post("/faults", api="Produce", topic="a", error="INVALID_RECORD")
    producer = control.producer()
    assert delivery(producer, "b", "fine") == [None]
    [error] = delivery(producer, "a", "refused")
    assert "INVALID_RECORD" in str(error)
    assert delivery(producer, "a", "fine") == [None]
    assert control.values("a") == ["fine"]


def test_a_dropped_response_makes_a_producer_send_again(control: Control) -> None:
    control.post("/topics", name="t")
    control.post("/faults", api="Produce", drop=True, after=True)
    producer = control.producer(**{"enable.idempotence": False})
    assert delivery(producer, "t", "twice") == [None]
    assert control.values("t") == ["twice", "twice"]


def test_a_dropped_request_is_not_executed(control: Control) -> None:
    control.post("/topics", name="t")
    control.post("/faults", api="Produce", drop=True)
    assert delivery(control.producer(**{"enable.idempotence": False}), "t", "once") == [None]
    assert control.values("t") == ["once"]


def test_the_third_request_of_one_client_is_late(control: Control) -> None:
    control.post("/topics", name="t")
    control.post("/faults", api="Produce", client_id="slow", skip=2, delay_ms=400)
    times = []
    for client_id in ("fast", "slow"):
        producer = control.producer(**{"client.id": client_id})
        for number in range(3):
            began = time.monotonic()
            assert delivery(producer, "t", str(number)) == [None]
            times.append(time.monotonic() - began)
    assert times[-1] >= 0.4
    assert control.call("GET", "/faults")[1] == []


def test_a_seed_decides_which_requests_a_likely_fault_strikes() -> None:
    def struck() -> list[bool]:
        with fake("--seed", "7") as control:
            control.post("/topics", name="t")
            control.post("/faults", api="Produce", times=None, probability=0.5, error="INVALID_RECORD")
            producer = control.producer()
            return [delivery(producer, "t", "x") != [None] for _ in range(12)]

    first = struck()
    assert first == struck()
    assert any(first)
    assert not all(first)


def test_faults_are_listed_and_cleared(control: Control) -> None:
    control.post("/faults", api="Fetch", partition=3, times=2, error="OFFSET_OUT_OF_RANGE")
    [listed] = control.call("GET", "/faults")[1]
    assert listed == {
        "api": "Fetch",
        "partition": 3,
        "times": 2,
        "error": "OFFSET_OUT_OF_RANGE",
        "probability": 1.0,
    }
    assert control.call("DELETE", "/faults")[0] == 204
    assert control.call("GET", "/faults")[1] == []


def test_requests_are_observed(control: Control) -> None:
    control.post("/topics", name="t")
    delivery(control.producer(**{"client.id": "me"}), "t", "x")
    [seen] = control.call("GET", "/requests?api=Produce&client_id=me")[1]
    assert (seen["api"], seen["client_id"], seen["topics"]) == ("Produce", "me", ["t"])
    assert control.post("/wait", api="Produce", count=1) == {"api": "Produce", "count": 1}
    status, message = control.call("POST", "/wait", {"api": "Produce", "count": 99, "timeout_ms": 1})
    assert status == 408
    assert '"count": 1' in message


def test_groups_and_offsets_are_awaited(control: Control) -> None:
    control.post("/topics", name="t")
    control.post("/topics/t/records", value="x")
    consumer = Consumer(
        {
            "bootstrap.servers": control.servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe(["t"])
        message = None
        while message is None:
            message = consumer.poll(0.5)
        stable = control.post("/wait", group="g", state="Stable", members=1)
        assert stable == {"group": "g", "state": "Stable", "members": 1}
        consumer.commit(message=message, asynchronous=False)
        assert control.post("/wait", group="g", topic="t", committed=1)["committed"] == 1
    finally:
        consumer.close()
    assert control.post("/wait", group="g", state="Empty")["members"] == 0
    status, _ = control.call("POST", "/wait", {"group": "g", "topic": "t", "committed": 2, "timeout_ms": 1})
    assert status == 408


def test_a_snapshot_brings_records_and_offsets_back(control: Control) -> None:
    control.post("/topics", name="t")
    control.post("/topics/t/records", value="before")
    control.post("/snapshots/a")
    control.post("/topics/t/records", value="after")
    control.post("/restart")
    assert control.values("t") == ["before", "after"]
    control.post("/snapshots/a/restore")
    assert control.values("t") == ["before"]
    control.post("/reset")
    assert control.call("GET", "/topics")[1] == []
    control.post("/snapshots/a/restore")
    assert control.values("t") == ["before"]


def test_users_and_acls_come_at_run_time() -> None:
    with fake("--security", "SASL_PLAINTEXT", "--acls") as control:
        control.post("/topics", name="t")
        control.post("/users", name="ann", password="secret")
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "ann",
            "sasl.password": "secret",
        }
        admin = AdminClient({"bootstrap.servers": control.servers, "log_level": 0, **login})
        assert set(admin.list_topics(timeout=30).topics) == set()
        control.post("/acls", user="ann", operation="describe", topic="t")
        assert set(admin.list_topics(timeout=30).topics) == {"t"}
        assert "operation" in control.call("POST", "/acls", {"user": "ann", "operation": "reed"})[1]


def test_a_schema_registry_comes_along() -> None:
    with (
        fake("--registry") as control,
        urllib.request.urlopen(f"{control.addresses['schema_registry']}/subjects") as answer,
    ):
        assert json.load(answer) == []


def test_the_description_names_every_route(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    described = control.call("GET", "/openapi.json")[1]
    served: list[tuple[str, str]] = []
    add = Router.add

    def noted(self: Router, method: str, path: str, *given: Any, **how: Any) -> None:
        served.append((method, path))
        add(self, method, path, *given, **how)

    monkeypatch.setattr(Router, "add", noted)
    Fake._routes(Fake.__new__(Fake))
    paths = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    assert paths == set(served) - {("GET", "/openapi.json")}
    assert all(
        operation["summary"] for methods in described["paths"].values() for operation in methods.values()
    )
    assert control.call("GET", "/")[1] == control.addresses


def test_a_bad_start_is_one_sentence() -> None:
    for options, words in (
        (["--user", "ann=x"], "users and acls need security"),
        (["--set", "log.retention.msec=1"], "Did you mean 'log.retention.ms'?"),
    ):
        ended = subprocess.run(
            [sys.executable, "-m", "ottla.testing", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode != 0
        assert words in ended.stderr
        assert "Traceback" not in ended.stderr
