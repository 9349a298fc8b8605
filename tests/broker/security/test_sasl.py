"""Promise: a SASL listener serves only authenticated clients. Real clients, and raw frames."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest, MetadataResponse
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(120)

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
OWN_JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-secret" user_admin="admin-secret" user_ann="pencil";'
)


class Secured:
    """A broker with two listeners: one requires authentication and the other does not."""

    def __init__(self, data: Path, **config: str) -> None:
        reserved = ReservedPorts(2)
        plain, self.sasl_port = reserved.numbers
        self.sasl = f"127.0.0.1:{self.sasl_port}"
        self.broker = Broker(
            data=data,
            config={
                "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{self.sasl_port}",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                OWN_JAAS: JAAS,
                **config,
            },
        )
        self.plain = f"127.0.0.1:{plain}"

    def client(self, mechanism: str, password: str = "pencil", user: str = "ann") -> dict[str, Any]:
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("sasl"))
    with made.broker:
        made.broker.create_topic("t", partitions=1)
        put_user(made, "ann", "pencil")
        yield made


def put_user(secured: Secured, name: str, password: str, iterations: int = 4096) -> None:
    admin = AdminClient({"bootstrap.servers": secured.plain})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(
            name, ScramCredentialInfo(mechanism, iterations), password.encode()
        )
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(30)


# -- clients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_logs_in_and_works(secured: Secured, mechanism: str) -> None:
    producer = Producer(secured.client(mechanism))
    producer.produce("t", f"confluent {mechanism}")
    assert producer.flush(30) == 0
    group = {"group.id": f"g-{mechanism}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**secured.client(mechanism), **group})
    consumer.subscribe(["t"])
    seen: set[bytes] = set()
    deadline = time.monotonic() + 60
    while f"confluent {mechanism}".encode() not in seen:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            seen.add(message.value() or b"")
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in_and_works(secured: Secured, mechanism: str) -> None:
    async def produce() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=secured.sasl, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism,
            sasl_plain_username="ann", sasl_plain_password="pencil",
        )  # fmt: skip
        await producer.start()
        try:
            return int((await producer.send_and_wait("t", b"aiokafka")).offset)
        finally:
            await producer.stop()

    assert asyncio.run(produce()) >= 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("nobody", "pencil")])
def test_who_cannot_prove_it_is_told_in_the_same_words(
    secured: Secured, mechanism: str, user: str, password: str
) -> None:
    settings = Settings.from_properties(secured.client(mechanism, password, user))
    with pytest.raises(ClientError) as refused:
        Cluster(settings).any_connection()
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    expected = {
        "PLAIN": "Authentication failed: Invalid username or password",
    }.get(
        mechanism,
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}",
    )
    assert expected in str(refused.value)


def challenge(secured: Secured, name: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    """Return the fields of the server's first SCRAM message."""
    with WireClient(secured.sasl) as client:
        client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        answer: Any = client.call(SaslAuthenticateRequest(auth_bytes=f"n,,n={name},r=abc".encode()), 1)
    return dict(part.split("=", 1) for part in bytes(answer.auth_bytes).decode().split(","))


@pytest.mark.parametrize("iterations", [4096, 8192, 12345])
def test_a_login_does_not_reveal_which_users_exist(tmp_path: Path, iterations: int) -> None:
    secured = Secured(tmp_path)
    with secured.broker:
        put_user(secured, "ann", "pencil", iterations)
        real, unknown = challenge(secured, "ann"), challenge(secured, "eve")
        others = {challenge(secured, f"user{number}")["s"] for number in range(5)}
    assert unknown["i"] == real["i"] == str(iterations)
    assert len(unknown["s"]) == len(real["s"])
    assert len(others | {unknown["s"], real["s"]}) == 7, "every user has a salt of their own"
    secured = Secured(tmp_path)
    with secured.broker:
        assert challenge(secured, "ann")["s"] == real["s"]
        assert challenge(secured, "eve")["s"] == unknown["s"], "a salt that changes would give it away"


def test_users_are_described_changed_and_deleted(secured: Secured) -> None:
    put_user(secured, "bob", "one", iterations=8192)
    admin = AdminClient({"bootstrap.servers": secured.plain})
    described = admin.describe_user_scram_credentials(["bob"])["bob"].result(30)
    assert {(each.mechanism, each.iterations) for each in described.scram_credential_infos} == {
        (ScramMechanism.SCRAM_SHA_256, 8192),
        (ScramMechanism.SCRAM_SHA_512, 8192),
    }
    Cluster(Settings.from_properties(secured.client("SCRAM-SHA-256", "one", "bob"))).any_connection().close()
    put_user(secured, "bob", "two")
    with pytest.raises(ClientError):
        Cluster(Settings.from_properties(secured.client("SCRAM-SHA-256", "one", "bob"))).any_connection()
    deletion = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256)
    for future in admin.alter_user_scram_credentials([deletion]).values():
        future.result(30)
    with pytest.raises(ClientError):
        Cluster(Settings.from_properties(secured.client("SCRAM-SHA-256", "two", "bob"))).any_connection()
    Cluster(Settings.from_properties(secured.client("SCRAM-SHA-512", "two", "bob"))).any_connection().close()
    [again] = admin.alter_user_scram_credentials([deletion]).values()
    with pytest.raises(KafkaException, match="does not exist"):
        again.result(30)


