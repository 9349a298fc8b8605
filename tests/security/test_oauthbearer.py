"""OAUTHBEARER messages from clients, and from attackers."""

from __future__ import annotations

import pytest

from ottla.security.sasl import oauthbearer
from ottla.security.sasl.oauthbearer import BearerToken, OAuthBearerServer, TokenRefused
from ottla.security.sasl.plain import AuthenticationFailed, Login


def server() -> OAuthBearerServer:
    def validate(token: str) -> BearerToken:
        if token != "good":
            raise TokenRefused("The token is not good.")
        return BearerToken("ann", 4_000_000_000_000)

    return OAuthBearerServer(validate)


def test_a_good_token() -> None:
    client = oauthbearer.log_in("good", {"traceId": "1 2", "logicalCluster": "lkc"})
    first = next(client)
    assert first == b"n,,\1auth=Bearer good\1traceId=1 2\1logicalCluster=lkc\1\1"
    told = server()
    assert told.answer(first) == b""
    assert told.login == Login("ann", expires_at_ms=4_000_000_000_000)
    assert told.extensions == {"traceId": "1 2", "logicalCluster": "lkc"}
    with pytest.raises(StopIteration):
        client.send(b"")


def test_a_bad_token_is_answered_and_acknowledged_before_the_login_has_failed() -> None:
    client = oauthbearer.log_in("bad")
    told = server()
    answer = told.answer(next(client))
    assert answer == b'{"status":"invalid_token"}'
    acknowledgement = client.send(answer)
    assert acknowledgement == b"\1"
    with pytest.raises(AuthenticationFailed, match="not good") as failed:
        told.answer(acknowledgement)
    assert failed.value.told == '{"status":"invalid_token"}'
    assert told.login is None


def test_nobody_gets_in_with_a_second_token_after_a_bad_one() -> None:
    told = server()
    told.answer(b"n,,\1auth=Bearer bad\1\1")
    with pytest.raises(AuthenticationFailed):
        told.answer(b"n,,\1auth=Bearer good\1\1")
    assert told.login is None


@pytest.mark.parametrize(("authzid", "works"), [("ann", True), ("bob", False), ("a=2Cnn", False)])
def test_who_one_wants_to_be_is_who_one_is(authzid: str, works: bool) -> None:
    told = server()
    message = f"n,a={authzid},\1auth=Bearer good\1\1".encode()
    if works:
        assert told.answer(message) == b""
        return
    with pytest.raises(AuthenticationFailed, match="another identity"):
        told.answer(message)
    assert told.login is None


@pytest.mark.parametrize(
    "message",
    [b"", b"\1", b"n,,", b"n,,\1\1", b"n,,\1auth=Bearer good\1", b"n,,auth=Bearer good", b"y,,\1auth=Bearer good\1\1",
     b"p=x,,\1auth=Bearer good\1\1", b"n,,\1auth=Basic good\1\1", b"n,,\1auth=Bearer \1\1", b"n,,\1auth=good\1\1",
     b"n,,\1auth=Bearer good\1auth=Bearer good\1\1", b"n,,\1x=y\1\1", b"n,,\1auth=Bearer good\1x\1\1",
     b"n,,\1auth=Bearer good\1=y\1\1", b"n,,\1auth=Bearer good\0\1\1", b"n,,\1auth=Bearer go od\1\1", b"\xff" * 9,
     b"n,,\1auth=Bearer good\1\1\1", b"n,,\1AUTH=Bearer good\1\1", b"n,a=,\1auth=Bearer good\1\1"],
)  # fmt: skip
def test_what_is_no_first_message(message: bytes) -> None:
    told = server()
    with pytest.raises(AuthenticationFailed):
        told.answer(message)
    assert told.login is None


@pytest.mark.parametrize(
    ("token", "extensions"),
    [("a b", {}), ("a\1", {}), ("", {}), ("t", {"auth": "x"}), ("t", {"a": "\1"}), ("t", {"1": "x"})],
)
def test_a_client_sends_nothing_that_changes_the_message(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(AuthenticationFailed):
        next(oauthbearer.log_in(token, extensions))
