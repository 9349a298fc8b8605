"""Promise: Ottla accepts a signed token if and only if Apache Kafka does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.peers.apache_kafka import Unavailable, kafka_jars
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.conformance.security.broker import SecuredBroker
from tests.issuer import Issuer
from tests.wire_client import WireClient

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


def soon(seconds: float) -> float:
    return int(time.time()) + seconds


# Values depend on the clock at login time, and brokers take a while to start.
CLAIMS: dict[str, Callable[[], dict[str, Any]]] = {
    "as it should be": dict,
    "no scope": lambda: {"scope": None},
    "empty scope": lambda: {"scope": ""},
    "blank scope": lambda: {"scope": "  "},
    "two scopes in one": lambda: {"scope": "a b"},
    "list of no scopes": lambda: {"scope": []},
    "scopes": lambda: {"scope": ["a", "b"]},
    "a scope twice": lambda: {"scope": ["a", "a"]},
    "a scope twice but for a space": lambda: {"scope": ["a", " a"]},
    "an empty scope among others": lambda: {"scope": ["a", ""]},
    "a null scope": lambda: {"scope": ["a", None]},
    "a scope that is a number": lambda: {"scope": [1]},
    "a scope that is no text": lambda: {"scope": 5},
    "spaces around sub": lambda: {"sub": " ann "},
    "a blank sub": lambda: {"sub": " "},
    "a sub that is a number": lambda: {"sub": 5},
    "no exp": lambda: {"exp": None},
    "exp with a fraction": lambda: {"exp": soon(100.5)},
    "exp within the skew": lambda: {"exp": soon(-15), "iat": soon(-300)},
    "exp beyond the skew": lambda: {"exp": soon(-45), "iat": soon(-300)},
    "no iat": lambda: {"iat": None},
    "iat of 1970": lambda: {"iat": 0},
    "iat before 1970": lambda: {"iat": -1},
    "iat that is text": lambda: {"iat": "x"},
    "iat ahead": lambda: {"iat": soon(100)},
    "iat after exp": lambda: {"iat": soon(200), "exp": soon(100)},
    "nbf within the skew": lambda: {"nbf": soon(15)},
    "nbf ahead": lambda: {"nbf": soon(100)},
    "one of two audiences": lambda: {"aud": ["x", "kafka"]},
    "no audience": lambda: {"aud": []},
    "another issuer": lambda: {"iss": "x"},
    "jti that is a number": lambda: {"jti": 5},
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture(scope="module")
def brokers(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SecuredBroker]]:
    """Ottla and Apache Kafka."""
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    ours, theirs = (
        SecuredBroker(tmp_path_factory.mktemp(name), issuer, issuer) for name in ("ottla", "kafka")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", theirs.java_options())
        with theirs.running(by_apache_kafka=True), ours.running():
            yield [ours, theirs]


def lets_in(broker: SecuredBroker, token: str) -> bool:
    with WireClient(broker.login("SASL_PLAINTEXT OAUTHBEARER").servers) as client:
        assert client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
        request = SaslAuthenticateRequest(auth_bytes=f"n,,\1auth=Bearer {token}\1\1".encode())
        try:
            answer = client.call(request, 1)
        except ConnectionError:
            return False  # Kafka's response to an unreadable token
    return bool(answer.error_code == 0 and not answer.auth_bytes)


@pytest.mark.parametrize("claims", CLAIMS.values(), ids=CLAIMS)
def test_a_token_counts_at_both_or_at_none(
    brokers: list[SecuredBroker], issuer: Issuer, claims: Callable[[], dict[str, Any]]
) -> None:
    ours, theirs = (lets_in(broker, issuer.token(**claims())) for broker in brokers)
    assert ours == theirs
