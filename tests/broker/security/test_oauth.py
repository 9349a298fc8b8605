"""Promise: an OAUTHBEARER listener trusts the issuer's word alone. Real signatures and clients, forged tokens."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Producer
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from ottla.broker.lifecycle.cluster_member import ClusterMember
from ottla.broker.security.inter_broker import inter_broker_security
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.cluster.peers import PeerConnection, PeerError
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest, MetadataResponse
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.security.certificates import make_authority
from ottla.security.jaas import ALLOWED_URLS
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.issuer import AUDIENCE, ISSUER, Issuer
from tests.wire_client import WireClient

with warnings.catch_warnings():
    # kafka-python parses its message definitions with a call that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

pytestmark = pytest.mark.timeout(120)

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OWN_JAAS = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
URL = "sasl.oauthbearer.jwks.endpoint.url"


def settings(issuer: Issuer, port: int) -> dict[str, str]:
    return {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        URL: issuer.jwks_url,
        ALLOWED_URLS: issuer.jwks_url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connection.failed.authentication.delay.ms": "10",
    }


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture(scope="module")
def servers(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    [port] = ReservedPorts(1).numbers
    with Broker(data=tmp_path_factory.mktemp("oauth"), config=settings(issuer, port)):
        yield f"127.0.0.1:{port}"


def log_in(client: WireClient, token: str) -> Any:
    assert client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
    return client.call(SaslAuthenticateRequest(auth_bytes=f"n,,\1auth=Bearer {token}\1\1".encode()), 1)


# -- clients ------------------------------------------------------------------------------------------------


def confluent(servers: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        **more,
    }


def test_confluent_kafka_with_a_callback(servers: str, issuer: Issuer) -> None:
    producer = Producer(confluent(servers, oauth_cb=lambda _: (issuer.token(alg="ES256"), time.time() + 300)))
    producer.produce("t", b"x")
    assert producer.flush(30) == 0


def test_confluent_kafka_with_oidc(servers: str, issuer: Issuer) -> None:
    before = len(issuer.granted)
    oidc = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
        "sasl.oauthbearer.client.id": "app",
        "sasl.oauthbearer.client.secret": "s3cret",
        "sasl.oauthbearer.scope": "all",
    }
    producer = Producer(confluent(servers, **oidc))
    producer.produce("t", b"x")
    assert producer.flush(30) == 0
    assert len(issuer.granted) > before


def test_aiokafka(servers: str, issuer: Issuer) -> None:
    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return issuer.token()

    async def produce() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        )  # fmt: skip
        await producer.start()
        try:
            return int((await producer.send_and_wait("t", b"aiokafka")).offset)
        finally:
            await producer.stop()

    assert asyncio.run(produce()) >= 0


def test_kafka_python(servers: str, issuer: Issuer) -> None:
    class Tokens(KafkaPythonTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return issuer.token()

    producer = KafkaProducer(
        bootstrap_servers=servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
    )  # fmt: skip
    assert producer.send("t", b"kafka-python").get(30).offset >= 0
    producer.close()


# Our own client


def properties(servers: str, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def connect(found: Mapping[str, str]) -> None:
    with Cluster(Settings.from_properties(found)).any_connection() as connection:
        connection.request(MetadataRequest(topics=[]), MetadataResponse)


@pytest.fixture
def allowed(issuer: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the URLs that our client may fetch, including the token file."""
    file = tmp_path / "token"
    file.write_text(issuer.token() + "\n")
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -D{ALLOWED_URLS}={issuer.token_url},{file.as_uri()}")
    return file


def test_our_client_asks_the_token_endpoint_by_javas_names_and_by_librdkafkas(
    servers: str, issuer: Issuer, allowed: Path
) -> None:
    endpoint = {"sasl_oauthbearer_token_endpoint_url": issuer.token_url}
    before = len(issuer.granted)
    jaas = f'{MODULE} required clientId="app" clientSecret="s3cret" scope="a" extension_traceId="7";'
    connect(properties(servers, sasl_jaas_config=jaas, **endpoint))
    connect(properties(servers, sasl_jaas_config=jaas, **endpoint))
    assert len(issuer.granted) == before + 1, "the token is used as long as it is valid"
    own = {"sasl_oauthbearer_client_id": "app", "sasl_oauthbearer_client_secret": "s3cret"}
    connect(properties(servers, sasl_oauthbearer_method="oidc", **own, **endpoint))
    own = {
        "sasl_oauthbearer_client_credentials_client_id": "app",
        "sasl_oauthbearer_client_credentials_client_secret": "s3cret",
        "sasl_oauthbearer_scope": "b",
    }
    connect(properties(servers, **own, **endpoint))
    wrong = {"sasl_oauthbearer_client_id": "app", "sasl_oauthbearer_client_secret": "hunter2"}
    with pytest.raises(ClientError, match=r"token.endpoint.url=http.*status 401") as refused:
        connect(properties(servers, **wrong, **endpoint))
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(Settings.from_properties(properties(servers, **wrong, **endpoint)))


