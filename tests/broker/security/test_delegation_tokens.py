"""Promise: the holder of a valid delegation token authenticates as its owner, and cannot manage tokens."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.metadata.credentials import DelegationToken, decode_token, encode_token
from ottla.metadata.nodes import BadNode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import MetadataRequest
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

pytestmark = pytest.mark.timeout(120)

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_admin="admin-secret" user_ann="pencil" user_bob="crayon" user_eve="chalk";'
)
PASSWORDS = {"admin": "admin-secret", "ann": "pencil", "bob": "crayon", "eve": "chalk"}


class Secured:
    def __init__(self, data: Path, **config: str) -> None:
        plain, sasl = ReservedPorts(2).numbers
        self.plain, self.sasl = f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}"
        self.config = {
            "listeners": f"PLAINTEXT://{self.plain},SASL_PLAINTEXT://{self.sasl}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
            "delegation.token.secret.key": "the secret of all brokers",
            "connection.failed.authentication.delay.ms": "10",
            **config,
        }
        self.data = data
        self.broker = Broker(data=data, config=self.config)

    def client(self, user: str) -> WireClient:
        client = WireClient(self.sasl)
        assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        token = f"\0{user}\0{PASSWORDS[user]}".encode()
        assert client.call(SaslAuthenticateRequest(auth_bytes=token), 1).error_code == 0
        return client

    def with_token(
        self, token_id: str, hmac: bytes, mechanism: str = "SCRAM-SHA-256", *, is_token: bool = True
    ) -> tuple[WireClient, Any]:
        """Return a client that logs in with a token, and the broker's last response."""
        client = WireClient(self.sasl)
        assert client.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
        steps = scram.log_in(mechanism, token_id, base64.b64encode(hmac).decode(), is_token=is_token)
        message = next(steps)
        while True:
            answer = client.call(SaslAuthenticateRequest(auth_bytes=message), 1)
            if answer.error_code:
                return client, answer
            try:
                message = steps.send(bytes(answer.auth_bytes))
            except StopIteration:
                return client, answer


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("tokens"))
    with made.broker:
        made.broker.create_topic("t")
        yield made


def create(client: WireClient, *renewers: str, lifetime: int = -1, owner: str | None = None) -> Any:
    return client.call(
        CreateDelegationTokenRequest(
            owner_principal_type="User" if owner else None,
            owner_principal_name=owner,
            renewers=[CreatableRenewers(principal_type="User", principal_name=each) for each in renewers],
            max_lifetime_ms=lifetime,
        )
    )


def described(client: WireClient, *owners: str) -> Any:
    wanted = [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners]
    return client.call(DescribeDelegationTokenRequest(owners=wanted or None))


# -- logging in ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_who_holds_a_token_is_its_owner(secured: Secured, mechanism: str) -> None:
    with secured.client("ann") as ann:
        token = create(ann, "bob")
    assert token.error_code == 0
    assert (token.principal_type, token.principal_name) == ("User", "ann")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "ann")
    day = 86_400_000
    assert token.expiry_timestamp_ms - token.issue_timestamp_ms == day
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 7 * day
    client, done = secured.with_token(token.token_id, bytes(token.hmac), mechanism)
    with client:
        assert done.error_code == 0
        assert day - 60_000 < done.session_lifetime_ms <= day
        assert client.call(MetadataRequest(topics=None), 9).topics
        [connection] = [
            each
            for listener in secured.broker._server._listeners  # type: ignore[union-attr]
            for each in listener.connections
            if each.login is not None and each.login.token_id == token.token_id
        ]
        assert str(connection.principal) == "User:ann"
        for request in (
            CreateDelegationTokenRequest(max_lifetime_ms=-1),
            RenewDelegationTokenRequest(hmac=bytes(token.hmac), renew_period_ms=-1),
            ExpireDelegationTokenRequest(hmac=bytes(token.hmac), expiry_time_period_ms=-1),
            DescribeDelegationTokenRequest(owners=None),
        ):
            refused = client.call(request).error_code
            assert refused == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_token_is_not_a_user_and_its_secret_counts(secured: Secured) -> None:
    with secured.client("ann") as ann:
        token, other = create(ann), create(ann)
    for token_id, secret, is_token in (
        (token.token_id, bytes(token.hmac), False),
        (token.token_id, bytes(other.hmac), True),
        (token.token_id, b"", True),
        ("ann", bytes(token.hmac), True),
        ("nobody", bytes(token.hmac), True),
    ):
        client, answer = secured.with_token(token_id, secret, is_token=is_token)
        with client:
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.is_closed()