def test_nobody_is_shown_the_passwords_of_a_listener(secured: Secured) -> None:
    admin = AdminClient({"bootstrap.servers": secured.plain})
    broker_id = str(next(iter(admin.list_topics(timeout=30).brokers)))
    [future] = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, broker_id)]).values()
    entries = future.result(30)
    assert (entries[OWN_JAAS].value, entries[OWN_JAAS].is_sensitive) == (None, True)
    assert not any("admin-secret" in str(entry.value) for entry in entries.values())


# -- frames -------------------------------------------------------------------------------------------------


@pytest.fixture
def wire(secured: Secured) -> Iterator[WireClient]:
    with WireClient(secured.sasl) as client:
        yield client


def closed(client: WireClient) -> bool:
    with pytest.raises((ConnectionError, OSError, AssertionError, struct.error, EOFError)):
        client.call(ApiVersionsRequest(), 0)
    return True


def test_nothing_is_served_before_the_login(secured: Secured, wire: WireClient) -> None:
    assert wire.call(ApiVersionsRequest(), 0).error_code == 0
    with pytest.raises((ConnectionError, OSError, EOFError, struct.error)):
        wire.call(MetadataRequest(topics=None), 9)


def test_a_request_behind_the_handshake_is_not_run_as_anonymous(secured: Secured) -> None:
    with socket.create_connection(("127.0.0.1", secured.sasl_port)) as raw:
        handshake = SaslHandshakeRequest(mechanism="PLAIN").encode(1)
        metadata = MetadataRequest(topics=None).encode(9)
        frames = b""
        for key, version, body, tags in ((17, 1, handshake, b""), (3, 9, metadata, b"\0")):
            header = struct.pack(">hhih", key, version, 7, -1) + tags
            frames += struct.pack(">i", len(header) + len(body)) + header + body
        raw.sendall(frames)
        raw.settimeout(30)
        received = b""
        while chunk := raw.recv(65536):
            received += chunk
    [size] = struct.unpack_from(">i", received)
    assert len(received) == 4 + size, "one answer, and then it was closed"


def test_an_unknown_mechanism_is_answered_with_those_that_there_are(wire: WireClient) -> None:
    answer = wire.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, MECHANISMS)
    assert closed(wire)


def test_large_frames_are_refused_before_the_login(secured: Secured) -> None:
    with socket.create_connection(("127.0.0.1", secured.sasl_port)) as raw:
        raw.settimeout(30)
        raw.sendall(struct.pack(">i", 524_289))
        assert raw.recv(1) == b""


def test_the_old_handshake_with_bare_tokens(secured: Secured) -> None:
    for password, works in ((b"pencil", True), (b"wrong", False)):
        with (
            WireClient(secured.sasl) as client,
            socket.create_connection(("127.0.0.1", secured.sasl_port)) as raw,
        ):
            del client
            body = SaslHandshakeRequest(mechanism="PLAIN").encode(0)
            header = struct.pack(">hhih", 17, 0, 1, -1)
            raw.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
            raw.settimeout(30)
            answer = raw.recv(4096)
            assert answer[8:10] == b"\0\0"
            token = b"\0ann\0" + password
            raw.sendall(struct.pack(">i", len(token)) + token)
            assert raw.recv(4096) == (b"\0\0\0\0" if works else b"")


def test_after_the_login_there_is_no_other(wire: WireClient) -> None:
    assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    done = wire.call(SaslAuthenticateRequest(auth_bytes=b"\0ann\0pencil"), 1)
    assert (done.error_code, done.session_lifetime_ms) == (0, 0)
    assert wire.call(MetadataRequest(topics=None), 9).topics
    assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    again = wire.call(SaslAuthenticateRequest(auth_bytes=b"\0ann\0pencil"), 1)
    assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_login_that_has_to_be_repeated(tmp_path: Path) -> None:
    secured = Secured(tmp_path, **{"connections.max.reauth.ms": "2500"})
    with secured.broker:

        def log_in(client: WireClient, token: bytes) -> Any:
            handshake = client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            if handshake.error_code:
                return handshake
            return client.call(SaslAuthenticateRequest(auth_bytes=token), 1)

        with WireClient(secured.sasl) as client:
            first = log_in(client, b"\0ann\0pencil")
            assert 0 < first.session_lifetime_ms <= 2500
            assert log_in(client, b"\0ann\0pencil").error_code == 0, (
                "the first time at any moment, as in Kafka"
            )
            too_soon = log_in(client, b"\0ann\0pencil")
            assert too_soon.error_code == ErrorCode.ILLEGAL_SASL_STATE
            wait_until(1.1)
            assert log_in(client, b"\0ann\0pencil").error_code == 0
            assert client.call(MetadataRequest(topics=[]), 9) is not None
            wait_until(1.1)
            other = log_in(client, b"\0admin\0admin-secret")
            assert other.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED, "another user"
            expected = "Cannot change principals during re-authentication from User.ann: User.admin"
            assert other.error_message == expected
            assert closed(client)
        with WireClient(secured.sasl) as client:
            log_in(client, b"\0ann\0pencil")
            wait_until(2.6)
            with pytest.raises((ConnectionError, OSError, EOFError, struct.error)):
                client.call(MetadataRequest(topics=[]), 9)


