"""Promise: nobody gets in by lying during a login. Each test is an attack that has worked against some broker."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import logging
import random
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from ottla.security.sasl import scram
from tests.broker.attacks.secured import MECHANISMS, PASSWORD, Secured, frame, framed
from tests.broker.network.hostile import request_frame, spoil
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(120)

SCRAM = "SCRAM-SHA-256"
TOPIC = "secret-plans"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Secured(tmp_path_factory.mktemp("secured")) as made:
        made.broker.create_topic(TOPIC)
        made.put_user("ann")
        yield made


def authenticate(secured: Secured, mechanism: str, *tokens: bytes) -> SaslAuthenticateResponse:
    """Send the tokens and return the response to the last one."""
    with WireClient(secured.sasl) as client:
        assert client.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
        for token in tokens:
            answer = client.call(SaslAuthenticateRequest(auth_bytes=token), 1)
        assert isinstance(answer, SaslAuthenticateResponse)
        if answer.error_code:
            assert client.is_closed()
        return answer


# Impersonation (CVE-2017-12610)


@pytest.mark.parametrize("authzid", [b"bob", b"ANN", b"ann ", b"admin", b"*"])
def test_a_user_of_plain_cannot_act_as_another(secured: Secured, authzid: bytes) -> None:
    answer = authenticate(secured, "PLAIN", authzid + b"\0ann\0" + PASSWORD.encode())
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert authenticate(secured, "PLAIN", b"ann\0ann\0" + PASSWORD.encode()).error_code == 0


@pytest.mark.parametrize("authzid", ["bob", "ANN", "*"])
def test_a_user_of_scram_cannot_act_as_another(secured: Secured, authzid: str) -> None:
    answer = authenticate(secured, SCRAM, f"n,a={authzid},n=ann,r=nonce".encode())
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert authenticate(secured, SCRAM, b"n,a=ann,n=ann,r=nonce").error_code == 0


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0",
        b"ann\0" + PASSWORD.encode(),
        b"\0ann\0",
        b"\0\0" + PASSWORD.encode(),
        b"\0ann\0" + PASSWORD.encode() + b"\0",
        b"\0ann\0wrong\0" + PASSWORD.encode(),
        b"\0ann\xff\0" + PASSWORD.encode(),
        b"\0ann\0" + PASSWORD.encode()[:-1],
        b"\0ann\0" + PASSWORD.encode() + b" ",
    ],
)
def test_tokens_of_plain_that_are_not_quite_right(secured: Secured, token: bytes) -> None:
    answer = authenticate(secured, "PLAIN", token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    # These are Kafka's messages. They describe the message format and reveal no user names.
    assert re.fullmatch(
        "Authentication failed: (Invalid username or password|(username|password) not specified)"
        "|Invalid SASL/PLAIN response: expected 3 tokens, got [124]",
        answer.error_message,
    )


# Responses to a different challenge (CVE-2024-56128)


def proof(first_bare: str, challenge: bytes, without_proof: str) -> bytes:
    """Return the final message of a client that knows the password, for the given challenge and nonce."""
    fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
    salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
    key = hmac.digest(
        hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, iterations), b"Client Key", "sha256"
    )
    signed = f"{first_bare},{challenge.decode()},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    made = bytes(left ^ right for left, right in zip(key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(made).decode()}".encode()


@pytest.mark.parametrize(
    ("nonce", "binding", "works"),
    [
        ("{challenged}", "biws", True),
        ("nonce", "biws", False),  # the client's nonce without the broker's part
        ("{challenged}x", "biws", False),
        ("{foreign}", "biws", False),
        ("{challenged}", "eSws", False),  # y,, although the first message said n,,
        ("{challenged}", "biw=", False),
    ],
)
def test_a_proof_counts_for_its_own_challenge_only(
    secured: Secured, nonce: str, binding: str, works: bool
) -> None:
    foreign = authenticate(secured, SCRAM, b"n,,n=ann,r=nonce").auth_bytes.decode().split(",")[0][2:]
    with WireClient(secured.sasl) as client:
        client.call(SaslHandshakeRequest(mechanism=SCRAM), 1)
        challenge = client.call(SaslAuthenticateRequest(auth_bytes=b"n,,n=ann,r=nonce"), 1).auth_bytes
        challenged = bytes(challenge).decode().split(",")[0][2:]
        assert challenged.startswith("nonce")
        said = nonce.format(challenged=challenged, foreign=foreign)
        final = proof("n=ann,r=nonce", bytes(challenge), f"c={binding},r={said}")
        answer = client.call(SaslAuthenticateRequest(auth_bytes=final), 1)
        assert (answer.error_code == 0) == works
        if not works:
            assert client.is_closed()


def test_a_recorded_login_cannot_be_played_again(secured: Secured) -> None:
    recorded = []
    exchange = scram.log_in(SCRAM, "ann", PASSWORD)
    with WireClient(secured.sasl) as client:
        client.call(SaslHandshakeRequest(mechanism=SCRAM), 1)
        token = next(exchange)
        try:
            while True:
                recorded.append(token)
                answer = client.call(SaslAuthenticateRequest(auth_bytes=token), 1)
                assert answer.error_code == 0
                token = exchange.send(bytes(answer.auth_bytes))
        except StopIteration:
            pass
    assert len(recorded) == 2
    assert authenticate(secured, SCRAM, *recorded).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "first", [b"y,,n=ann,r=x", b"p=tls-unique,,n=ann,r=x", b"n,,m=1,n=ann,r=x", b"n,,n=,r=x"]
)
def test_first_messages_of_scram_that_are_refused(secured: Secured, first: bytes) -> None:
    assert authenticate(secured, SCRAM, first).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_nobody_finds_out_who_exists(secured: Secured) -> None:
    """Neither the error text, nor the failing step, nor a changing salt reveals whether a user exists."""
    for mechanism in MECHANISMS[1:]:
        shapes, refusals = [], set()
        for user in ("ann", "nobody-of-that-name"):
            challenges = [authenticate(secured, mechanism, f"n,,n={user},r=nonce".encode()) for _ in range(2)]
            salts = {bytes(each.auth_bytes).decode().split(",")[1] for each in challenges}
            assert len(salts) == 1
            [salt] = salts
            shapes.append((len(base64.b64decode(salt[2:])) > 0, challenges[0].error_code))
            with pytest.raises(ClientError) as refused:
                secured.log_in(mechanism, user, "wrong")
            refusals.add(str(refused.value).replace(user, ""))
        assert shapes[0] == shapes[1]
        assert len(refusals) == 1


# Requests before the login completes


METADATA = frame(MetadataRequest(topics=None), 9, 99)
GOOD = frame(SaslAuthenticateRequest(auth_bytes=b"\0ann\0" + PASSWORD.encode()), 1, 3)
BAD = frame(SaslAuthenticateRequest(auth_bytes=b"\0ann\0wrong"), 1, 2)
HANDSHAKE = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1)


@pytest.mark.parametrize(
    ("frames", "correlation_ids"),
    [
        ([METADATA], []),
        ([HANDSHAKE, METADATA], [1]),
        ([HANDSHAKE, METADATA, GOOD], [1]),
        ([HANDSHAKE, HANDSHAKE, METADATA], [1]),
        ([HANDSHAKE, BAD, METADATA], [1, 2]),
        # A connection gets only one attempt.
        ([HANDSHAKE, BAD, GOOD, METADATA], [1, 2]),
        ([GOOD, METADATA], []),
        ([frame(SaslHandshakeRequest(mechanism="PLAIN"), 0, 1), METADATA], [1]),
        ([frame(SaslHandshakeRequest(mechanism="NONE"), 1, 1), METADATA], [1]),
        ([frame(SaslHandshakeRequest(mechanism="NONE"), 1, 1), HANDSHAKE, GOOD, METADATA], [1]),
    ],
)
def test_what_is_sent_before_the_login_is_never_served(
    secured: Secured, frames: list[bytes], correlation_ids: list[int]
) -> None:
    answers = secured.answers(frames)
    assert [struct.unpack_from(">i", each)[0] for each in answers] == correlation_ids
    assert not any(TOPIC.encode() in each for each in answers)


def test_what_is_sent_behind_a_good_login_is_served_as_that_user(secured: Secured) -> None:
    with WireClient(secured.sasl) as client:
        client.socket.sendall(HANDSHAKE + GOOD + METADATA)
        *_, last = [client.receive_frame(correlation_id) for correlation_id in (1, 3, 99)]
    assert TOPIC in [topic.name for topic in MetadataResponse.decode(last, 9, 5).topics]


# Sizes (CVE-2022-34917)

_TAGS = b"\xff\xff\xff\xff\x07"  # a varint of 2^31 - 1


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">hhih", 18, 3, 1, -1) + _TAGS,
        struct.pack(">hhih", 18, 3, 1, -1) + b"\0" + _TAGS + b"ab",
        struct.pack(">hhih", 18, 3, 1, -1) + b"\0\x02a\x02b" + _TAGS,
        struct.pack(">hhih", 18, 3, 1, -1) + b"\0\x02a\x02b\x01\x00" + _TAGS,
        struct.pack(">hhih", 18, 0, 1, 32767),
        struct.pack(">hhih", 17, 1, 1, -1) + struct.pack(">h", 32767) + b"PLAIN",
        struct.pack(">hhih", 17, 1, 1, -1) + struct.pack(">h", -1),
        struct.pack(">hhih", 17, 1, 1, -1) + struct.pack(">h", -2),
        struct.pack(">hhih", 0, 9, 1, -1) + b"\0" + _TAGS,
        b"",
        b"\0",
        b"\x7f\xff",
    ],
)
def test_lengths_that_lie_are_not_believed(secured: Secured, body: bytes) -> None:
    assert len(secured.answers([framed(body)], leave=True)) <= 1
    secured.log_in("PLAIN", "ann")


@pytest.mark.parametrize("length", [-1, -(2**31), 524_289, 2**31 - 1])
def test_frames_that_are_too_long_end_the_connection(secured: Secured, length: int) -> None:
    with socket.create_connection(("127.0.0.1", secured.port), timeout=30) as raw:
        raw.sendall(struct.pack(">i", length))
        assert raw.recv(1) == b""


@pytest.mark.parametrize("length", [-2, 2**31 - 1, 100_000])
def test_a_token_that_claims_to_be_long(secured: Secured, length: int) -> None:
    body = struct.pack(">hhih", 36, 1, 2, -1) + struct.pack(">i", length) + b"\0ann\0" + PASSWORD.encode()
    answers = secured.answers([HANDSHAKE, framed(body), METADATA], leave=True)
    assert not any(TOPIC.encode() in each for each in answers)


def test_the_limit_is_lifted_by_the_login_only(secured: Secured) -> None:
    with WireClient(secured.sasl) as client:
        long = MetadataRequest(topics=[MetadataRequestTopic(name=f"{number:0200}") for number in range(3000)])
        client.socket.sendall(HANDSHAKE + GOOD + frame(long, 9, 99))
        *_, last = [client.receive_frame(correlation_id) for correlation_id in (1, 3, 99)]
    assert len(MetadataResponse.decode(last, 9, 5).topics) == 3000
    assert secured.answers([frame(long, 9)]) == []


# Users with strange names


@pytest.mark.parametrize(
    "name", ["a:b", "x/y", "../brokers/0", "*", "User:ann", "<default>", "ü,=3D=,", "a b%2F"]
)
def test_users_with_strange_names_are_themselves_and_nobody_else(secured: Secured, name: str) -> None:
    secured.put_user(name, "password of this one")
    secured.log_in(SCRAM, name, "password of this one")
    with pytest.raises(ClientError):
        secured.log_in(SCRAM, name, PASSWORD)
    secured.log_in(SCRAM, "ann")
    with pytest.raises(ClientError):
        secured.log_in(SCRAM, "ann", "password of this one")


def test_a_user_who_is_deleted_cannot_come_back(secured: Secured) -> None:
    """As in Kafka, an authenticated connection stays open until it ends."""
    secured.put_user("leaver")
    with WireClient(secured.sasl) as client:
        client.call(SaslHandshakeRequest(mechanism=SCRAM), 1)
        exchange = scram.log_in(SCRAM, "leaver", PASSWORD)
        token = next(exchange)
        for _ in range(2):
            answer = client.call(SaslAuthenticateRequest(auth_bytes=token), 1)
            with contextlib.suppress(StopIteration):
                token = exchange.send(bytes(answer.auth_bytes))
        secured.delete_user("leaver")
        assert client.call(MetadataRequest(topics=[]), 9).brokers
    with pytest.raises(ClientError):
        secured.log_in(SCRAM, "leaver")


# Log output


def test_no_password_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        secured = Secured(tmp_path)
        with secured.broker:
            secured.put_user("ann")
            for mechanism in MECHANISMS:
                secured.log_in(mechanism, "ann")
                with pytest.raises(ClientError):
                    secured.log_in(mechanism, "ann", f"{PASSWORD}-wrong")
            # The user typed the password in place of the user name.
            with pytest.raises(ClientError):
                secured.log_in("PLAIN", PASSWORD, "ann")
            authenticate(secured, "PLAIN", PASSWORD.encode())
            authenticate(secured, SCRAM, PASSWORD.encode())
            secured.answers([framed(PASSWORD.encode() * 3)], leave=True)
    assert "Failed authentication" in caplog.text
    written = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.records)
    assert PASSWORD not in written


# Random input


def noise(secured_port: int, seed: int, count: int) -> None:
    """Return frames of every kind, including login frames, many per connection."""
    rng = random.Random(seed)
    keys = [18, 17, 36, 18, 17, 36, 3, 0, 1, 32, 44]
    bodies = [request_frame(rng, key) for key in keys * 20]
    for start in range(0, count, 50):
        frames = [framed(spoil(rng, rng.choice(bodies))) for _ in range(start, start + 50)]
        opening = rng.choice([b"", HANDSHAKE, frame(ApiVersionsRequest(), 0), HANDSHAKE + BAD])
        with socket.create_connection(("127.0.0.1", secured_port), timeout=30) as raw:
            received = b""
            try:
                raw.sendall(opening + b"".join(frames))
                raw.shutdown(socket.SHUT_WR)
                while chunk := raw.recv(65536):
                    received += chunk
            except OSError:
                pass  # the broker has closed the connection, as it should
            assert TOPIC.encode() not in received


def test_a_hundred_thousand_hostile_frames_before_the_login_hurt_nobody(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    with secured.broker:
        secured.broker.create_topic(TOPIC)
        noise(secured.port, 1, 100_000)
        secured.log_in("PLAIN", "ann")
        with pytest.raises(ClientError):
            secured.log_in("PLAIN", "ann", "wrong")