def test_a_token_that_has_expired_lets_nobody_in(secured: Secured) -> None:
    with secured.client("ann") as ann:
        token = create(ann, lifetime=1)
        wait_for(lambda: time.time() * 1000 > token.max_timestamp_ms + 1)
        client, answer = secured.with_token(token.token_id, bytes(token.hmac))
        client.socket.close()
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        for request in (
            RenewDelegationTokenRequest(hmac=bytes(token.hmac), renew_period_ms=-1),
            ExpireDelegationTokenRequest(hmac=bytes(token.hmac), expiry_time_period_ms=5),
        ):
            assert ann.call(request).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# -- renewing, expiring, describing -------------------------------------------------------------------------


def test_owner_and_renewers_renew_and_expire_it_and_nobody_else(secured: Secured) -> None:
    with secured.client("ann") as ann, secured.client("bob") as bob, secured.client("eve") as eve:
        token = create(ann, "bob", lifetime=7_200_000)
        secret = bytes(token.hmac)
        assert token.expiry_timestamp_ms == token.max_timestamp_ms, "never beyond its end"
        for client in (ann, bob):
            renewed = client.call(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=60_000))
            assert renewed.error_code == 0
            assert abs(renewed.expiry_timestamp_ms - time.time() * 1000 - 60_000) < 50_000
        longest = ann.call(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=-1))
        assert longest.expiry_timestamp_ms == token.max_timestamp_ms
        for request in (
            RenewDelegationTokenRequest(hmac=secret, renew_period_ms=1),
            ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1),
        ):
            assert eve.call(request).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        sooner = bob.call(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=30_000))
        assert sooner.expiry_timestamp_ms < token.max_timestamp_ms
        assert bob.call(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1)).error_code == 0
        for request in (
            RenewDelegationTokenRequest(hmac=secret, renew_period_ms=1),
            ExpireDelegationTokenRequest(hmac=b"made up", expiry_time_period_ms=-1),
        ):
            assert ann.call(request).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        client, answer = secured.with_token(token.token_id, secret)
        client.socket.close()
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_tokens_of_some_owners_are_described(secured: Secured) -> None:
    with secured.client("ann") as ann, secured.client("bob") as bob:
        token = create(ann, "bob", "admin")
        [found] = [each for each in described(bob, "ann").tokens if each.token_id == token.token_id]
        assert (found.principal_type, found.principal_name) == ("User", "ann")
        assert bytes(found.hmac) == bytes(token.hmac)
        assert [each.principal_name for each in found.renewers] == ["bob", "admin"]
        assert (found.issue_timestamp, found.expiry_timestamp, found.max_timestamp) == (
            token.issue_timestamp_ms,
            token.expiry_timestamp_ms,
            token.max_timestamp_ms,
        )
        assert token.token_id in {each.token_id for each in described(ann).tokens}
        assert token.token_id not in {each.token_id for each in described(ann, "eve").tokens}