def test_our_client_takes_a_token_from_a_file_or_from_its_settings(
    servers: str, issuer: Issuer, allowed: Path
) -> None:
    connect(properties(servers, sasl_oauthbearer_token_endpoint_url=allowed.as_uri()))
    connect(properties(servers, sasl_oauthbearer_token=issuer.token()))
    with pytest.raises(ClientError, match="invalid_token") as refused:
        connect(properties(servers, sasl_oauthbearer_token=issuer.token(iss="x")))
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/hostname", "not allowed"),
        ("http://169.254.169.254/latest/meta-data", "not allowed"),
        ("http://127.0.0.1:1/token", "not allowed"),
        ("ftp://127.0.0.1/token", "https, http or file"),
        ("/etc/hostname", "https, http or file"),
        ("http://[", "not a URL"),
    ],
)
def test_settings_of_a_client_do_not_reach_into_the_machine(servers: str, url: str, why: str) -> None:
    with pytest.raises(ClientError, match=why):
        connect(
            properties(servers, sasl_oauthbearer_token_endpoint_url=url, sasl_oauthbearer_client_id="app")
        )


def test_a_list_of_urls_allows_nothing_else(servers: str, allowed: Path) -> None:
    with pytest.raises(ClientError, match="not allowed"):
        connect(
            properties(
                servers,
                sasl_oauthbearer_token_endpoint_url="https://127.0.0.1:1/token",
                sasl_oauthbearer_client_id="app",
            )
        )


def test_a_client_without_a_token_is_told(servers: str) -> None:
    with pytest.raises(ClientError, match="OAUTHBEARER needs a token"):
        Settings.from_properties(properties(servers))


# -- invalid tokens -----------------------------------------------------------------------------------------


