"""Topics that accept only records with a registered schema."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import PartitionProduceResponse
from ottla.protocol.records import Record, build_batch
from ottla.testing import Broker
from tests.broker.apis.test_produce import now, produce
from tests.history.recorder import wait_until
from tests.wire_client import WireClient

_numbers = count()
VALUES = "confluent.value.schema.validation"
KEYS = "confluent.key.schema.validation"
STRATEGY = "confluent.value.subject.name.strategy"
GUID = uuid.UUID(int=7)


class Registry(ThreadingHTTPServer):
    """Canned registry responses to the broker's two kinds of lookup."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.subjects: dict[int, list[str]] = {}
        self.asked: list[str] = []
        self.authorized_by: str | None = None
        self.fails = False


class _Answers(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.authorized_by = self.headers["Authorization"]
        parts = self.path.split("?")[0].split("/")
        found: object = None
        if parts[2] == "ids":
            found = self.server.subjects.get(int(parts[3]))
        elif parts[3] == str(GUID):
            found = [{"context": ".", "id": 7}]
        status = 500 if self.server.fails else 404 if found is None else 200
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def broker(registry: Registry) -> Iterator[Broker]:
    config = {
        # The first registry is down, so the broker tries the second.
        "confluent.schema.registry.url": f"http://127.0.0.1:1,http://127.0.0.1:{registry.server_port}",
        "confluent.basic.auth.user.info": "broker:secret",
    }
    with Broker(config=config) as running:
        yield running


@pytest.fixture(autouse=True)
def forget(registry: Registry) -> None:
    registry.subjects.clear()
    registry.asked.clear()
    registry.fails = False


def make_topic(broker: Broker, **configs: str) -> str:
    name = f"orders{next(_numbers)}"
    broker.create_topic(name, config={key.replace("_", "."): value for key, value in configs.items()})
    return name


def checked(broker: Broker, *settings: str) -> str:
    return make_topic(broker, **dict.fromkeys(settings, "true"))


def framed(schema_id: int, data: bytes = b"data") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def write(client: WireClient, topic: str, *records: Record) -> PartitionProduceResponse:
    return produce(client, topic, bytes(build_batch(list(records))))


def valued(
    value: bytes | None, key: bytes | None = None, headers: tuple[tuple[str, bytes], ...] = ()
) -> Record:
    return Record(0, now(), key, value, headers)


def test_takes_records_whose_schema_is_registered_for_the_topic(
    broker: Broker, client: WireClient, registry: Registry
) -> None:
    topic = checked(broker, VALUES)
    registry.subjects[3] = [f"{topic}-value", "another-value"]
    assert write(client, topic, valued(framed(3)), valued(framed(3))).error_code == ErrorCode.NONE
    assert write(client, topic, valued(framed(3))).base_offset == 2
    assert registry.asked == ["/schemas/ids/3/subjects"], "the answer is kept"
    assert registry.authorized_by == "Basic YnJva2VyOnNlY3JldA=="


def test_refuses_an_unknown_id_and_names_the_records(
    broker: Broker, client: WireClient, registry: Registry
) -> None:
    topic = checked(broker, VALUES)
    registry.subjects[3] = [f"{topic}-value"]
    answer = write(client, topic, valued(framed(3)), valued(framed(4)), valued(framed(4)))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
    assert answer.error_message == (
        f"2 records of the batch are refused, the first of them record 1: subject {topic}-value has no schema 4, "
        "which the value names"
    )
    assert broker.records(topic) == []


@pytest.mark.parametrize("value", [b"", b"{}", b"\0\0\0\0", b"\1\0\0\0\3"])
def test_refuses_values_without_an_id(broker: Broker, client: WireClient, value: bytes) -> None:
    topic = checked(broker, VALUES)
    answer = write(client, topic, valued(value))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.error_message is not None
    assert answer.error_message.endswith("the value does not begin with the id of a schema")


def test_refuses_a_schema_of_another_subject(broker: Broker, client: WireClient, registry: Registry) -> None:
    topic = checked(broker, VALUES, KEYS)
    registry.subjects[3] = [f"{topic}-value"]
    registry.subjects[4] = [f":.sales:{topic}-key"]
    assert write(client, topic, valued(framed(3), key=framed(4))).error_code == ErrorCode.NONE
    assert write(client, topic, valued(framed(4), key=framed(4))).error_code == ErrorCode.INVALID_RECORD
    assert write(client, topic, valued(framed(3), key=b"4")).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("strategy", "subjects", "accepted"),
    [
        ("RecordNameStrategy", ["com.example.Order"], True),
        ("RecordNameStrategy", [], False),
        ("TopicRecordNameStrategy", ["{topic}-com.example.Order"], True),
        ("TopicRecordNameStrategy", ["com.example.Order"], False),
    ],
)
def test_goes_by_the_strategy_of_the_topic(
    broker: Broker,
    client: WireClient,
    registry: Registry,
    strategy: str,
    subjects: list[str],
    accepted: bool,
) -> None:
    topic = make_topic(
        broker, **{VALUES: "true", STRATEGY: f"io.confluent.kafka.serializers.subject.{strategy}"}
    )
    registry.subjects[3] = [subject.format(topic=topic) for subject in subjects]
    wanted = ErrorCode.NONE if accepted else ErrorCode.INVALID_RECORD
    assert write(client, topic, valued(framed(3))).error_code == wanted


