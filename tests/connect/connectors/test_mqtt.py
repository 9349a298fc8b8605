"""MQTT source and sink against mosquitto."""

from __future__ import annotations

import getpass
import itertools
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

pytest.importorskip("paho.mqtt.client")
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from ottla.connect import ConnectError
from ottla.connect.connectors.mqtt.sink import MqttSinkConnector
from ottla.connect.connectors.mqtt.source import MqttSourceConnector
from ottla.testing.connect import SinkHarness, SourceHarness
from ottla.testing.ports import free_ports

from .servers import program, running


class Brokers(NamedTuple):
    port: int
    with_passwords: int


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    server = program("mosquitto", "mosquitto")
    found = Brokers(*free_ports(2))
    directory = tmp_path_factory.mktemp("mosquitto")
    users = directory / "users"
    subprocess.run(
        [program("mosquitto_passwd", "mosquitto"), "-b", "-c", str(users), "ann", "secret"], check=True
    )
    # As root, mosquitto would switch to a user without access to temporary directories.
    (directory / "mosquitto.conf").write_text(
        f"user {getpass.getuser()}\nper_listener_settings true\nlistener {found.port} 127.0.0.1\nallow_anonymous true\n"
        f"listener {found.with_passwords} 127.0.0.1\nallow_anonymous false\npassword_file {users}\n"
        "max_queued_messages 0\n"
    )
    with running([server, "-c", str(directory / "mosquitto.conf")], found.port, directory):
        yield found


@pytest.fixture
def client(brokers: Brokers) -> Iterator[Any]:
    found = mqtt.Client(CallbackAPIVersion.VERSION2)
    found.connect("127.0.0.1", brokers.port)
    found.loop_start()
    yield found
    found.disconnect()
    found.loop_stop()


def publish(client: Any, topic: str, *payloads: str, retain: bool = False) -> None:
    for payload in payloads:
        client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(10)


def config(brokers: Brokers, **settings: str) -> dict[str, str]:
    named = {f"mqtt.{name.replace('_', '.')}": value for name, value in settings.items()}
    return {"mqtt.server.uri": f"tcp://127.0.0.1:{brokers.port}", "mqtt.qos": "1", **named}


def subscribed(source: SourceHarness, client: Any, topic: str) -> None:
    """Wait until the source has received all test messages, because it subscribes in the background."""
    deadline = time.monotonic() + 10
    for number in itertools.count():
        publish(client, topic, f"ready {number}")
        found = [record.value for record in source.poll()]
        source.commit()
        if f"ready {number}".encode() in found:
            source.committed.clear()
            return
        assert time.monotonic() < deadline


def test_messages_become_records(brokers: Brokers, client: Any) -> None:
    with SourceHarness(
        MqttSourceConnector, {**config(brokers, topics="plain/+/temperature"), "kafka.topic": "readings"}
    ) as source:
        subscribed(source, client, "plain/x/temperature")
        publish(client, "plain/hall/temperature", "21")
        publish(client, "plain/hall/humidity", "50")
        publish(client, "plain/attic/temperature", "30")
        records = source.run(2)
    assert [(record.topic, record.key, record.value) for record in records] == [
        ("readings", "plain/hall/temperature", b"21"),
        ("readings", "plain/attic/temperature", b"30"),
    ]
    headers = {header.key: header.value for header in records[-1].headers}
    assert headers["mqtt.qos"] == 1
    assert headers["mqtt.retained"] is False


def test_what_was_not_committed_comes_again_and_nothing_else(brokers: Brokers, client: Any) -> None:
    settings = {**config(brokers, topics="durable/#", clean_session_enabled="false"), "name": "durable"}
    with SourceHarness(MqttSourceConnector, settings) as source:
        subscribed(source, client, "durable/ready")
        publish(client, "durable/a", "1", "2", "3")
        source.run(3)
        publish(client, "durable/a", "4", "5")
        until(lambda: source.poll(), 2)
        source.restart()
        publish(client, "durable/a", "6")
        values = [record.value for record in source.run(6)]
    assert values == [b"1", b"2", b"3", b"4", b"5", b"6"]


def until(poll: Callable[[], Any], count: int) -> None:
    found = 0
    deadline = time.monotonic() + 10
    while found < count:
        found += len(poll())
        assert time.monotonic() < deadline


def test_records_become_messages(brokers: Brokers, client: Any) -> None:
    received: list[tuple[str, bytes]] = []
    client.on_message = lambda _client, _data, message: received.append((message.topic, message.payload))
    done: list[int] = []
    client.on_subscribe = lambda *_: done.append(1)
    client.subscribe("out/#", qos=1)
    deadline = time.monotonic() + 10
    while not done:
        time.sleep(0.01)
        assert time.monotonic() < deadline
    with SinkHarness(MqttSinkConnector, config(brokers, topic="out/${topic}/${key}")) as sink:
        sink.send("orders", {"id": 1}, key="a")
        sink.send("orders", b"raw", key="b")
        sink.send("orders", "x", key="#")
        sink.commit()
        assert "cannot be the topic of an MQTT message" in str(sink.reported[0][1])
        assert sink.committed == {("orders", 0): 3}
    while len(received) < 2:
        time.sleep(0.01)
        assert time.monotonic() < deadline
    assert received == [("out/orders/a", b'{"id":1}'), ("out/orders/b", b"raw")]


def test_retained_messages(brokers: Brokers, client: Any) -> None:
    with SinkHarness(MqttSinkConnector, config(brokers, topic="kept", retained_enabled="true")) as sink:
        sink.send("t", "last")
        sink.commit()
    with SourceHarness(MqttSourceConnector, config(brokers, topics="kept")) as source:
        [record] = source.run(1)
    assert record.value == b"last"
    assert {header.key: header.value for header in record.headers}["mqtt.retained"] is True


def test_tasks_share_the_topics(brokers: Brokers) -> None:
    connector = MqttSourceConnector()
    connector.start(config(brokers, topics="a,b,c"))
    assert [each["mqtt.topics"] for each in connector.task_configs(2)] == ["a,c", "b"]


def test_a_login_that_is_refused_is_named(brokers: Brokers) -> None:
    secured = config(
        brokers, topics="x", username="ann", server_uri=f"tcp://127.0.0.1:{brokers.with_passwords}"
    )
    with SourceHarness(MqttSourceConnector, {**secured, "mqtt.password": "secret"}):
        pass
    harness = SourceHarness(MqttSourceConnector, {**secured, "mqtt.password": "wrong"})
    with pytest.raises(ConnectError, match="refuses the connection: Not authorized"):
        harness.start()
    harness.stop()


def test_a_broker_that_does_not_answer_is_named(brokers: Brokers) -> None:
    [port] = free_ports(1)
    for uri, why in (
        (f"tcp://127.0.0.1:{port}", "Connection refused. Check mqtt.server.uri"),
        ("http://127.0.0.1", "is not an address such as tcp://host:1883"),
    ):
        harness = SinkHarness(MqttSinkConnector, config(brokers, server_uri=uri))
        with pytest.raises(ConnectError, match=why):
            harness.start()
        harness.stop()
