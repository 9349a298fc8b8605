"""Security."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from tests.issuer import Issuer

from ..cases import case
from ..client import Client
from ..clients import CLIENTS
from ..records import ClientError, Record
from ..security import kerberos
from ..security.broker import USER, SecuredBroker
from ..security.logins import LOGINS, Login, settings_of
from ..waiting import wait_for

# The subset for regular runs: one login of each kind, since they share everything but the proof.
QUICK = ("mTLS", "SASL_SSL SCRAM-SHA-512")

# Time limit for clients that never give up after a refusal.
IMPATIENCE = {"kafka-python": {"bootstrap_timeout_ms": 3000}}

# Any of the clients' words for a refused login.
REFUSED = re.compile(r"authenticat|certificate|alert", re.IGNORECASE)
# Occasional alternatives, with Apache Kafka too: aiokafka hides TLS alerts, and kafka-python misses the last response
# if the connection closes with it.
CUT_OFF = {"aiokafka": "Connection at .* closed", "kafka-python": "socket disconnected"}


def marks_of(chosen: dict[str, Any]) -> list[pytest.MarkDecorator]:
    if chosen["login"].endswith("GSSAPI"):
        return [pytest.mark.peers]  # needs a KDC
    return [] if chosen["login"] in QUICK else [pytest.mark.slow]


def security_case(title: str, logins: tuple[str, ...] = LOGINS) -> pytest.MarkDecorator:
    return case(title, needs=["login:{login}"], marks=marks_of, login=logins)


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    if request.config.getoption("--bootstrap"):
        pytest.skip("the broker at --bootstrap has no such listeners")
    with ExitStack() as stack:
        needs_realm = any("GSSAPI" in item.name for item in request.session.items)
        realm = None
        if needs_realm and kerberos.unavailable() is None:
            realm = stack.enter_context(kerberos.realm(USER))
        issuer, stranger = stack.enter_context(Issuer()), stack.enter_context(Issuer())
        secured = SecuredBroker(tmp_path_factory.mktemp("secured"), issuer, stranger, realm)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # For both the Java client and Apache Kafka.
        patch.setenv("JDK_JAVA_OPTIONS", f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {secured.java_options()}")
        stack.enter_context(secured.running(by_apache_kafka=request.config.getoption("--secured-kafka")))
        yield secured


@pytest.fixture(scope="module")
def users(
    broker: SecuredBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Client]]:
    """Clients of this module; each case sets their login."""
    started: dict[str, Client] = {}
    directory = tmp_path_factory.mktemp("users")
    kinds = {client.name: client for client in CLIENTS}

    def get(name: str) -> Client:
        if name not in started:
            if (reason := kinds[name].unavailable()) is not None:
                pytest.skip(reason)
            started[name] = kinds[name]("", directory)
        return started[name]

    yield get
    for client in started.values():
        client.close()


@pytest.fixture
def client(users: Callable[[str], Client], request: pytest.FixtureRequest) -> Client:
    return users(request.param)


@pytest.fixture
def topic(broker: SecuredBroker, unique: str) -> str:
    name = unique[-200:]
    broker.make_topic(name)
    return name


def log_in(client: Client, login: Login, **more: int) -> None:
    if login.mechanism == "GSSAPI" and (reason := kerberos.unavailable()) is not None:
        pytest.skip(reason)
    client.log_in(login.servers, settings_of(client.name, login) | more)


def record(value: bytes = b"value") -> Record:
    return Record(value=value, partition=0)


@security_case("{login}: log in, produce and consume")
def test_log_in(client: Client, broker: SecuredBroker, topic: str, login: str) -> None:
    found = broker.login(login)
    broker.allow(found.principal, topic, "READ", "WRITE")
    log_in(client, found)
    [delivery] = client.produce(topic, [record()])
    assert delivery.error is None, delivery
    assert [each.value for each in client.consume(topic, 1)] == [b"value"]


@security_case(
    "{login}: a wrong password, token, ticket or certificate is refused",
    tuple(each for each in LOGINS if each != "PLAINTEXT"),
)
def test_wrong_login(client: Client, broker: SecuredBroker, topic: str, login: str) -> None:
    found = broker.wrong_login(login)
    broker.allow(found.principal, topic, "READ", "WRITE")
    log_in(client, found, **IMPATIENCE.get(client.name, {}))
    reason = why_refused(client, topic)
    cut_off = client.name in CUT_OFF and re.search(CUT_OFF[client.name], reason)
    assert REFUSED.search(reason) or cut_off, reason
    assert broker.end_offset(topic) == 0


def why_refused(client: Client, topic: str) -> str:
    try:
        [delivery] = client.produce(topic, [record()])
    except ClientError as error:
        return f"{error.message}\n{client.logged()}"
    assert delivery.message, delivery
    return f"{delivery.message}\n{client.logged()}"


@security_case("{login}: without the right to it, a topic can be neither written nor read")
def test_no_right(client: Client, broker: SecuredBroker, topic: str, login: str) -> None:
    found = broker.login(login)
    # Clients without access to a topic wait for it, some of them silently.
    broker.allow(found.principal, topic, "DESCRIBE")
    log_in(client, found)
    assert refused_produce(client, topic) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(ClientError) as refused:
        client.consume(topic, 1)
    assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED, refused.value
    assert broker.end_offset(topic) == 0


def refused_produce(client: Client, topic: str) -> int | None:
    try:
        [delivery] = client.produce(topic, [record()])
    except ClientError as error:
        return error.code
    return delivery.error


@security_case("{login}: a right that is taken away is gone at once, on open connections too")
def test_right_taken_away(client: Client, broker: SecuredBroker, topic: str, login: str) -> None:
    found = broker.login(login)
    broker.allow(found.principal, topic, "READ", "WRITE")
    log_in(client, found)

    def take_away() -> None:
        wait_for(lambda: broker.end_offset(topic) == 1, "the first record is there")
        broker.take_away(topic)

    delivery = client.produce_twice(topic, ("before", "after"), take_away)
    assert delivery.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED, delivery
    assert broker.end_offset(topic) == 1
    broker.allow(found.principal, topic, "READ", "WRITE")
    with pytest.raises(ClientError) as refused:
        client.consume_twice(topic, lambda: broker.take_away(topic))
    assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED, refused.value
