"""DIGEST-MD5, with the example of RFC 2831, and with untrusted servers."""

from __future__ import annotations

import secrets

import pytest

from ottla.security.sasl import digest_md5
from ottla.security.sasl.plain import AuthenticationFailed

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


@pytest.fixture(autouse=True)
def known_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: "OA6MHXh6VqTrRk")


def answered(challenge: bytes, username: str = "chris"):
    exchange = digest_md5.log_in(username, "secret", "imap/elwood.innosoft.com")
    assert next(exchange) == b""
    return exchange, exchange.send(challenge)


def test_the_example_of_the_rfc() -> None:
    exchange, answer = answered(CHALLENGE)
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer
    with pytest.raises(StopIteration):
        exchange.send(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")


def test_a_server_that_does_not_know_the_password_is_not_trusted() -> None:
    exchange, _ = answered(CHALLENGE)
    with pytest.raises(AuthenticationFailed, match="does not know the password"):
        exchange.send(b"rspauth=ea40f60335c427b5527b84dbabcdfffe")


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff\xfe",
        b"nonce",
        b'nonce="open',
        b"realm=a,algorithm=md5-sess",
        b'nonce="a"',
        b'nonce="a",algorithm=md5',
        b'nonce="a",nonce="b",algorithm=md5-sess',
        b'nonce="a",algorithm=md5-sess,qop="auth-conf"',
        b'nonce="' + b"a" * 3000 + b'",algorithm=md5-sess',
    ],
)
def test_a_challenge_that_makes_no_sense_is_refused(challenge: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        answered(challenge)


def test_names_are_quoted() -> None:
    _, answer = answered(CHALLENGE, 'o"ne\\two')
    assert rb'username="o\"ne\\two"' in answer
