"""Promise: real clients reach a broker over TLS, with certificates or passwords, and nobody else does."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.protocol.messages.cluster import MetadataRequest, MetadataResponse
from tests.broker.tls.tls_broker import SASL_MECHANISMS, TlsBroker

with warnings.catch_warnings():  # kafka-python reads its schemas with a deprecated call
    warnings.simplefilter("ignore")
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    made = TlsBroker(tmp_path_factory.mktemp("tls"))
    with made.broker:
        made.broker.create_topic("t", partitions=1)
        made.broker.create_topic("large", partitions=1, config={"max.message.bytes": str(32 << 20)})
        admin = AdminClient(made.client("PLAINTEXT"))
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion("ann", ScramCredentialInfo(mechanism, 4096), b"pencil")
            for future in admin.alter_user_scram_credentials([change]).values():
                future.result(30)
        yield made


def ways(tls: TlsBroker) -> dict[str, dict[str, Any]]:
    """Return the ways to connect, as librdkafka settings."""
    found = {"SSL": tls.client("SSL"), "MUTUAL": tls.client("MUTUAL", **tls.certificate())}
    for mechanism in SASL_MECHANISMS:
        login = {"sasl.mechanism": mechanism, "sasl.username": "ann", "sasl.password": "pencil"}
        found[mechanism] = tls.client("SASL_SSL", **login)
    return found


WAYS = ["SSL", "MUTUAL", *SASL_MECHANISMS]


@pytest.mark.parametrize("way", WAYS)
def test_confluent_kafka(tls: TlsBroker, way: str) -> None:
    config = ways(tls)[way]
    value = f"confluent {way} {time.monotonic_ns()}".encode()
    producer = Producer(config)
    producer.produce("t", value)
    assert producer.flush(60) == 0
    consumer = Consumer({**config, "group.id": f"confluent-{way}", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    deadline = time.monotonic() + 60
    while (message := consumer.poll(1)) is None or message.value() != value:
        assert time.monotonic() < deadline
    consumer.close()


def for_python(tls: TlsBroker, way: str) -> dict[str, Any]:
    """Translate the settings for kafka-python and aiokafka."""
    config = ways(tls)[way]
    found = {
        "bootstrap_servers": config["bootstrap.servers"],
        "security_protocol": config["security.protocol"],
        "ssl_context": tls.context(tls.ann if way == "MUTUAL" else None),
    }
    if "sasl.mechanism" in config:
        found |= {
            "sasl_mechanism": way,
            "sasl_plain_username": "ann",
            "sasl_plain_password": "pencil",
        }
    return found


@pytest.mark.parametrize("way", WAYS)
def test_kafka_python(tls: TlsBroker, way: str) -> None:
    value = f"kafka-python {way} {time.monotonic_ns()}".encode()
    producer = KafkaProducer(**for_python(tls, way))
    producer.send("t", value).get(60)
    producer.close()
    consumer = KafkaConsumer(
        "t", **for_python(tls, way), auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    assert any(record.value == value for record in consumer)
    consumer.close()


@pytest.mark.parametrize("way", WAYS)
def test_aiokafka(tls: TlsBroker, way: str) -> None:
    value = f"aiokafka {way} {time.monotonic_ns()}".encode()

    async def exchange() -> None:
        producer = AIOKafkaProducer(**for_python(tls, way))
        await producer.start()
        try:
            await producer.send_and_wait("t", value)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer("t", **for_python(tls, way), auto_offset_reset="earliest")
        await consumer.start()
        try:
            async with asyncio.timeout(60):
                while (await consumer.getone()).value != value:
                    pass
        finally:
            await consumer.stop()

    asyncio.run(exchange())


@pytest.mark.parametrize("way", WAYS)
def test_our_own_client(tls: TlsBroker, way: str) -> None:
    Cluster(Settings.from_properties(ways(tls)[way])).any_connection().close()


# -- principals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "principal"),
    [("SSL", "User:ANONYMOUS"), ("MUTUAL", "User:ANN"), ("PLAIN", "User:ann")],
)
def test_the_principal_is_that_of_the_certificate_or_of_the_login(
    tls: TlsBroker, way: str, principal: str
) -> None:
    config = ways(tls)[way]
    connection = Cluster(Settings.from_properties(config)).any_connection()
    listener = "SASL_SSL" if way == "PLAIN" else way
    assert principal in tls.principals(listener)
    connection.close()


# -- refused clients ----------------------------------------------------------------------------------------


def test_a_client_that_trusts_another_authority_does_not_connect(tls: TlsBroker) -> None:
    config = tls.client("SSL", **{"ssl.ca.location": tls.strangers_ca_file})
    with pytest.raises(ClientError, match="its certificate is not accepted"):
        Cluster(Settings.from_properties(config)).any_connection()
    assert says(config) in (KafkaError._SSL, KafkaError._TRANSPORT)


def test_a_client_notices_that_the_certificate_is_of_another_host(tls: TlsBroker) -> None:
    # An alternative notation of 127.0.0.1, which the certificate does not contain
    elsewhere = tls.client("SSL") | {"bootstrap.servers": f"127.1:{tls.ports['SSL']}"}
    with pytest.raises(ClientError, match="mismatch"):
        Cluster(Settings.from_properties(elsewhere)).any_connection()
    unchecked = elsewhere | {"ssl.endpoint.identification.algorithm": ""}
    Cluster(Settings.from_properties(unchecked)).any_connection().close()


def test_a_client_without_a_certificate_is_refused_where_one_is_required(tls: TlsBroker) -> None:
    config = tls.client("MUTUAL")
    with pytest.raises(ClientError, match="does not accept our certificate"):
        _ = Cluster(Settings.from_properties(config)).any_connection().versions
    assert says(config) in (KafkaError._SSL, KafkaError._TRANSPORT)


def test_a_client_with_the_certificate_of_another_authority_is_refused(tls: TlsBroker) -> None:
    foreign = tls.issue("ann", "foreign.pem", authority=tls.stranger)
    config = tls.client("MUTUAL", **tls.certificate(foreign))
    with pytest.raises(ClientError, match="does not accept our certificate"):
        _ = Cluster(Settings.from_properties(config)).any_connection().versions


def test_a_wrong_password_is_refused_over_tls_too(tls: TlsBroker) -> None:
    config = ways(tls)["PLAIN"] | {"sasl.password": "crayon"}
    with pytest.raises(ClientError, match="Invalid username or password"):
        Cluster(Settings.from_properties(config)).any_connection()


def says(config: dict[str, Any]) -> int | None:
    """Return librdkafka's error message for a failed connection."""
    errors: list[KafkaError] = []
    producer = Producer({**config, "error_cb": errors.append, "reconnect.backoff.ms": 1000})
    deadline = time.monotonic() + 60
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    return errors[0].code() if errors else None


