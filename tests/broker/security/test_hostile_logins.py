"""Promise: the broker rejects hostile input before a login or closes the connection, without a traceback."""

from __future__ import annotations

import json
import logging
import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.security.bearer_tokens import Rules, parse_keys, validate
from ottla.security.sasl import scram
from ottla.security.sasl.oauthbearer import OAuthBearerServer
from ottla.security.sasl.plain import AuthenticationFailed, Login, PlainServer, ServerExchange
from ottla.security.sasl.scram import ScramServer
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.issuer import AUDIENCE, ISSUER, Issuer
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(180)

ROUNDS = 25_000
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="pencil";'


def garbled(message: bytes, choice: random.Random) -> bytes:
    """Return mutated bytes: cut, changed, doubled or extended, and sometimes random bytes."""
    data = bytearray(message)
    for _ in range(choice.randrange(1, 4)):
        at = choice.randrange(len(data) + 1)
        match choice.randrange(7):
            case 0:
                del data[at:]
            case 1:
                del data[:at]
            case 2:
                data[at:at] = choice.randbytes(choice.randrange(1, 9))
            case 3 if data:
                data[choice.randrange(len(data))] = choice.randrange(256)
            case 4:
                data += data[at:]
            case 5:
                data[at:at] = choice.choice(
                    [b"\0", b"\1", b",", b"=", b".", b"n,,", b"\xff", b"=2C"]
                ) * choice.choice([1, 2, 500])
            case _:
                data = bytearray(choice.randbytes(choice.randrange(64)))
    return bytes(data)


# -- the SASL exchanges -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture(scope="module")
def servers(issuer: Issuer) -> dict[str, Callable[[], ServerExchange]]:
    credentials = {mechanism: scram.new_credential(mechanism, "pencil") for mechanism in scram.HASHES}
    keys = parse_keys(json.dumps(issuer.keys).encode())
    rules = Rules(ISSUER, (AUDIENCE,))

    def scram_server(mechanism: str) -> Callable[[], ServerExchange]:
        return lambda: ScramServer(
            mechanism,
            lambda name, _: credentials[mechanism] if name in ("ann", "id") else None,
            lambda token_id: Login("ann", token_id) if token_id == "id" else None,
            stand_ins=lambda name, _: scram.stand_in(mechanism, name, b"secret", []),
        )

    return {
        "PLAIN": lambda: PlainServer({"ann": "pencil"}.get),
        "OAUTHBEARER": lambda: OAuthBearerServer(lambda token: validate(token, keys, rules)),
        **{mechanism: scram_server(mechanism) for mechanism in scram.HASHES},
    }