def test_who_has_not_proved_who_it_is_has_nothing_to_do_with_tokens(secured: Secured) -> None:
    with WireClient(secured.plain) as client:
        for request in (
            CreateDelegationTokenRequest(max_lifetime_ms=-1),
            RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1),
            ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1),
            DescribeDelegationTokenRequest(owners=None),
        ):
            refused = client.call(request).error_code
            assert refused == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_owners_and_renewers_are_users(secured: Secured) -> None:
    with secured.client("ann") as ann:
        group = CreatableRenewers(principal_type="Group", principal_name="all")
        refused = ann.call(CreateDelegationTokenRequest(renewers=[group], max_lifetime_ms=-1))
        assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        assert not bytes(refused.hmac)
        # Otherwise a token of Service:admin would give access as User:admin.
        refused = ann.call(
            CreateDelegationTokenRequest(
                owner_principal_type="Service", owner_principal_name="admin", max_lifetime_ms=-1
            )
        )
        assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version(secured: Secured, version: int) -> None:
    with secured.client("ann") as ann:
        token = ann.call(CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
        assert token.error_code == 0
        found = ann.call(DescribeDelegationTokenRequest(owners=None), version)
        assert token.token_id in {each.token_id for each in found.tokens}


# -- rights -------------------------------------------------------------------------------------------------


def test_tokens_of_others_need_rights(tmp_path: Path) -> None:
    authorizer = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    secured = Secured(tmp_path, **authorizer)
    with (
        secured.broker,
        secured.client("admin") as admin,
        secured.client("ann") as ann,
        secured.client("bob") as bob,
    ):

        def allow(operation: Operation, kind: ResourceType, name: str) -> None:
            pattern = ResourcePattern(kind, name, PatternType.LITERAL)
            add_acls(admin, [Acl(pattern, Entry("User:ann", "*", operation, Permission.ALLOW))])

        def seen() -> set[str]:
            return {each.token_id for each in described(ann).tokens}

        of_bob = create(bob)
        refused = create(ann, owner="bob")
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.token_id, bytes(refused.hmac)) == ("", b"")
        assert seen() == set()
        allow(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")
        made = create(ann, owner="bob")
        assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (
            0,
            "bob",
            "ann",
        )
        assert create(ann, owner="admin").error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert seen() == {made.token_id}, "what one asked for, and no more"
        renewal = RenewDelegationTokenRequest(hmac=bytes(made.hmac), renew_period_ms=-1)
        assert ann.call(renewal).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        for right in (
            (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, of_bob.token_id),
            (Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob"),
        ):
            allow(*right)
            assert seen() == {made.token_id, of_bob.token_id}
            remove_all_acls(admin)
            assert seen() == {made.token_id}


# -- the store ----------------------------------------------------------------------------------------------


def test_without_a_secret_there_are_no_tokens(tmp_path: Path) -> None:
    secured = Secured(tmp_path, **{"delegation.token.secret.key": ""})
    with secured.broker, secured.client("ann") as ann:
        for request in (
            CreateDelegationTokenRequest(max_lifetime_ms=-1),
            RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1),
            ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1),
            DescribeDelegationTokenRequest(owners=None),
        ):
            assert ann.call(request).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_tokens_live_over_a_restart_and_expired_ones_are_swept(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    del secured.config["delegation.token.secret.key"]
    secured.config["delegation.token.master.key"] = "kept"  # the deprecated name
    with Broker(data=tmp_path, config=secured.config), secured.client("ann") as ann:
        token, short = create(ann), create(ann, lifetime=1)
    sweeping = {**secured.config, "delegation.token.expiry.check.interval.ms": "50"}
    with Broker(data=tmp_path, config=sweeping), secured.client("ann") as ann:
        client, answer = secured.with_token(token.token_id, bytes(token.hmac))
        client.socket.close()
        assert answer.error_code == 0
        wait_for(lambda: short.token_id not in {each.token_id for each in described(ann).tokens})
        assert token.token_id in {each.token_id for each in described(ann).tokens}
    with Broker(data=tmp_path, config=secured.config | {"delegation.token.master.key": "changed"}):
        client, answer = secured.with_token(token.token_id, bytes(token.hmac))
        client.socket.close()
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED, "another secret, other tokens"


def test_a_token_is_kept_as_kafka_keeps_it() -> None:
    token = DelegationToken("id", "User:a b", "User:admin", ("User:bob", "User:*"), 1, 3, 2)
    data = encode_token(token)
    assert json.loads(data) == {
        "version": 3,
        "owner": "User%3Aa%20b",
        "tokenRequester": "User%3Aadmin",
        "renewers": ["User%3Abob", "User%3A%2A"],
        "issueTimestamp": 1,
        "maxTimestamp": 3,
        "expiryTimestamp": 2,
        "tokenId": "id",
    }
    assert decode_token("id", data) == token
    first = b'{"version":1,"owner":"User%3Aann","issueTimestamp":1,"maxTimestamp":3,"expiryTimestamp":2}'
    assert decode_token("id", first) == DelegationToken("id", "User:ann", "User:ann", (), 1, 3, 2)
    for broken in (b"", b"{}", b"[]", b'{"owner":"x"}'):
        with pytest.raises(BadNode):
            decode_token("id", broken)