# -- large and slow -----------------------------------------------------------------------------------------


def test_twenty_megabytes_each_way_byte_for_byte(tls: TlsBroker) -> None:
    """The client uses small buffers, so the broker has to pause and resume constantly."""
    payload = os.urandom(20 << 20)
    small = {"socket.send.buffer.bytes": 16384, "socket.receive.buffer.bytes": 16384}
    producer = Producer({**tls.client("SSL"), **small, "message.max.bytes": 40 << 20})
    failed: list[Any] = []
    producer.produce("large", payload, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(120) == 0
    assert failed == [None]
    consumer = Consumer(
        {
            **tls.client("SSL"),
            **small,
            "group.id": "large",
            "fetch.message.max.bytes": 40 << 20,
            "receive.message.max.bytes": 100 << 20,
            "fetch.max.bytes": 50 << 20,
        }
    )
    consumer.assign([TopicPartition("large", 0, 0)])
    deadline = time.monotonic() + 120
    while (message := consumer.poll(1)) is None:
        assert time.monotonic() < deadline
    assert message.error() is None
    assert message.value() == payload
    consumer.close()


def fetch_frame(topic: str, max_bytes: int) -> bytes:
    """Return a version 4 fetch from offset 0."""
    name = topic.encode()
    body = struct.pack(">iiiib", -1, 0, 1, max_bytes, 0)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, max_bytes)
    header = struct.pack(">hhih", 1, 4, 1, -1)
    return struct.pack(">i", len(header) + len(body)) + header + body