def test_a_refused_token_on_the_wire(servers: str, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    forged = [
        issuer.token(key=stranger),
        issuer.token(kid="unknown"),
        issuer.token(iss="https://elsewhere.example"),
        issuer.token(aud="web"),
        issuer.token(seconds=-100),
        issuer.token(alg="ES256").rpartition(".")[0] + ".",
        issuer.token()[:-4] + "AAAA",
    ]
    with caplog.at_level(logging.DEBUG):
        for token in forged:
            with WireClient(servers) as client:
                first = log_in(client, token)
                assert (first.error_code, bytes(first.auth_bytes)) == (0, b'{"status":"invalid_token"}')
                last = client.call(SaslAuthenticateRequest(auth_bytes=b"\1"), 1)
                assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                assert last.error_message == '{"status":"invalid_token"}'
                assert client.is_closed()
        with WireClient(servers) as client:
            assert log_in(client, issuer.token()).error_code == 0
    assert "Failed authentication with OAUTHBEARER from 127.0.0.1" in caplog.text
    assert not any(part in caplog.text for token in forged for part in token.split(".") if len(part) > 4)


def test_after_a_refused_token_nothing_is_served(servers: str, issuer: Issuer) -> None:
    with WireClient(servers) as client:
        log_in(client, issuer.token(aud="web"))
        client.send(MetadataRequest(topics=None), 9)
        assert client.is_closed()
    with WireClient(servers) as client:
        log_in(client, issuer.token(aud="web"))
        good = SaslAuthenticateRequest(auth_bytes=f"n,,\1auth=Bearer {issuer.token()}\1\1".encode())
        assert client.call(good, 1).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed()


def test_a_session_ends_with_its_token(servers: str, issuer: Issuer) -> None:
    with WireClient(servers) as client:
        done = log_in(client, issuer.token(seconds=100))
        assert 90_000 < done.session_lifetime_ms <= 100_000
        assert client.call(MetadataRequest(topics=[]), 9) is not None
    with WireClient(servers) as client:
        # The allowed clock skew makes the token valid, but the session has no time left.
        assert log_in(client, issuer.token(seconds=-10)).error_code == 0
        client.send(MetadataRequest(topics=[]), 9)
        assert client.is_closed()


# -- keys ---------------------------------------------------------------------------------------------------


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gets_in(servers: str, token: str) -> bool:
    with WireClient(servers) as client:
        answer = log_in(client, token)
        return bool(answer.error_code == 0 and not answer.auth_bytes)


def test_new_keys_are_found_and_known_ones_stay_while_the_issuer_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Issuer() as issuer:
        [port] = ReservedPorts(1).numbers
        often = {
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "50",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "20",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "50",
        }
        servers = f"127.0.0.1:{port}"
        with Broker(data=tmp_path, config=settings(issuer, port) | often):
            issuer.works = False
            asked = issuer.asked_for_keys
            until(lambda: issuer.asked_for_keys > asked + 3)
            assert gets_in(servers, issuer.token())
            assert caplog.text.count("those that are known stay in use") == 1
            new = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            assert not gets_in(servers, issuer.token(key=new, kid="rsa-2"))
            issuer.keys = {"keys": [{**json.loads(RSAAlgorithm.to_jwk(new.public_key())), "kid": "rsa-2"}]}
            issuer.works = True
            until(lambda: gets_in(servers, issuer.token(key=new, kid="rsa-2")))
            assert not gets_in(servers, issuer.token()), "the old key was withdrawn"


def test_an_unknown_key_makes_the_broker_ask_for_keys_once(tmp_path: Path) -> None:
    with Issuer() as issuer:
        [port] = ReservedPorts(1).numbers
        servers = f"127.0.0.1:{port}"
        with Broker(data=tmp_path, config=settings(issuer, port)):
            assert issuer.asked_for_keys == 1
            for number in range(20):
                assert not gets_in(servers, issuer.token(kid=f"unknown-{number}"))
            until(lambda: issuer.asked_for_keys == 2)
            assert gets_in(servers, issuer.token())
            assert issuer.asked_for_keys == 2


def test_an_issuer_with_tls_is_trusted_only_with_a_certificate_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    authority = make_authority()
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    issued = authority.issue("issuer", hosts=["127.0.0.1"])
    (tmp_path / "issuer.pem").write_bytes(issued.certificate_pem + issued.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "issuer.pem")
    with Issuer(context) as issuer:
        [port] = ReservedPorts(1).numbers
        servers = f"127.0.0.1:{port}"
        config = settings(issuer, port) | {ALLOWED_URLS: ""}  # https needs no allow list
        trust = f'{MODULE} required ssl.truststore.location="{tmp_path}/ca.pem";'
        refused = Broker(data=tmp_path / "1", config=config)
        with (
            pytest.raises(Exception, match=r"Cannot read the keys of .*its certificate is not accepted"),
            refused,
        ):
            pass
        missing = Broker(data=tmp_path / "2", config=config | {OWN_JAAS: trust.replace("ca.pem", "none.pem")})
        with pytest.raises(Exception, match=r"Cannot read the keys of .*ssl\.truststore\.location"), missing:
            pass
        with Broker(data=tmp_path / "3", config=config | {OWN_JAAS: trust}):
            who = {
                "sasl_oauthbearer_token_endpoint_url": issuer.token_url,
                "sasl_oauthbearer_client_id": "app",
                "sasl_oauthbearer_client_secret": "s3cret",
            }
            with pytest.raises(ClientError, match="its certificate is not accepted"):
                connect(properties(servers, **who))
            connect(properties(servers, **who, https_ca_location=str(tmp_path / "ca.pem")))
            connect(properties(servers, **who, sasl_jaas_config=trust, sasl_oauthbearer_scope="x"))


def test_a_broker_logs_in_to_another_one_with_a_token(issuer: Issuer, servers: str) -> None:
    port = int(servers.rpartition(":")[2])
    between = settings(issuer, port) | {
        ALLOWED_URLS: f"{issuer.jwks_url},{issuer.token_url}",
        "zookeeper.connect": "nowhere:2181",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
        OWN_JAAS: f'{MODULE} required clientId="app" clientSecret="s3cret" scope="between brokers";',
    }

    async def ask(**changes: str) -> Any:
        config = BrokerConfig.embedded(between | changes)
        peer = PeerConnection("127.0.0.1", port, "broker-7", security=inter_broker_security(config, {}))
        try:
            return await peer.request(ApiVersionsRequest(), 0)
        finally:
            peer.close()

    assert asyncio.run(ask()).api_keys
    wrong = between[OWN_JAAS].replace("s3cret", "hunter2")
    with pytest.raises(PeerError, match=r"cannot log in .* status 401") as refused:
        asyncio.run(ask(**{OWN_JAAS: wrong}))
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ConfigError, match="OAUTHBEARER needs a token"):
        inter_broker_security(
            BrokerConfig.embedded(between | {"sasl.oauthbearer.token.endpoint.url": ""}), {}
        )


