"""Promise: commands log in with tokens from Java-style properties, for administration, producing and consuming."""

from __future__ import annotations

import base64

import pytest

from ottla.protocol.messages.sasl import (
    CreateDelegationTokenRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from ottla.security.jaas import ALLOWED_URLS
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.issuer import AUDIENCE, ISSUER, Issuer
from tests.wire_client import WireClient

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="pencil";'


@pytest.fixture(scope="module")
def issuer():
    with Issuer() as running:
        yield running


@pytest.fixture(scope="module")
def servers(issuer, tmp_path_factory):
    [port] = ReservedPorts(1).numbers
    config = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
        "sasl.oauthbearer.jwks.endpoint.url": issuer.jwks_url,
        ALLOWED_URLS: issuer.jwks_url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "delegation.token.secret.key": "secret",
    }
    with Broker(data=tmp_path_factory.mktemp("broker"), config=config):
        yield f"127.0.0.1:{port}"


@pytest.fixture
def ottla(new_ottla, servers, issuer, tmp_path):
    """`ottla({…}, "topics", "list")` runs the command with these client properties."""

    def run(properties, *words, **options):
        file = tmp_path / "client.properties"
        every = {"security.protocol": "SASL_PLAINTEXT", **properties}
        file.write_text("".join(f"{key}={value}\n" for key, value in every.items()))
        allowed = f"-D{ALLOWED_URLS}={issuer.token_url},{(tmp_path / 'token').as_uri()}"
        command = new_ottla(
            OTTLA_COMMAND_CONFIG=str(file), OTTLA_BOOTSTRAP_SERVER=servers, KAFKA_OPTS=allowed
        )
        return command(*words, **options)

    return run


def ways(issuer, tmp_path):
    """Return client settings with a token."""
    (tmp_path / "token").write_text(issuer.token())
    endpoint = "sasl.oauthbearer.token.endpoint.url"
    client = "sasl.oauthbearer.client"
    return {
        "java": {
            endpoint: issuer.token_url,
            "sasl.jaas.config": f'{OAUTH} clientId="app" clientSecret="s3cret" scope="a" extension_traceId="7";',
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.X",
        },
        "java-41": {
            endpoint: issuer.token_url,
            f"{client}.credentials.client.id": "app",
            f"{client}.credentials.client.secret": "s3cret",
        },
        "librdkafka": {
            "sasl.oauthbearer.method": "oidc",
            endpoint: issuer.token_url,
            f"{client}.id": "app",
            f"{client}.secret": "s3cret",
        },
        "file": {endpoint: (tmp_path / "token").as_uri()},
        "static": {"sasl.oauthbearer.token": issuer.token()},
    }


@pytest.mark.parametrize("way", ["java", "java-41", "librdkafka", "file", "static"])
def test_commands_log_in_with_a_token(ottla, issuer, tmp_path, way):
    properties = {"sasl.mechanism": "OAUTHBEARER", **ways(issuer, tmp_path)[way]}
    ottla(properties, "topics", "create", f"t-{way}")
    ottla(properties, "produce", f"t-{way}", stdin=b"hello\n")
    consumed = ottla(properties, "consume", f"t-{way}", "--from-beginning", "--until-end")
    assert "hello" in consumed.text


def test_a_token_that_is_refused_is_one_sentence(ottla, issuer):
    properties = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": issuer.token(aud="web")}
    for words in (("topics", "list"), ("produce", "t")):
        refused = ottla(properties, *words, check=False)
        assert 'refused the credentials: {"status":"invalid_token"}' in refused.err
        assert properties["sasl.oauthbearer.token"] not in refused.err


def test_a_delegation_token_administers_and_says_what_it_cannot(ottla, servers):
    with WireClient(servers) as client:
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.call(SaslAuthenticateRequest(auth_bytes=b"\0ann\0pencil"), 1)
        token = client.call(CreateDelegationTokenRequest(max_lifetime_ms=-1))
    secret = base64.b64encode(bytes(token.hmac)).decode()
    properties = {
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{SCRAM} username="{token.token_id}" password="{secret}" tokenauth="true";',
    }
    ottla(properties, "topics", "list")
    refused = ottla(properties, "produce", "t", stdin=b"x\n", check=False)
    assert "cannot log in with a delegation token" in refused.err
    assert secret not in refused.err