def first_messages(mechanism: str, issuer: Issuer) -> list[bytes]:
    """Return first messages of clients that do not know the password."""
    if mechanism == "PLAIN":
        return [b"\0ann\0wrong", b"ann\0ann\0", b"\0bob\0pencil"]
    if mechanism == "OAUTHBEARER":
        forged = issuer.token(iss="https://elsewhere.example")
        return [
            f"n,,\1auth=Bearer {forged}\1\1".encode(),
            f"n,a=ann,\1auth=Bearer {forged}\1x=y\1\1".encode(),
        ]
    return [b"n,,n=ann,r=fyko+d2lbbFgONRv9qkxdawL", b"n,a=ann,n=ann,r=abc", b"n,,n=id,r=abc,tokenauth=true"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_garbled_tokens_are_refused(
    servers: dict[str, Callable[[], ServerExchange]], issuer: Issuer, mechanism: str
) -> None:
    choice = random.Random(mechanism)
    messages = first_messages(mechanism, issuer)
    final = f"c=biws,r={'x' * 30},p={'A' * 42}==".encode()
    for _ in range(ROUNDS):
        server = servers[mechanism]()
        message = choice.choice(messages)
        if choice.random() < 0.6:  # otherwise the next message is hostile
            message = garbled(message, choice)
        try:
            while True:  # keep answering while the server asks for more
                server.answer(message)
                assert server.login is None
                message = garbled(choice.choice([final, b"\1", message]), choice)
        except AuthenticationFailed:
            pass
        assert server.login is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_huge_tokens_are_refused_in_time(
    servers: dict[str, Callable[[], ServerExchange]], issuer: Issuer, mechanism: str
) -> None:
    half = 524_288
    for message in (
        *(first + b"A" * half for first in first_messages(mechanism, issuer)),
        b"n,,n=" + b"a" * half + b",r=x",
        b"n,,n=a,r=x" + b",a=b" * (half // 4),
        b"n,,\1auth=Bearer " + b"a." * (half // 2) + b"\1\1",
        b"n,,\1" + b"a=b\1" * (half // 4) + b"\1",
        b"n,a=" + b"=2C" * (half // 3) + b",\1auth=Bearer x\1\1",
        b"\0" * half,
    ):
        server = servers[mechanism]()
        with suppress(AuthenticationFailed):
            server.answer(message)
        assert server.login is None


# -- the broker ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    [port] = ReservedPorts(1).numbers
    config = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "sasl.oauthbearer.jwks.endpoint.url": issuer.jwks_url,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": issuer.jwks_url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connection.failed.authentication.delay.ms": "0",
        "delegation.token.secret.key": "secret",
    }
    with Broker(data=tmp_path_factory.mktemp("hostile"), config=config):
        yield f"127.0.0.1:{port}"


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(key: int, version: int, body: bytes) -> bytes:
    return frame(
        struct.pack(">hhih", key, version, 7, -1) + (b"\0" if (key, version) == (36, 2) else b"") + body
    )


def everything(host: str, data: bytes) -> bytes:
    """Return everything that the broker sends before it closes the connection."""
    name, port = host.split(":")
    received = b""
    with socket.create_connection((name, int(port)), timeout=30) as raw:
        try:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while chunk := raw.recv(65536):
                received += chunk
        except OSError:  # the broker closed the connection before the client had sent everything
            pass
    return received


def test_hostile_connections(broker: str, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    choice = random.Random(14)
    metadata = request(3, 9, b"\0\0\0\0")
    with caplog.at_level(logging.INFO):
        for turn in range(600):
            mechanism = MECHANISMS[turn % len(MECHANISMS)]
            token = garbled(choice.choice(first_messages(mechanism, issuer)), choice)
            version = choice.choice([0, 1])
            handshake = request(17, version, SaslHandshakeRequest(mechanism=mechanism).encode(version))
            if version:
                kind = choice.choice([0, 1, 2])
                tokens = request(36, kind, SaslAuthenticateRequest(auth_bytes=token).encode(kind))
            else:
                tokens = frame(token)
            data = [
                handshake + tokens,
                handshake + garbled(tokens, choice),
                garbled(handshake, choice) + tokens,
            ]
            received = everything(broker, choice.choice(data) + tokens + metadata)
            # At most two responses belong to the login. None belongs to the request behind it.
            assert b"SASL_PLAINTEXT" not in received
            assert len(received) < 2000
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]
    with WireClient(broker) as client:
        assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        good = SaslAuthenticateRequest(auth_bytes=b"\0ann\0pencil")
        assert client.call(good, 1).error_code == 0, "and who knows the password still gets in"


def test_what_was_sent_is_not_in_the_log_of_a_failure() -> None:
    message = SaslAuthenticateRequest(auth_bytes=b"\0ann\0pencil")
    assert "pencil" not in repr(message)


def test_a_token_beyond_what_is_received(broker: str) -> None:
    handshake = request(17, 1, SaslHandshakeRequest(mechanism="OAUTHBEARER").encode(1))
    huge = SaslAuthenticateRequest(auth_bytes=b"n,,\1auth=Bearer " + b"a" * 600_000).encode(1)
    received = everything(broker, handshake + request(36, 1, huge))
    # At most the handshake response arrives; closing the connection may discard bytes in flight.
    assert not received or len(received) == 4 + struct.unpack_from(">i", received)[0]