def test_keys_in_a_file(tmp_path: Path, issuer: Issuer) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(issuer.keys))
    [port] = ReservedPorts(1).numbers
    config = settings(issuer, port) | {URL: file.as_uri(), ALLOWED_URLS: file.as_uri()}
    with Broker(data=tmp_path / "data", config=config):
        assert gets_in(f"127.0.0.1:{port}", issuer.token())


@pytest.mark.parametrize(
    ("claim", "expected", "opt_out"),
    [
        ("iss", "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.allow.unverified.issuer"),
        ("aud", "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.allow.unverified.audience"),
    ],
)
def test_issuer_and_audience_can_be_left_unverified(
    tmp_path: Path, issuer: Issuer, claim: str, expected: str, opt_out: str
) -> None:
    [port] = ReservedPorts(1).numbers
    config = settings(issuer, port) | {expected: "", opt_out: "true"}
    with Broker(data=tmp_path, config=config):
        assert gets_in(f"127.0.0.1:{port}", issuer.token(**{claim: "elsewhere"}))
        other = "aud" if claim == "iss" else "iss"
        assert not gets_in(f"127.0.0.1:{port}", issuer.token(**{other: "elsewhere"}))


# -- settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({URL: ""}, f"but {URL} is not set"),
        ({"sasl.oauthbearer.expected.issuer": ""}, "but sasl.oauthbearer.expected.issuer is not set"),
        ({"sasl.oauthbearer.expected.audience": ""}, "but sasl.oauthbearer.expected.audience is not set"),
        ({ALLOWED_URLS: ""}, "cannot be used: it is not allowed"),
        ({URL: "file:///etc/passwd"}, "cannot be used: it is not allowed"),
        ({URL: "https://elsewhere.example/keys"}, "cannot be used: it is not allowed"),
        ({URL: "jndi:ldap://x", ALLOWED_URLS: "jndi:ldap://x"}, "not a URL with https, http or file"),
        (
            {OWN_JAAS: f'{MODULE} required unsecuredLoginStringClaim_sub="admin";'},
            "set ottla.sasl.oauthbearer.unsecured.tokens=true",
        ),
        ({"gone": "/gone"}, "Cannot read the keys of .*/gone: it answers with status 503"),
        ({"gone": "/moved"}, "Cannot read the keys of .*/moved: it answers with status 302"),
        ({"gone": "/token?secret=hunter2"}, "Cannot read the keys of .*/token: it answers with status 503"),
    ],
)
def test_settings_that_cannot_work_are_named(
    tmp_path: Path, issuer: Issuer, changes: dict[str, str], sentence: str
) -> None:
    [port] = ReservedPorts(1).numbers
    if "gone" in changes:
        url = issuer.url + changes["gone"]
        changes = {URL: url, ALLOWED_URLS: url}
    broker = Broker(data=tmp_path, config=settings(issuer, port) | changes)
    with pytest.raises(Exception, match=sentence) as refused, broker:
        pass
    assert "hunter2" not in str(refused.value)


def test_an_issuer_that_cannot_be_reached_is_named(
    tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = []
    monkeypatch.setattr(ClusterMember, "start", lambda _: joined.append(True))
    port, nobody = ReservedPorts(2).numbers
    url = f"http://127.0.0.1:{nobody}/keys"
    broker = Broker(data=tmp_path, config=settings(issuer, port) | {URL: url, ALLOWED_URLS: url})
    with pytest.raises(Exception, match=f"Cannot read the keys of {URL}={url}: .*refused"), broker:
        pass
    assert not joined, "no other broker and no client has heard of it"


def test_unsigned_tokens_only_where_the_operator_says_so(
    tmp_path: Path, issuer: Issuer, servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    jaas = {"sasl_jaas_config": f'{MODULE} required unsecuredLoginStringClaim_sub="bob";'}
    with pytest.raises(ClientError, match="invalid_token"):
        connect(properties(servers, **jaas))
    [port] = ReservedPorts(1).numbers
    config = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "ottla.sasl.oauthbearer.unsecured.tokens": "true",
    }
    with Broker(data=tmp_path, config=config):
        assert "anyone with network access can claim to be any user" in caplog.text
        connect(properties(f"127.0.0.1:{port}", **jaas))
        with pytest.raises(ClientError, match="invalid_token"):
            connect(properties(f"127.0.0.1:{port}", sasl_oauthbearer_token=issuer.token()))
