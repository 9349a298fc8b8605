"""Promise: a Kerberos ticket gives access under the name from the rules, and nothing else does. A real KDC."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from bench.peers.apache_kafka import TOOL_JVM, TOPICS, Unavailable, kafka_jars, run_tool
from ottla.broker.security.inter_broker import inter_broker_security
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.cluster.peers import PeerConnection
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest, MetadataResponse
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.wire_client import WireClient

with warnings.catch_warnings():
    # kafka-python parses its message definitions with a call that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

gssapi = pytest.importorskip("gssapi", reason="the extra kerberos is not installed")
k5test = pytest.importorskip("k5test", reason="k5test is not installed")

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
JAAS = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"


@pytest.fixture(scope="module")
def realm() -> Iterator[Any]:
    if shutil.which("krb5kdc") is None and not Path("/usr/sbin/krb5kdc").exists():
        pytest.skip("there is no krb5kdc: install krb5-kdc and krb5-admin-server")
    before = dict(os.environ)
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    made = k5test.K5Realm(create_host=False, get_creds=False)
    try:
        os.environ.update(made.env)
        made.addprinc("ann", "pencil")
        made.addprinc("kafka/localhost")
        made.addprinc("other/localhost")
        made.keytabs = Path(made.tmpdir)
        for principal in ("kafka/localhost", "other/localhost"):
            made.extract_keytab(principal, str(made.keytabs / f"{principal.partition('/')[0]}.keytab"))
        made.addprinc("robot")
        made.extract_keytab("robot", str(made.keytabs / "robot.keytab"))
        made.kinit("ann", "pencil")
        yield made
    finally:
        made.stop()
        os.environ.clear()
        os.environ.update(before)


def settings(realm: Any, port: int) -> dict[str, str]:
    return {
        "listeners": f"SASL_PLAINTEXT://localhost:{port}",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "connection.failed.authentication.delay.ms": "10",
        JAAS: f'{MODULE} required useKeyTab=true storeKey=true keyTab="{realm.keytabs}/kafka.keytab" '
        f'principal="kafka/localhost@{realm.realm}";',
    }


@pytest.fixture(scope="module")
def broker(realm: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    [port] = ReservedPorts(1).numbers
    running = Broker(data=tmp_path_factory.mktemp("kerberos"), config=settings(realm, port))
    running.sasl = f"localhost:{port}"  # type: ignore[attr-defined]
    with running:
        running.create_topic("t")
        yield running


@pytest.fixture(scope="module")
def servers(broker: Broker) -> str:
    return str(broker.sasl)  # type: ignore[attr-defined]


def principals(broker: Broker) -> set[str]:
    return {
        str(connection.principal)
        for listener in broker._server._listeners  # type: ignore[union-attr]
        for connection in listener.connections
    }


def ours(servers: str, **more: str) -> Cluster:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return Cluster(
        Settings.from_properties(
            {
                "bootstrap.servers": servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                **named,
            }
        )
    )


# -- clients ------------------------------------------------------------------------------------------------


def test_our_client_with_a_ticket_and_with_a_keytab(broker: Broker, servers: str, realm: Any) -> None:
    with ours(servers).any_connection() as connection:
        assert connection.request(MetadataRequest(topics=None), MetadataResponse).topics
        assert "User:ann" in principals(broker)
    keytab = {"sasl_kerberos_keytab": f"{realm.keytabs}/robot.keytab", "sasl_kerberos_principal": "robot"}
    with ours(servers, **keytab).any_connection() as connection:
        assert connection.request(MetadataRequest(topics=None), MetadataResponse).topics
        assert "User:robot" in principals(broker)


def test_another_broker(broker: Broker, servers: str, realm: Any) -> None:
    port = int(servers.partition(":")[2])
    config = BrokerConfig.embedded(
        {
            **settings(realm, port),
            "zookeeper.connect": "nowhere:2181",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        }
    )

    async def ask() -> set[str]:
        peer = PeerConnection("localhost", port, "broker-7", security=inter_broker_security(config, {}))
        try:
            assert (await peer.request(ApiVersionsRequest(), 0)).api_keys
            return principals(broker)
        finally:
            peer.close()

    assert "User:kafka" in asyncio.run(ask())


def test_kafka_python(servers: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
    )  # fmt: skip
    assert producer.send("t", b"kafka-python").get(30).offset >= 0
    producer.close()


def test_aiokafka(servers: str) -> None:
    async def produce() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name="kafka", sasl_kerberos_domain_name="localhost",
        )  # fmt: skip
        await producer.start()
        try:
            return int((await producer.send_and_wait("t", b"aiokafka")).offset)
        finally:
            await producer.stop()

    assert asyncio.run(produce()) >= 0


@pytest.mark.skipif(shutil.which("kcat") is None, reason="there is no kcat")
def test_kcat(servers: str) -> None:
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.kinit.cmd": "true",  # the ticket exists already
    }
    words = [word for name, value in options.items() for word in ("-X", f"{name}={value}")]
    done = subprocess.run(["kcat", "-b", servers, *words, "-L"], capture_output=True, text=True, timeout=60)
    assert 'topic "t" with 1 partitions' in done.stdout, done.stderr


def test_kafkas_tool(servers: str, realm: Any, tmp_path: Path) -> None:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f'sasl.jaas.config={MODULE} required useKeyTab=true storeKey=true keyTab="{realm.keytabs}/robot.keytab" '
        f'principal="robot@{realm.realm}";\ndefault.api.timeout.ms=30000\n'
    )
    jvm = (*TOOL_JVM, f"-Djava.security.krb5.conf={os.environ['KRB5_CONFIG']}")
    listed = run_tool(
        TOPICS, ["--bootstrap-server", servers, "--command-config", str(file), "--list"], jvm=jvm
    )
    assert "t" in listed.stdout.split()


# -- refused clients ----------------------------------------------------------------------------------------


def test_a_ticket_for_another_service_is_refused(servers: str) -> None:
    with pytest.raises(ClientError) as refused:
        ours(servers, sasl_kerberos_service_name="other").any_connection()
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "invalid credentials with SASL mechanism GSSAPI" in str(refused.value)


def test_without_a_ticket_our_client_says_so(
    servers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{tmp_path}/none")
    with pytest.raises(ClientError, match="Cannot log in with Kerberos: "):
        ours(servers).any_connection()


def test_rules_decide_on_names(realm: Any, tmp_path: Path) -> None:
    [port] = ReservedPorts(1).numbers
    rules = f"RULE:[1:$1@$0](ann@{realm.realm})s/@.*///U"
    config = settings(realm, port) | {"sasl.kerberos.principal.to.local.rules": rules}
    with Broker(data=tmp_path, config=config) as broker:
        with ours(f"localhost:{port}").any_connection():
            assert "User:ANN" in principals(broker)
        keytab = {"sasl_kerberos_keytab": f"{realm.keytabs}/robot.keytab", "sasl_kerberos_principal": "robot"}
        with pytest.raises(ClientError, match="invalid credentials"):
            ours(f"localhost:{port}", **keytab).any_connection()


def test_hostile_tokens(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    choice = random.Random(4752)
    context = gssapi.SecurityContext(
        name=gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service), usage="initiate"
    )
    valid = bytes(context.step())
    for turn in range(300):
        token = bytearray(valid if turn % 3 else choice.randbytes(choice.randrange(200)))
        for _ in range(choice.randrange(1, 4)):
            if token and choice.random() < 0.6:
                token[choice.randrange(len(token))] = choice.randrange(256)
            elif token:
                del token[choice.randrange(len(token)) :]
        if bytes(token) == valid:
            continue
        with WireClient(servers) as client:
            client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
            answer = client.call(SaslAuthenticateRequest(auth_bytes=bytes(token)), 1)
            assert answer.error_code in (0, ErrorCode.SASL_AUTHENTICATION_FAILED)
            # Some bytes of a ticket are insignificant, but no client is in before the security layers are negotiated.
            client.send(MetadataRequest(topics=None), 9)
            assert client.is_closed()
    assert "Traceback" not in caplog.text


def test_a_security_layer_is_not_given(servers: str) -> None:
    for choice in (b"\4\0\0\0", b"\2\0\0\0", b"\0\0\0\0", b"\1", b""):
        context = gssapi.SecurityContext(
            name=gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service), usage="initiate"
        )
        with WireClient(servers) as client:
            client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
            message = bytes(context.step())
            while not context.complete:
                answer = client.call(SaslAuthenticateRequest(auth_bytes=message), 1)
                message = bytes(context.step(bytes(answer.auth_bytes)) or b"")
            offer = client.call(SaslAuthenticateRequest(auth_bytes=message), 1)
            assert context.unwrap(bytes(offer.auth_bytes)).message == b"\1\0\0\0"
            wrapped = bytes(context.wrap(choice, False).message)
            refused = client.call(SaslAuthenticateRequest(auth_bytes=wrapped), 1)
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


# -- settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({JAAS: ""}, "gssapi.sasl.jaas.config is not set"),
        ({"sasl.kerberos.service.name": ""}, "sasl.kerberos.service.name is not set"),
        ({JAAS: f"{MODULE} required useTicketCache=true;"}, "needs useKeyTab=true and keyTab"),
        (
            {JAAS: f'{MODULE} required useKeyTab=true keyTab="/none/x.keytab" principal="a/b@C";'},
            "/none/x.keytab: ",
        ),
        ({"sasl.kerberos.principal.to.local.rules": "RULE:[1"}, "local.rules cannot be read"),
    ],
)
def test_settings_that_cannot_work_are_named(
    realm: Any, tmp_path: Path, changes: dict[str, str], sentence: str
) -> None:
    [port] = ReservedPorts(1).numbers
    with (
        pytest.raises(Exception, match=sentence),
        Broker(data=tmp_path, config=settings(realm, port) | changes),
    ):
        pass