def test_takes_a_schema_that_a_header_names(broker: Broker, client: WireClient, registry: Registry) -> None:
    topic = checked(broker, VALUES)
    registry.subjects[7] = [f"{topic}-value"]
    header = ("__value_schema_id", b"\1" + GUID.bytes)
    assert write(client, topic, valued(b"{}", headers=(header,))).error_code == ErrorCode.NONE
    other = ("__value_schema_id", b"\1" + uuid.UUID(int=8).bytes)
    assert write(client, topic, valued(b"{}", headers=(other,))).error_code == ErrorCode.INVALID_RECORD


def test_takes_tombstones(broker: Broker, client: WireClient) -> None:
    topic = checked(broker, VALUES)
    assert write(client, topic, valued(None, key=b"k")).error_code == ErrorCode.NONE


def test_other_topics_are_not_looked_at(broker: Broker, client: WireClient, registry: Registry) -> None:
    topic = make_topic(broker)
    assert write(client, topic, valued(b"anything")).error_code == ErrorCode.NONE
    assert registry.asked == []


def test_a_missing_schema_is_asked_for_again(broker: Broker, registry: Registry) -> None:
    """The schema may be registered later. An idempotent producer continues after the rejection."""
    topic = checked(broker, VALUES)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    errors = []
    producer.produce(topic, framed(3), on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    assert errors[0] is not None
    assert errors[0].name() == "INVALID_RECORD"
    registry.subjects[3] = [f"{topic}-value"]

    def is_accepted() -> bool:
        producer.produce(topic, framed(3))
        producer.flush(10)
        return len(broker.records(topic)) > 0

    wait_until(is_accepted, "the schema is found")
    assert bytes(broker.records(topic)[0].value or b"") == framed(3)


def test_a_registry_that_fails_accepts_nothing_and_is_retried(
    broker: Broker, client: WireClient, registry: Registry
) -> None:
    topic = checked(broker, VALUES)
    registry.subjects[3] = [f"{topic}-value"]
    registry.fails = True
    answer = write(client, topic, valued(framed(3)))
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert answer.error_message is not None
    assert "confluent.schema.registry.url" in answer.error_message
    assert "secret" not in answer.error_message
    registry.fails = False
    assert write(client, topic, valued(framed(3))).error_code == ErrorCode.NONE


def test_transactions_are_checked_too(broker: Broker, registry: Registry) -> None:
    topic = checked(broker, VALUES)
    registry.subjects[3] = [f"{topic}-value"]
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, framed(3))
    producer.commit_transaction(10)
    producer.begin_transaction()
    producer.produce(topic, b"no schema")
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)
    producer.abort_transaction(10)
    assert [bytes(record.value or b"") for record in broker.records(topic)] == [framed(3)]


def test_settings_are_listed_where_they_are_set(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def settings(topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        [described] = admin.describe_configs([resource]).values()
        return {name: entry.value for name, entry in described.result().items() if "confluent" in name}

    assert settings(make_topic(broker)) == {}
    assert settings(checked(broker, VALUES)) == {VALUES: "true"}


def test_a_broker_without_a_registry_refuses_the_setting() -> None:
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        [created] = admin.create_topics([NewTopic("t", 1, config={VALUES: "true"})]).values()
        with pytest.raises(KafkaException) as caught:
            created.result()
    assert "confluent.schema.registry.url" in caught.value.args[0].str()
