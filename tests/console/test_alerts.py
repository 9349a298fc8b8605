"""Faults injected into real servers appear on the alerts page, in the menu, as JSON and as metrics, and disappear."""

from __future__ import annotations

import datetime
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from prometheus_client.parser import text_string_to_metric_families

from ottla.console.health.certificates import certificates_of
from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.connect.worker.workers import SINK, Worker, standalone_properties
from tests.console.browsing import Visitor, text_of, write
from tests.console.test_platform import FakeSql

_SECONDS = 20.0


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "It did not happen in time."
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("connect")
    with Worker(standalone_properties(broker.bootstrap_servers, folder / "offsets")) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture(scope="module")
def audit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "log" / "audit.jsonl"


@pytest.fixture(scope="module")
def console(
    broker: Broker, open_console: Callable[..., InBackground], worker: Worker, audit_file: Path
) -> InBackground:
    audit_file.parent.mkdir()
    return open_console(cluster={"connect": worker.url}, audit_file=audit_file)


def alerts(visitor: Visitor, area: str) -> list[dict[str, Any]]:
    return [each for each in visitor.json("alerts")["problems"] if each["area"] == area]


def metric(visitor: Visitor, of: str, **labels: str) -> float | None:
    page = visitor.get("/metrics")
    assert page.status_code == 200
    for family in text_string_to_metric_families(page.text):
        for sample in family.samples:
            if sample.name == of and labels.items() <= sample.labels.items():
                return sample.value
    return None


def test_a_failed_task_is_everywhere_until_it_runs_again(
    broker: Broker, worker: Worker, visitor: Visitor, tmp_path: Path
) -> None:
    broker.create_topic("lines")
    broker.produce("lines", b"one")
    folder = tmp_path / "missing"
    config = {"connector.class": SINK, "topics": "lines", "file": str(folder / "out.txt"),
              "errors.deadletterqueue.topic.name": "lines-rejected",
              "errors.deadletterqueue.topic.replication.factor": "1",
              "value.converter": "org.apache.kafka.connect.storage.StringConverter"}  # fmt: skip
    worker.call("PUT", "/connectors/to-file/config", config)
    [found] = until(lambda: alerts(visitor, "connectors"))
    assert found["severity"] == "error"
    assert "connector 'to-file' failed: " in found["text"]
    assert visitor.get(found["page"]).status_code == 200
    assert visitor.json("overview")["health"] == "error"
    page = visitor.get("topics")
    assert "Connectors 1 problem" in text_of(page).replace("  ", " ")
    flow = visitor.json("flow", around="connector:to-file")
    assert [(each["note"], each["is_bad"]) for each in flow["nodes"] if each["kind"] == "connector"] == [
        ("1 of 1 task failed", True)
    ]
    assert ("connector:to-file", "topic:lines-rejected") in [
        (each["source"], each["target"]) for each in flow["edges"]
    ]
    assert "All is well" not in visitor.get("overview").text
    assert metric(visitor, "ottla_console_problems", area="connectors", severity="error") == 1
    assert metric(visitor, "ottla_console_problem", area="connectors", name="to-file") == 1
    folder.mkdir()
    worker.call("POST", "/connectors/to-file/restart?includeTasks=true&onlyFailed=false")
    until(lambda: not alerts(visitor, "connectors"))
    assert metric(visitor, "ottla_console_problem", area="connectors") is None
    worker.call("DELETE", "/connectors/to-file")


def test_a_lag_that_rises_is_told_until_it_falls(broker: Broker, visitor: Visitor) -> None:
    broker.create_topic("fast")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "slow"})
    consumer.commit(offsets=[TopicPartition("fast", 0, 0)], asynchronous=False)

    def written_and_told() -> list[dict[str, Any]]:
        write(broker, "fast", [b"x"] * 300)
        return [each for each in alerts(visitor, "groups") if each["name"] == "slow"]

    [found] = until(written_and_told)
    assert "The lag of group 'slow' has risen to" in found["text"]
    assert "it has no members" in found["text"]
    end = consumer.get_watermark_offsets(TopicPartition("fast", 0))[1]
    consumer.commit(offsets=[TopicPartition("fast", 0, end)], asynchronous=False)
    until(lambda: not [each for each in alerts(visitor, "groups") if each["name"] == "slow"])
    consumer.close()


def test_dead_letters_are_told_until_they_are_sent_back(broker: Broker, visitor: Visitor) -> None:
    for topic in ("orders", "orders-dlq"):
        broker.create_topic(topic)
    visitor.json("alerts")
    headers = [("ottla.dead.letter.topic", b"orders"), ("ottla.dead.letter.reason", b"why")]
    broker.produce("orders-dlq", b"bad", headers=headers)
    [found] = until(lambda: alerts(visitor, "dead letters"))
    assert "1 dead letter waits in 'orders-dlq'" in found["text"]
    page = visitor.get(found["page"])
    plan = visitor.send(visitor.form(page, "/replay"))
    visitor.send(visitor.form(plan, "/replay"))
    until(lambda: not alerts(visitor, "dead letters"))


def test_an_audit_log_that_cannot_be_written_is_told(visitor: Visitor, audit_file: Path) -> None:
    assert not alerts(visitor, "audit")
    shutil.rmtree(audit_file.parent)
    [found] = until(lambda: alerts(visitor, "audit"))
    assert str(audit_file) in found["text"]
    audit_file.parent.mkdir()
    until(lambda: not alerts(visitor, "audit"))


def test_servers_that_do_not_answer_and_failed_queries_are_told(
    broker: Broker, open_console: Callable[..., InBackground]
) -> None:
    made: list[FakeSql] = []

    def make() -> FakeSql:
        made.append(FakeSql())
        return made[0]

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with InBackground(make, "sql"):
            console = open_console(cluster={"connect": nowhere, "sql": made[0].urls[0]})
            with Visitor(console.url) as visitor:
                [found] = until(lambda: alerts(visitor, "services"))
                assert found["text"].startswith("Connect at http://127.0.0.1")
                assert not alerts(visitor, "queries")
                made[0].state = "ERROR"
                [found] = until(lambda: alerts(visitor, "queries"))
                assert found["text"] == "Query 'CTAS_1' failed."
                made[0].state = "RUNNING"
                until(lambda: not alerts(visitor, "queries"))


def test_certificates_are_read_from_the_servers(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "old")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(now - datetime.timedelta(days=2)).sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = tmp_path / "server.pem"
    pem.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()

        def serve() -> None:
            plain, _ = listening.accept()
            with context.wrap_socket(plain, server_side=True) as wrapped:
                wrapped.recv(1)

        thread = Thread(target=serve)
        thread.start()
        [found] = certificates_of([address], ["http://plain.example"])
        thread.join(10)
    assert found.subject == "CN=old"
    assert -2.1 < found.days_left < -1.9


def test_metrics_say_whether_the_cluster_answers(visitor: Visitor) -> None:
    assert metric(visitor, "ottla_console_cluster_up", cluster="local") == 1
    assert metric(visitor, "ottla_console_snapshot_age_seconds", cluster="local") is not None
    assert metric(visitor, "process_open_fds") is not None