def test_a_client_that_stops_reading_holds_up_nobody_and_misses_nothing(tls: TlsBroker) -> None:
    tls.broker.create_topic("heavy", partitions=1, config={"max.message.bytes": str(32 << 20)})
    values = [os.urandom(1 << 20) for _ in range(8)]
    for value in values:
        tls.broker.produce("heavy", value)
    with (
        socket.create_connection(("localhost", tls.ports["SSL"])) as raw,
        tls.context().wrap_socket(raw, server_hostname="localhost") as slow,
    ):
        slow.settimeout(120)
        slow.sendall(fetch_frame("heavy", 16 << 20) * 3)
        [size] = struct.unpack(">i", read_exactly(slow, 4))
        # This client stops reading now; the broker still serves all others.
        config = ways(tls)["SSL"]
        for _ in range(5):
            producer = Producer(config)
            producer.produce("t", b"meanwhile")
            assert producer.flush(60) == 0
        answers = [read_exactly(slow, size), read_answer(slow), read_answer(slow)]
    for answer in answers:
        assert all(value in answer for value in values)


def test_a_large_fetch_at_full_speed_does_not_keep_others_waiting(tls: TlsBroker) -> None:
    tls.broker.create_topic("endless", partitions=1, config={"max.message.bytes": str(32 << 20)})
    for _ in range(8):
        tls.broker.produce("endless", bytes(1 << 20))
    done = threading.Event()
    fetched: list[int] = []

    def drain() -> None:
        with (
            socket.create_connection(("localhost", tls.ports["SSL"])) as raw,
            tls.context().wrap_socket(raw, server_hostname="localhost") as greedy,
        ):
            while not done.is_set():
                greedy.sendall(fetch_frame("endless", 16 << 20))
                fetched.append(len(read_answer(greedy)))

    reader = threading.Thread(target=drain)
    reader.start()
    try:
        wait_for(lambda: len(fetched) >= 1)
        others = [Cluster(Settings.from_properties(ways(tls)["SSL"])).any_connection() for _ in range(5)]
        for _ in range(50):
            for other in others:
                other.request(MetadataRequest(topics=[]), MetadataResponse)
        for other in others:
            other.close()
        before = len(fetched)
        wait_for(lambda: len(fetched) > before)
    finally:
        done.set()
        reader.join()
    assert min(fetched) > 8 << 20


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read_answer(connection: Any) -> bytes:
    size = struct.unpack(">i", read_exactly(connection, 4))[0]
    return read_exactly(connection, size)


def read_exactly(connection: Any, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        assert chunk, "the broker hung up"
        data += chunk
    return bytes(data)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(("listener", "resumes"), [("SSL", True), ("MUTUAL", False)])
def test_sessions_are_resumed_unless_certificates_must_be_checked(
    tls: TlsBroker, version: ssl.TLSVersion, listener: str, resumes: bool
) -> None:
    context = tls.context(tls.ann if listener == "MUTUAL" else None)
    context.minimum_version = context.maximum_version = version
    request = bytes.fromhex("0000000a 0012 0000 00000001 ffff")  # ApiVersions, version 0

    def connect(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
        with (
            socket.create_connection(("localhost", tls.ports[listener]), timeout=20) as raw,
            context.wrap_socket(raw, server_hostname="localhost", session=session) as wrapped,
        ):
            wrapped.sendall(request)
            assert wrapped.recv(4)  # in TLS 1.3 the ticket comes with the first response
            return wrapped.session, bool(wrapped.session_reused)

    session, reused = connect(None)
    assert not reused
    assert connect(session)[1] is resumes
