"""Promise: a broker connects to another over TLS and logs in, as often as needed, and reports why it cannot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from ottla.broker.security.certificate_reload import TlsListeners
from ottla.broker.security.inter_broker import check_inter_broker, inter_broker_security
from ottla.client.cluster import Cluster
from ottla.client.settings import Settings
from ottla.cluster.peers import PeerConnection, PeerError
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest, MetadataResponse
from tests.broker.tls.tls_broker import USERS, TlsBroker

pytestmark = pytest.mark.timeout(120)

JAAS = "listener.name.sasl_ssl.plain.sasl.jaas.config"
SCRAM = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="broker" password="broker-secret";'
)
SCRAM_JAAS = "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    made = TlsBroker(
        tmp_path_factory.mktemp("tls"), **{"connections.max.reauth.ms": "1500", SCRAM_JAAS: SCRAM}
    )
    with made.broker:
        yield made


def config(tls: TlsBroker, listener: str = "SASL_SSL", **more: str) -> BrokerConfig:
    """Return the configuration of the connecting broker."""
    return BrokerConfig.embedded(
        {
            **tls.config,
            "zookeeper.connect": "nowhere:2181",
            "inter.broker.listener.name": listener,
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            **more,
        }
    )


def talk(tls: TlsBroker, settings: BrokerConfig, work: Any, host: str = "localhost") -> Any:
    listener = settings.inter_broker_listener_name

    async def run() -> Any:
        security = inter_broker_security(settings, TlsListeners(settings).of)
        peer = PeerConnection(host, tls.ports[listener], "test", security=security, broker_id=7)
        try:
            return await work(peer)
        finally:
            peer.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


async def ask(peer: PeerConnection) -> int:
    return len((await peer.request(ApiVersionsRequest(), 0)).api_keys)


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL", "MUTUAL", "SASL_SSL"])
def test_every_kind_of_listener(tls: TlsBroker, listener: str) -> None:
    assert talk(tls, config(tls, listener), ask) > 10


def test_a_login_is_repeated_in_time_and_requests_wait_for_it(tls: TlsBroker) -> None:
    """Requests run for longer than two sessions; none fails, and all responses arrive in order."""

    async def work(peer: PeerConnection) -> int:
        loop = asyncio.get_running_loop()
        began, answered, failed = loop.time(), [], []
        await peer.connect()
        number = 0
        while loop.time() - began < 4:
            peer.send(
                MetadataRequest(topics=[]), 9,
                lambda _, number=number: answered.append(number), failed.append,
            )  # fmt: skip
            number += 1
            await asyncio.sleep(0.002)
        await peer.request(ApiVersionsRequest(), 0)
        assert failed == []
        assert answered == list(range(number))
        return number

    assert talk(tls, config(tls), work) > 100


def test_our_own_client_repeats_its_login_in_time(tls: TlsBroker) -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "pencil"}
    connection = Cluster(Settings.from_properties(tls.client("SASL_SSL", **login))).any_connection()
    until = time.monotonic() + 4
    while time.monotonic() < until:
        connection.request(MetadataRequest(topics=[]), MetadataResponse)
        time.sleep(0.05)
    assert connection.is_open
    connection.close()


def refusal(tls: TlsBroker, settings: BrokerConfig, host: str = "localhost") -> str:
    with pytest.raises(PeerError) as refused:
        talk(tls, settings, ask, host)
    said = str(refused.value)
    assert "secret" not in said
    return said


def test_a_wrong_password_is_one_sentence_with_broker_listener_and_setting(tls: TlsBroker) -> None:
    wrong = config(tls, **{JAAS: USERS.replace('password="admin-secret"', 'password="wrong"')})
    assert refusal(tls, wrong) == (
        f"broker 7 at localhost:{tls.ports['SASL_SSL']} (listener SASL_SSL) refuses the login of this broker: "
        f"Authentication failed: Invalid username or password; see {JAAS}"
    )


def test_a_user_who_does_not_exist_in_scram(tls: TlsBroker) -> None:
    settings = config(tls, **{"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512", SCRAM_JAAS: SCRAM})
    assert f"invalid credentials with SASL mechanism SCRAM-SHA-512; see {SCRAM_JAAS}" in refusal(
        tls, settings
    )


def test_a_certificate_of_another_authority_or_host_is_not_accepted(tls: TlsBroker) -> None:
    stranger = config(tls, "SSL", **{"ssl.truststore.location": tls.strangers_ca_file})
    assert "the certificate of broker 7 at localhost" in refusal(tls, stranger)
    assert "mismatch" in refusal(tls, config(tls, "SSL"), "127.1")
    unchecked = config(tls, "SSL", **{"ssl.endpoint.identification.algorithm": ""})
    assert talk(tls, unchecked, ask, "127.1") > 10


def test_a_listener_that_speaks_no_tls(tls: TlsBroker) -> None:
    settings = config(tls, "SSL")

    async def run() -> None:
        security = inter_broker_security(settings, TlsListeners(settings).of)
        peer = PeerConnection("localhost", tls.ports["PLAINTEXT"], "test", security=security, broker_id=7)
        with pytest.raises(OSError, match="TLS handshake"):
            await peer.connect()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "ROT13"}, "cannot log in to each other with ROT13"),
        ({JAAS: ""}, f"{JAAS} is not set"),
        (
            {JAAS: 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="x";'},
            "no username",
        ),
        ({"inter.broker.listener.name": "NOWHERE"}, "Brokers have no listener NOWHERE"),
        ({"security.inter.broker.protocol": "SSL"}, "Both inter.broker.listener.name and"),
    ],
)
def test_settings_that_cannot_work_are_named(tls: TlsBroker, settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check_inter_broker(config(tls, **settings))
