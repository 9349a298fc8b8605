"""A real ZooKeeper server with TLS and logins, and znodes owned by the authenticated user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from ottla.broker.security.zookeeper_access import zookeeper_store
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.stores.store import Create, StoreError
from ottla.metadata.stores.zookeeper import StoreUnavailable, ZooKeeperStore
from ottla.testing import ZooKeeper
from ottla.zookeeper import BadSecurity, ZooKeeperClient, ZooKeeperSecurity, zookeeper_security
from tests.zookeeper_keys import USERS, ZooKeeperKeys, write_pem, zookeeper_keys

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> ZooKeeperKeys:
    return zookeeper_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def secure(keys: ZooKeeperKeys) -> Iterator[ZooKeeper]:
    """A server that accepts only authenticated users over TLS."""
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    with ZooKeeper(security=keys.server()) as running:
        yield running


@pytest.fixture(scope="module")
def by_certificate(keys: ZooKeeperKeys) -> Iterator[ZooKeeper]:
    """A server that accepts only clients with a certificate over TLS."""
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    with ZooKeeper(security=keys.server(client_auth="need", users=False)) as running:
        yield running


def environment(keys: ZooKeeperKeys, user: str = "kafka") -> dict[str, str]:
    return keys.server().broker_environment(keys.directory / f"{user}.jaas", user)


def settings(keys: ZooKeeperKeys, **others: str) -> dict[str, str | None]:
    given = keys.server().broker_settings(trust_store=keys.ca)
    return {**given, **{f"zookeeper.ssl.{name.replace('_', '.')}": value for name, value in others.items()}}


def store(zookeeper: ZooKeeper, security: ZooKeeperSecurity, *, set_acl: bool = False) -> ZooKeeperStore:
    return ZooKeeperStore(
        zookeeper.connect,
        session_timeout=6,
        connection_timeout=2,
        make_client=partial(ZooKeeperClient, security=security),
        set_acl=set_acl,
    )


async def test_nodes_are_written_and_read_over_tls_with_a_login(
    secure: ZooKeeper, keys: ZooKeeperKeys
) -> None:
    mine = store(secure.chroot(), zookeeper_security(settings(keys), environment(keys)))
    await mine.create("/a", b"1")
    assert (await mine.get("/a")).data == b"1"
    await mine.close()


async def test_a_session_survives_its_connection(secure: ZooKeeper, keys: ZooKeeperKeys) -> None:
    """Every new connection logs in again before any other request."""
    mine = store(secure.chroot(), zookeeper_security(settings(keys), environment(keys)), set_acl=True)
    await mine.create("/a", ephemeral=True)
    session = mine.session_id
    for _ in range(3):
        mine._session.kazoo._connection._socket.shutdown(2)
        assert await mine.exists("/a") is not None
        await mine.create("/b")
        await mine.delete("/b")
    assert mine.session_id == session
    await mine.close()


async def test_nobody_is_served_without_a_login(secure: ZooKeeper, keys: ZooKeeperKeys) -> None:
    anonymous = store(secure, zookeeper_security(settings(keys), {}))
    with pytest.raises(StoreError):
        await anonymous.create("/a")
    await anonymous.close()


async def test_a_wrong_password_is_said_at_once(secure: ZooKeeper, keys: ZooKeeperKeys) -> None:
    right = zookeeper_security(settings(keys), environment(keys))
    assert right.login is not None
    wrong = store(secure, right._replace(login=right.login._replace(password="crayon")))
    with pytest.raises(StoreUnavailable, match=r"the login of kafka at 127.0.0.1 failed: wrong user or pass"):
        await wrong.open()


async def test_a_server_without_users_is_not_logged_in_to(
    by_certificate: ZooKeeper, keys: ZooKeeperKeys
) -> None:
    """Such a server would serve everybody; a client with a password expects the server to check it."""
    security = zookeeper_security(
        settings(keys, keystore_location=str(keys.pem("broker"))), environment(keys)
    )
    mine = store(by_certificate, security)
    with pytest.raises(
        StoreUnavailable, match=r"the login of kafka at 127.0.0.1 failed: the server does not"
    ):
        await mine.open()


async def test_a_server_of_another_authority_is_not_trusted(
    secure: ZooKeeper, keys: ZooKeeperKeys, tmp_path: Path
) -> None:
    elsewhere = settings(keys, truststore_location=str(zookeeper_keys(tmp_path).ca))
    mine = store(secure, zookeeper_security(elsewhere, environment(keys)))
    with pytest.raises(StoreUnavailable, match=r"TLS with 127.0.0.1:[0-9]+ failed: .*certificate"):
        await mine.open()


async def test_the_host_name_is_checked_unless_it_is_switched_off(keys: ZooKeeperKeys) -> None:
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    strange = replace(keys.server(users=False), key_store=keys.pem("stranger", "elsewhere.example"))
    with ZooKeeper(security=strange) as zookeeper:
        mine = store(zookeeper, zookeeper_security(settings(keys), {}))
        with pytest.raises(StoreUnavailable, match="IP address mismatch"):
            await mine.open()
        unchecked = settings(keys, endpoint_identification_algorithm="")
        mine = store(zookeeper, zookeeper_security(unchecked, {}))
        await mine.create("/a")
        await mine.close()


async def test_without_a_certificate_there_is_no_connection(
    by_certificate: ZooKeeper, keys: ZooKeeperKeys
) -> None:
    with pytest.raises(StoreUnavailable):
        await store(by_certificate, zookeeper_security(settings(keys), {})).open()


async def test_nodes_belong_to_the_owner_of_a_certificate(
    by_certificate: ZooKeeper, keys: ZooKeeperKeys
) -> None:
    broker = zookeeper_security(settings(keys, keystore_location=str(keys.pem("broker"))), {})
    mine = store(by_certificate, broker, set_acl=True)
    await mine.create("/mine", b"1")
    stranger = zookeeper_security(settings(keys, keystore_location=str(keys.pem("stranger"))), {})
    other = store(by_certificate, stranger)
    assert (await other.get("/mine")).data == b"1"
    with pytest.raises(StoreError, match="/mine: the node belongs to another user"):
        await other.set("/mine", b"2")
    await mine.close()
    await other.close()


async def test_stores_may_be_javas(by_certificate: ZooKeeper, keys: ZooKeeperKeys, tmp_path: Path) -> None:
    """The content of a file counts, not its name or type. Keys reach OpenSSL through memory."""
    password = b"store password"
    issued = keys.authority.issue("broker")
    certificates = x509.load_pem_x509_certificates(issued.certificate_pem)
    key = serialization.load_pem_private_key(issued.key_pem, None)
    packed = pkcs12.serialize_key_and_certificates(
        b"broker", key, certificates[0], certificates[1:], serialization.BestAvailableEncryption(password)
    )
    (tmp_path / "broker.jks").write_bytes(packed)
    stores = settings(
        keys,
        keystore_location=str(tmp_path / "broker.jks"),
        keystore_password=password.decode(),
        keystore_type="JKS",
    )
    mine = store(by_certificate.chroot(), zookeeper_security(stores, {}))
    await mine.create("/a")
    await mine.close()
    stores["zookeeper.ssl.keystore.password"] = "wrong"
    with pytest.raises(BadSecurity, match=r"zookeeper\.ssl\.keystore\.") as refused:
        zookeeper_security(stores, {})
    assert "wrong" not in str(refused.value).split()


async def test_a_new_certificate_counts_for_the_next_connection(
    by_certificate: ZooKeeper, keys: ZooKeeperKeys, caplog: pytest.LogCaptureFixture
) -> None:
    file = keys.pem("renewed")
    security = zookeeper_security(settings(keys, keystore_location=str(file)), {})
    mine = store(by_certificate, security, set_acl=True)
    await mine.open()

    async def owner(path: str) -> str:
        """Return the owner of a znode created on a new connection."""
        mine._session.kazoo._connection._socket.shutdown(2)
        await mine.sync()
        await mine.create(path)
        [name] = {name for scheme, name, _ in acls(mine._session.kazoo, path) if scheme == "x509"}
        return name

    assert await owner("/renewal-a") == "CN=renewed"
    write_pem(file, keys.authority.issue("another"))
    assert await owner("/renewal-b") == "CN=another"
    file.write_text("broken")
    assert await owner("/renewal-c") == "CN=another"
    assert "ZooKeeper is still reached with the stores of before: " in caplog.text
    await mine.close()


def acls(client: KazooClient, path: str) -> set[tuple[str, str, int]]:
    return {(acl.id.scheme, acl.id.id, acl.perms) for acl in client.get_acls(path)[0]}


async def test_nodes_have_kafkas_acls(secure: ZooKeeper, keys: ZooKeeperKeys) -> None:
    root = secure.chroot()
    mine = store(root, zookeeper_security(settings(keys), environment(keys)), set_acl=True)
    for path in ("/brokers", "/config", "/consumers", "/delegation_token", "/ottla"):
        await mine.create(path)
    await mine.create("/brokers/ids", ephemeral=True)
    sensitive = ["/config/users", "/config/users/ann", "/config/brokers", "/config/brokers/0"]
    sensitive.append("/delegation_token/tokens")
    for path in sensitive:
        await mine.create(path)
    changes = await mine.create("/ottla/change_", sequential=True)
    for at_once in ([], ["/config/brokers/1"]):  # in a transaction as well
        await mine.multi([Create(path) for path in at_once])
        sensitive += at_once
    owner, everybody = ("sasl", "kafka", 31), ("world", "anyone", 1)
    client = mine._session.kazoo
    for path in ("/", "/brokers", "/brokers/ids", "/config", "/delegation_token", "/ottla", changes):
        assert acls(client, path) == {owner, everybody}, path
    for path in sensitive:
        assert acls(client, path) == {owner}, path
    assert acls(client, "/consumers") == {("world", "anyone", 31)}

    other = ZooKeeperClient(
        root.connect, security=zookeeper_security(settings(keys), environment(keys, "other"))
    )
    other.start()
    try:
        assert other.get("/brokers")[0] == b""
        for path in sensitive:
            with pytest.raises(NoAuthError):
                other.get(path)
        for change in (
            lambda: other.set("/brokers", b"x"),
            lambda: other.create("/brokers/topics"),
            lambda: other.delete("/brokers/ids"),
            lambda: other.set_acls("/brokers", client.get_acls("/consumers")[0]),
        ):
            with pytest.raises(NoAuthError):
                change()
        other.create("/consumers/old")
    finally:
        other.stop()
        other.close()
    await mine.close()


async def test_without_set_acl_nodes_are_open(secure: ZooKeeper, keys: ZooKeeperKeys) -> None:
    mine = store(secure.chroot(), zookeeper_security(settings(keys), environment(keys)))
    await mine.create("/a")
    assert acls(mine._session.kazoo, "/a") == {("world", "anyone", 31)}
    await mine.close()


async def test_neither_a_login_nor_what_nodes_contain_is_in_the_log(
    secure: ZooKeeper, keys: ZooKeeperKeys, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(1, "kazoo"):
        mine = store(secure.chroot(), zookeeper_security(settings(keys), environment(keys)))
        await mine.create("/a", b"salt=x,stored_key=y")
        await mine.multi([Create("/b", b"salt=x,stored_key=y")])
        await mine.get("/b")
        await mine.close()
    assert "Sending request" in caplog.text
    for secret in ("salt=", "stored_key", USERS["kafka"], "response=", "nonce="):
        assert secret not in caplog.text


# Invalid settings


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"truststore_location": "/nowhere.pem"}, "zookeeper.ssl.truststore.location.*/nowhere.pem"),
        ({"keystore_location": "/nowhere.pem"}, "zookeeper.ssl.keystore.location.*/nowhere.pem"),
        ({"keystore_type": "BCFKS"}, "zookeeper.ssl.keystore.type cannot be 'BCFKS'"),
        ({"enabled_protocols": "SSLv3"}, "zookeeper.ssl.enabled.protocols .*SSLv3"),
        ({"cipher_suites": "ROT13"}, "zookeeper.ssl.cipher.suites names"),
        ({"endpoint_identification_algorithm": "dns"}, "zookeeper.ssl.endpoint.identification.algorithm"),
        ({"ocsp_enable": "true"}, "zookeeper.ssl.ocsp.enable"),
        ({"crl_enable": "TRUE"}, "zookeeper.ssl.crl.enable"),
    ],
)
def test_a_wrong_setting_is_named(keys: ZooKeeperKeys, changed: dict[str, str], reason: str) -> None:
    with pytest.raises(BadSecurity, match=reason):
        zookeeper_security(settings(keys, **changed), {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "Cannot read .*jaas"),
        ("Client {", "a login module is missing"),
        ("Client { com.acme.Evil required; };", "section Client names com.acme.Evil; brokers log in"),
        (
            "Client { org.apache.zookeeper.server.auth.DigestLoginModule required username=a; };",
            "no password",
        ),
        (
            "Client { org.apache.kafka.common.security.plain.PlainLoginModule required username=a; };",
            "PlainLoginModule; brokers log in",
        ),
    ],
)
def test_a_wrong_jaas_file_is_named(tmp_path: Path, text: str | None, reason: str) -> None:
    file = tmp_path / "jaas.conf"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadSecurity, match=reason):
        zookeeper_security({}, {"KAFKA_OPTS": f"-Xmx1g '-Djava.security.auth.login.config={file}'"})


def test_options_of_java_count_where_no_setting_is(keys: ZooKeeperKeys) -> None:
    options = f"-Dzookeeper.client.secure=true -Dzookeeper.ssl.trustStore.location={keys.ca}"
    found = zookeeper_security({}, {"KAFKA_OPTS": f"{options} -Dzookeeper.ssl.hostnameVerification=false"})
    assert found.tls is not None
    assert not found.tls.context().check_hostname
    assert zookeeper_security({"zookeeper.ssl.client.enable": "false"}, {"KAFKA_OPTS": options}).tls is None


def test_a_login_can_be_switched_off(keys: ZooKeeperKeys) -> None:
    named = environment(keys)["KAFKA_OPTS"]
    assert zookeeper_security({}, {"KAFKA_OPTS": named}).login == ("kafka", USERS["kafka"])
    file = named.partition("config=")[2]
    assert zookeeper_security({"java.security.auth.login.config": file}, {}).login is not None
    assert zookeeper_security({}, {"KAFKA_OPTS": f"{named} -Dzookeeper.sasl.client=false"}).login is None
    assert zookeeper_security({}, {"KAFKA_OPTS": f"{named} -Dzookeeper.sasl.clientconfig=X"}).login is None


def test_a_broker_cannot_own_nodes_if_nobody_knows_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    config = BrokerConfig({"zookeeper.connect": "127.0.0.1:1", "zookeeper.set.acl": "true"})
    with pytest.raises(ConfigError, match=r"zookeeper.set.acl is true, but ZooKeeper would not know this"):
        zookeeper_store(config, "127.0.0.1:1")


def test_secrets_are_not_shown(keys: ZooKeeperKeys) -> None:
    security = zookeeper_security(settings(keys), environment(keys))
    for shown in (repr(security), repr(keys.server())):
        assert USERS["kafka"] not in shown
        assert repr(USERS["kafka"]) not in shown
    for file in keys.directory.glob("*.jaas"):
        assert file.stat().st_mode & 0o077 == 0