def wait_until(seconds: float) -> None:
    """Wait for a session to expire."""
    time.sleep(seconds)


# -- settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"sasl.enabled.mechanisms": "DIGEST-MD5"},
            "enables the SASL mechanism DIGEST-MD5, which is not known",
        ),
        ({OWN_JAAS: ""}, "plain.sasl.jaas.config is not set"),
        (
            {OWN_JAAS: "com.sun.security.auth.module.JndiLoginModule required;"},
            "JndiLoginModule is not known",
        ),
        ({OWN_JAAS: JAAS[:-1]}, "cannot be read"),
    ],
)
def test_settings_that_cannot_work_are_named(tmp_path: Path, settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(Exception, match=sentence) as refused, Secured(tmp_path, **settings).broker:
        pass
    assert "secret" not in str(refused.value)


# -- the JAAS file ------------------------------------------------------------------------------------------


def file_with(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def logs_in(secured: Secured, user: str, password: str) -> bool:
    try:
        Cluster(Settings.from_properties(secured.client("PLAIN", password, user))).any_connection().close()
    except ClientError as error:
        if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise
        return False
    return True


def test_users_may_be_in_a_jaas_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    file = file_with(
        tmp_path / "jaas.conf",
        f"""KafkaServer {{ {plain} required user_ann="of all"; }};
        sasl_plaintext.KafkaServer {{ {plain} required user_ann="of the listener"; }};
        Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required username="x"; }};""",
    )
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    with (by_variable := Secured(tmp_path / "1", **{OWN_JAAS: ""})).broker:
        assert logs_in(by_variable, "ann", "of the listener")
        assert not logs_in(by_variable, "ann", "of all")
    with (by_setting := Secured(tmp_path / "2")).broker:
        assert logs_in(by_setting, "ann", "pencil"), "the setting comes first"
    other = file_with(tmp_path / "other.conf", f'KafkaServer {{ {plain} required user_ann="other"; }};')
    named = {OWN_JAAS: "", "java.security.auth.login.config": str(other)}
    with (by_file := Secured(tmp_path / "3", **named)).broker:
        assert logs_in(by_file, "ann", "other")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "JAAS file .*jaas.conf.* cannot be read: No such file"),
        ("Client { };", "has no section sasl_plaintext.KafkaServer and none KafkaServer"),
        ("KafkaServer { org.apache.kafka.common.security.scram.ScramLoginModule required; };", "is not set"),
        (
            "KafkaServer { com.sun.security.auth.module.JndiLoginModule required; };",
            "JndiLoginModule is not known",
        ),
        ('KafkaServer { x required password="secret; };', "quotation mark"),
    ],
)
def test_a_jaas_file_that_cannot_work_is_named(tmp_path: Path, text: str | None, sentence: str) -> None:
    file = tmp_path / "jaas.conf"
    if text is not None:
        file.write_text(text)
    settings = {OWN_JAAS: "", "java.security.auth.login.config": str(file)}
    with pytest.raises(Exception, match=sentence) as refused, Secured(tmp_path / "data", **settings).broker:
        pass
    assert "secret" not in str(refused.value)


def test_a_login_module_without_its_mechanism_is_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ignored = JAAS.replace("pencil", "crayon")
    with (secured := Secured(tmp_path, **{"sasl.jaas.config": ignored})).broker:
        assert not logs_in(secured, "ann", "crayon")
    assert "sasl.jaas.config is ignored on listener SASL_PLAINTEXT" in caplog.text
    assert "crayon" not in caplog.text


def test_our_client_logs_in_again_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Well before the session ends, so that a slow machine does not miss it.
    monkeypatch.setattr("ottla.client.connection.random.uniform", lambda *_: 0.04)
    with (secured := Secured(tmp_path, **{"connections.max.reauth.ms": "30000"})).broker:
        put_user(secured, "ann", "pencil")
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            cluster = Cluster(Settings.from_properties(secured.client(mechanism)))
            with cluster.any_connection() as connection:
                due = connection._log_in_again_at
                assert due is not None
                while connection._log_in_again_at == due:
                    assert time.monotonic() < due + 20, "it has not logged in again"
                    assert connection.request(MetadataRequest(topics=[]), MetadataResponse) is not None
                    time.sleep(0.02)
                assert connection._log_in_again_at is not None
                assert connection.request(MetadataRequest(topics=[]), MetadataResponse) is not None
