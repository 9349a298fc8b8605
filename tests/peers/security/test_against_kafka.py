"""Promise: responses to logins and delegation token requests match Apache Kafka's word for word."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from ottla.protocol.messages.sasl import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from ottla.security.acls import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from ottla.security.sasl import scram
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.security.sasl_broker import AUTHORIZER, add_acls, remove_all_acls
from tests.wire_client import WireClient

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PASSWORDS = {"ann": "pencil", "bob": "crayon", "eve": "chalk"}
USERS = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())


class Servers(NamedTuple):
    plain: str
    sasl: str


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Servers]]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    ports = ReservedPorts(5).numbers
    common = {
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN} required {USERS};",
        "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.clients.oauthbearer.sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="x";',
        "delegation.token.secret.key": "secret of all brokers",
        "connection.failed.authentication.delay.ms": "10",
        "listener.name.clients.plain.connections.max.reauth.ms": "100000",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ann;User:ANONYMOUS",
    }
    listeners = f"PLAINTEXT://127.0.0.1:{ports[0]},CLIENTS://127.0.0.1:{ports[1]}"
    own = {
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "ottla.sasl.oauthbearer.unsecured.tokens": "true",
        **common,
    }
    theirs_at = f"PLAINTEXT://127.0.0.1:{ports[2]},CLIENTS://127.0.0.1:{ports[3]}"
    theirs = {
        "listeners": f"{theirs_at},CONTROLLER://127.0.0.1:{ports[4]}",
        "advertised.listeners": theirs_at,
        "controller.quorum.voters": f"1@127.0.0.1:{ports[4]}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        **common,
    }
    with (
        Broker(data=tmp_path_factory.mktemp("ottla"), config=own),
        ApacheKafka(port=ports[2], data=tmp_path_factory.mktemp("kafka"), config=theirs),
    ):
        yield {
            "ottla": Servers(f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}"),
            "kafka": Servers(f"127.0.0.1:{ports[2]}", f"127.0.0.1:{ports[3]}"),
        }


# -- OAUTHBEARER --------------------------------------------------------------------------------------------


def token(**claims: Any) -> str:
    now = int(time.time())
    every = {"sub": "ann", "iat": now, "exp": now + 300, **claims}
    parts = ({"alg": "none"}, {name: value for name, value in every.items() if value is not None})
    return "".join(
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") + "." for each in parts
    )


def exchange(server: str, mechanism: str, messages: list[bytes]) -> list[tuple[int, bytes, str | None]]:
    """Return the responses to the messages of a login, while the connection is open."""
    answers: list[tuple[int, bytes, str | None]] = []
    with WireClient(server) as client:
        offered = client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        assert offered.error_code == 0
        for message in messages:
            try:
                answer = client.call(SaslAuthenticateRequest(auth_bytes=message), 1)
            except (ConnectionError, TimeoutError):
                answers.append((-1, b"", "closed"))
                break
            answers.append((answer.error_code, bytes(answer.auth_bytes), answer.error_message))
    return answers


def oauth(of: str, more: str = "", authzid: str = "") -> bytes:
    return f"n,{authzid},\1auth=Bearer {of}\1{more}\1".encode()


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(lambda: [oauth(token())], id="good"),
        pytest.param(lambda: [oauth(token(), "traceId=1\1other=x y\1")], id="extensions"),
        pytest.param(lambda: [oauth(token(), authzid="a=ann")], id="itself"),
        pytest.param(lambda: [oauth(token(exp=5)), b"\1"], id="expired"),
        pytest.param(lambda: [oauth(token(exp=None)), b"\1"], id="without exp"),
        pytest.param(lambda: [oauth(token(sub=None)), b"\1"], id="without sub"),
        pytest.param(lambda: [oauth(token(sub="")), b"\1"], id="empty sub"),
        pytest.param(lambda: [oauth("a.b.c"), b"\1"], id="not a token"),
        pytest.param(lambda: [oauth(token() + "AA"), b"\1"], id="signed"),
        pytest.param(lambda: [b"n,,\1\1"], id="no token"),
        pytest.param(lambda: [b"garbage"], id="garbage"),
        pytest.param(lambda: [b""], id="nothing"),
        pytest.param(lambda: [b"\1"], id="acknowledged without a reason"),
    ],
)
def test_a_login_with_a_token_is_answered_alike(brokers: dict[str, Servers], messages: Any) -> None:
    sent = messages()
    ours, theirs = (exchange(brokers[name].sasl, "OAUTHBEARER", sent) for name in ("ottla", "kafka"))
    assert ours == theirs


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        *(
            ("PLAIN", each)
            for each in (
                b"\0ann\0pencil", b"ann\0ann\0pencil", b"\0ann\0wrong", b"\0nobody\0pencil", b"bob\0ann\0pencil", b"",
                b"\0\0", b"\0ann\0", b"\0\0pencil", b"ann", b"\0a\0b\0c", b"\0ann\0pencil\0",
            )
        ),
        *(
            (mechanism, each)
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for each in (b"", b"garbage", b"y,,n=ann,r=abc", b"p=x,,n=ann,r=abc", b"n,,n=ann", b"n,,r=a,n=ann", b"\xff")
        ),
    ],
)  # fmt: skip
def test_a_first_message_is_answered_alike(
    brokers: dict[str, Servers], mechanism: str, message: bytes
) -> None:
    ours, theirs = (exchange(brokers[name].sasl, mechanism, [message]) for name in ("ottla", "kafka"))
    assert ours == theirs


# -- reauthentication ---------------------------------------------------------------------------------------


def again_and_again(server: str) -> list[Any]:
    """Log in repeatedly on a connection with limited session lifetime."""
    told: list[Any] = []

    def log_in(client: WireClient, user: str) -> None:
        try:
            offered = client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            told.append((user, offered.error_code))
            if offered.error_code == 0:
                proof = f"\0{user}\0{PASSWORDS.get(user, 'wrong')}".encode()
                done = client.call(SaslAuthenticateRequest(auth_bytes=proof), 1)
                told.append((done.error_code, done.error_message, 0 < done.session_lifetime_ms <= 100_000))
        except ConnectionError:
            told.append("closed")

    for users in (["ann", "ann", "ann", "ann"], ["ann", "bob"], ["ann", "nobody"]):
        with WireClient(server) as client:
            for user in users:
                log_in(client, user)
    with WireClient(server) as client:
        log_in(client, "ann")
        for _ in range(3):
            log_in(client, "ann")
            time.sleep(1.1)  # as often as allowed
    with WireClient(server) as client:
        log_in(client, "ann")
        stray = client.call(SaslAuthenticateRequest(auth_bytes=b"\0ann\0pencil"), 1)
        told.append((stray.error_code, stray.error_message))
    return told


def test_a_login_is_repeated_alike(brokers: dict[str, Servers]) -> None:
    ours, theirs = (again_and_again(brokers[name].sasl) for name in ("ottla", "kafka"))
    assert ours == theirs


# -- delegation tokens --------------------------------------------------------------------------------------


def logged_in(server: str, user: str) -> WireClient:
    client = WireClient(server)
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    proof = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{PASSWORDS[user]}".encode())
    assert client.call(proof, 1).error_code == 0
    return client


def with_token(server: str, token_id: str, secret: bytes) -> tuple[WireClient, Any]:
    """Return a client that logged in with a token, and the last response. A refused client is closed."""
    client = WireClient(server)
    client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    steps = scram.log_in("SCRAM-SHA-256", token_id, base64.b64encode(secret).decode(), is_token=True)
    message = next(steps)
    while True:
        answer = client.call(SaslAuthenticateRequest(auth_bytes=message), 1)
        if answer.error_code:
            client.socket.close()
            return client, answer
        try:
            message = steps.send(bytes(answer.auth_bytes))
        except StopIteration:
            return client, answer


def story(servers: Servers) -> list[Any]:
    """Return the history of some tokens, without ids, secrets and times."""
    told: list[Any] = []

    def tell(what: str, answer: Any, *more: Any) -> Any:
        told.append((what, answer.error_code, *more))
        return answer

    def renewers(*names: str) -> list[CreatableRenewers]:
        return [CreatableRenewers(principal_type="User", principal_name=name) for name in names]

    ann, bob, eve = (logged_in(servers.sasl, name) for name in PASSWORDS)
    anonymous = WireClient(servers.plain)
    create = CreateDelegationTokenRequest(renewers=renewers("bob"), max_lifetime_ms=-1)
    made = tell("created", ann.call(create))
    told.append(
        (
            made.expiry_timestamp_ms - made.issue_timestamp_ms,
            made.max_timestamp_ms - made.issue_timestamp_ms,
            (made.principal_type, made.principal_name),
            (made.token_requester_principal_type, made.token_requester_principal_name),
            len(made.token_id),
            len(made.hmac),
        )
    )
    secret = bytes(made.hmac)
    short = tell("shorter", ann.call(CreateDelegationTokenRequest(max_lifetime_ms=60_000)))
    told.append(short.max_timestamp_ms - short.issue_timestamp_ms)
    zero = tell("no time", ann.call(CreateDelegationTokenRequest(max_lifetime_ms=0)))
    told.append(zero.max_timestamp_ms - zero.issue_timestamp_ms)
    other = CreatableRenewers(principal_type="Group", principal_name="g")
    deadline = time.monotonic() + 60
    while len(ann.call(DescribeDelegationTokenRequest(owners=None)).tokens) < 3:
        assert time.monotonic() < deadline  # Kafka's brokers learn of tokens with a delay
    refused = tell(
        "renewer is a group", ann.call(CreateDelegationTokenRequest(renewers=[other], max_lifetime_ms=-1))
    )
    told.append((refused.token_id, bytes(refused.hmac)))
    for user, client in (("bob", bob), ("eve", eve), ("anonymous", anonymous)):
        renew = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=3_600_000)
        tell(f"{user} renews", client.call(renew))
    tell("unknown", ann.call(RenewDelegationTokenRequest(hmac=b"unknown", renew_period_ms=-1)))
    tell("unknown", ann.call(ExpireDelegationTokenRequest(hmac=b"unknown", expiry_time_period_ms=-1)))
    for user, client in (("eve", eve), ("anonymous", anonymous)):
        tell(
            f"{user} expires",
            client.call(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1)),
        )
    tell("anonymous creates", anonymous.call(create))
    tell("anonymous describes", anonymous.call(DescribeDelegationTokenRequest(owners=None)))
    for owners in (None, [], ["ann"], ["bob"], ["eve"]):
        wanted = None
        if owners is not None:
            wanted = [
                DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners
            ]
        found = tell(f"described {owners}", bob.call(DescribeDelegationTokenRequest(owners=wanted)))
        told.append(sorted(each.principal_name for each in found.tokens))
    client, answer = with_token(servers.sasl, made.token_id, secret)
    tell("logged in", answer, answer.session_lifetime_ms > 0)
    tell("creates with a token", client.call(create))
    tell("renews with a token", client.call(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=-1)))
    tell("describes with a token", client.call(DescribeDelegationTokenRequest(owners=None)))
    _, answer = with_token(servers.sasl, made.token_id, b"wrong")
    tell("wrong secret", answer, answer.error_message)
    tell("soon", bob.call(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=60_000)))
    tell("removed", bob.call(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1)))
    while True:  # and of their end too
        again, answer = with_token(servers.sasl, made.token_id, secret)
        again.socket.close()
        if answer.error_code or time.monotonic() > deadline:
            break
    tell("gone", answer, answer.error_message)
    tell("gone", ann.call(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=-1)))
    for each in (ann, bob, eve, anonymous, client):
        each.socket.close()
    return told


def test_the_story_of_some_tokens_is_the_same(brokers: dict[str, Servers]) -> None:
    assert story(brokers["ottla"]) == story(brokers["kafka"])


def rights(servers: Servers) -> list[Any]:
    """Return the allowed operations on other users' tokens."""
    told: list[Any] = []
    ann, bob, eve = (logged_in(servers.sasl, name) for name in PASSWORDS)

    def allow(operation: Operation, kind: ResourceType, name: str) -> None:
        pattern = ResourcePattern(kind, name, PatternType.LITERAL)
        add_acls(ann, [Acl(pattern, Entry("User:eve", "*", operation, Permission.ALLOW))])

    def settled(ask: Callable[[], Any], before: Any) -> Any:
        """Retry, because Kafka's brokers learn of ACLs and tokens with a delay."""
        deadline = time.monotonic() + 20
        while (found := ask()) == before and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def created(owner: str, kind: str = "User") -> Any:
        return eve.call(
            CreateDelegationTokenRequest(
                owner_principal_type=kind, owner_principal_name=owner, max_lifetime_ms=-1
            )
        )

    def seen(client: WireClient, token: Any) -> bool:
        found = client.call(DescribeDelegationTokenRequest(owners=None)).tokens
        return token.token_id in {each.token_id for each in found}

    told.append(created("bob").error_code)
    allow(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")
    told.append(settled(lambda: created("bob").error_code, told[-1]))
    told.append(created("ann").error_code)
    of_bob, asked_for = bob.call(CreateDelegationTokenRequest(max_lifetime_ms=-1)), created("bob")
    told.append((asked_for.principal_name, asked_for.token_requester_principal_name))
    assert settled(lambda: seen(bob, of_bob), False)
    told.append(settled(lambda: seen(eve, asked_for), False))
    told.append(seen(eve, of_bob))
    secret = bytes(asked_for.hmac)
    told.append(eve.call(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=-1)).error_code)
    for right in (
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, of_bob.token_id),
        (Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob"),
    ):
        allow(*right)
        told.append(settled(lambda: seen(eve, of_bob), False))
        remove_all_acls(ann)
        told.append(settled(lambda: seen(eve, of_bob), True))
    for each in (ann, bob, eve):
        each.socket.close()
    return told


def test_tokens_of_others_need_the_same_rights(brokers: dict[str, Servers]) -> None:
    assert rights(brokers["ottla"]) == rights(brokers["kafka"])
