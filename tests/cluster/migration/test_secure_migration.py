"""Promise: users, passwords and a protected ZooKeeper move from Apache Kafka 3.9 to Ottla, and back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench.peers.apache_kafka import ZOOKEEPER_VERSION, Unavailable, kafka_jars, run_tool
from ottla.client.cluster import Cluster as Client
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import MetadataRequest
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.security.sasl import scram
from ottla.testing.ports import ReservedPorts
from ottla.zookeeper import ZooKeeperClient, zookeeper_security
from tests.cluster.migration.migrating_cluster import MigratingCluster
from tests.wire_client import WireClient
from tests.zookeeper_keys import zookeeper_keys

pytestmark = [pytest.mark.cluster, pytest.mark.peers, pytest.mark.slow, pytest.mark.timeout(480)]

CONFIGS = "kafka.admin.ConfigCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
PLAIN_JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD = "pencil"


@pytest.fixture(scope="module", autouse=True)
def kafka_is_there() -> None:
    try:
        kafka_jars(ZOOKEEPER_VERSION)
    except Unavailable as reason:
        pytest.skip(str(reason))


class Ports:
    def __init__(self) -> None:
        self._reserved = ReservedPorts(2)
        plain, sasl = self._reserved.numbers
        self.open, self.sasl = f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}"

    def settings(self, **others: str) -> dict[str, str]:
        return {
            "listeners": f"PLAINTEXT://{self.open},SASL_PLAINTEXT://{self.sasl}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            PLAIN_JAAS: f'{PLAIN_MODULE} required user_first="{PASSWORD}";',
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "offsets.topic.replication.factor": "1",
            "zookeeper.session.timeout.ms": "6000",
            **{name.replace("_", "."): value for name, value in others.items()},
        }

    def admin(self) -> AdminClient:
        """Return an admin client once a controller exists. librdkafka may wait in vain for one elected later."""
        deadline = time.monotonic() + 60
        while True:
            with WireClient(self.open) as client:
                answer: Any = client.call(MetadataRequest(topics=[]), 9)
            if answer.controller_id >= 0 and answer.brokers:
                break
            assert time.monotonic() < deadline, "there is no controller"
            time.sleep(0.05)
        return AdminClient({"bootstrap.servers": self.open, "log_level": 0})

    def logs_in(self, mechanism: str, user: str, password: str = PASSWORD) -> bool:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
        try:
            Client(Settings.from_properties(settings)).any_connection().close()
        except ClientError as refused:
            if refused.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            return False
        return True

    def kafka_configs(self, *options: str, check: bool = True) -> str:
        done = run_tool(
            CONFIGS,
            ["--bootstrap-server", self.open, "--alter", *options],
            version=ZOOKEEPER_VERSION,
            check=check,
        )
        return done.stdout + done.stderr

    def set_plain_users(self, **users: str) -> None:
        """Set the users like kafka-configs."""
        jaas = " ".join(f'user_{name}="{password}"' for name, password in users.items())
        entry = ConfigEntry(
            PLAIN_JAAS, f"{PLAIN_MODULE} required {jaas};", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
        admin = self.admin()
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(90)


@pytest.fixture
def ports() -> Ports:
    return Ports()


@pytest.fixture
def cluster(ports: Ports, tmp_path: Path) -> Iterator[MigratingCluster]:
    """One broker on a ZooKeeper that requires TLS and a login, with znodes owned by the brokers."""
    keys = zookeeper_keys(tmp_path)
    security = keys.server()
    settings = {
        **ports.settings(zookeeper_set_acl="true", password_encoder_secret="of the house"),
        **security.broker_settings(trust_store=keys.ca),
    }
    options = security.broker_environment(tmp_path / "jaas.conf", "kafka")["KAFKA_OPTS"].split()
    made = MigratingCluster(
        tmp_path / "cluster", settings, 1, zookeeper_security=security, java_options=options
    )
    with made:
        yield made


def add_scram_user(admin: AdminClient, name: str) -> None:
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 8192), PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(90)


def test_users_and_passwords_move_to_ottla_and_back(cluster: MigratingCluster, ports: Ports) -> None:
    cluster.start_kafka()
    scram = f"SCRAM-SHA-256=[iterations=8192,password={PASSWORD}],SCRAM-SHA-512=[password={PASSWORD}]"
    ports.kafka_configs("--entity-type", "users", "--entity-name", "ann", "--add-config", scram)
    jaas = f'{PLAIN_JAAS}=[{PLAIN_MODULE} required user_bob="{PASSWORD}";]'
    ports.kafka_configs("--entity-type", "brokers", "--entity-name", "0", "--add-config", jaas)
    assert ports.logs_in("SCRAM-SHA-256", "ann")
    cluster.stop()

    cluster.start_ottla()
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert ports.logs_in(mechanism, "ann")
        assert not ports.logs_in(mechanism, "ann", "crayon")
    assert ports.logs_in("PLAIN", "bob"), "Kafka's password was decoded"
    assert not ports.logs_in("PLAIN", "first"), "what was set while Kafka ran counts"
    add_scram_user(ports.admin(), "carl")
    ports.set_plain_users(dora=PASSWORD)
    check_acls(cluster)
    cluster.stop()

    cluster.start_kafka()
    for user in ("ann", "carl"):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            assert ports.logs_in(mechanism, user)
    assert ports.logs_in("PLAIN", "dora"), "our password was decoded"
    assert not ports.logs_in("PLAIN", "bob")
    assert "could not be decoded" not in cluster.said(0)


def check_acls(cluster: MigratingCluster) -> None:
    """Check that Kafka's znodes and ours have the same ACLs."""
    root = cluster.directory.parent
    security = zookeeper_security(
        {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": str(root / "ca.pem")},
        {"KAFKA_OPTS": f"-Djava.security.auth.login.config={root / 'jaas.conf'}"},
    )
    client = ZooKeeperClient(f"{cluster.zookeeper.connect}/migrating", security=security)
    client.start(timeout=30)
    try:
        owner, everybody = ("sasl", "kafka", 31), ("world", "anyone", 1)
        for path, expected in {
            "/config/users/ann": {owner},
            "/config/users/carl": {owner},
            "/config/brokers/0": {owner},
            "/brokers/ids/0": {owner, everybody},
            "/config/topics": {owner, everybody},
            "/ottla": {owner, everybody},
            "/ottla/changes": {owner, everybody},
            "/consumers": {("world", "anyone", 31)},
        }.items():
            found = {(acl.id.scheme, acl.id.id, acl.perms) for acl in client.get_acls(path)[0]}
            assert found == expected, path
        assert b"pencil" not in client.get("/config/brokers/0")[0]
        assert b"pencil" not in client.get("/config/users/carl")[0]
    finally:
        client.stop()
        client.close()


def acl(topic: str, user: str, operation: AclOperation, **options: Any) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        options.get("pattern", ResourcePatternType.LITERAL),
        f"User:{user}",
        options.get("host", "*"),
        operation,
        options.get("permission", AclPermissionType.ALLOW),
    )


def all_acls(ports: Ports) -> set[tuple[Any, ...]]:
    admin = ports.admin()
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return {
        (each.restype, each.name, each.resource_pattern_type, each.principal, each.host, each.operation,
         each.permission_type)
        for each in admin.describe_acls(every).result(90)
    }  # fmt: skip


def may_see(ports: Ports, user: str, *topics: str) -> set[str]:
    settings = {
        "bootstrap.servers": ports.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }
    return set(AdminClient(settings).list_topics(timeout=30).topics) & {*topics}


def test_acls_move_to_ottla_and_back(ports: Ports, tmp_path: Path) -> None:
    settings = {
        **ports.settings(super_users="User:ANONYMOUS"),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    }
    topics = ("orders", "order-items", "prices", "plans")
    with MigratingCluster(tmp_path / "cluster", settings, 1) as cluster:
        cluster.start_kafka()
        admin = ports.admin()
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in topics]).values():
            future.result(90)
        for user in ("ann", "o'bob, *"):
            add_scram_user(admin, user)
        made = [
            acl("orders", "ann", AclOperation.READ),
            acl("orders", "ann", AclOperation.WRITE, host="127.0.0.1"),
            acl("order-", "ann", AclOperation.DESCRIBE, pattern=ResourcePatternType.PREFIXED),
            acl("*", "o'bob, *", AclOperation.ALL),
            acl("plans", "o'bob, *", AclOperation.DESCRIBE, permission=AclPermissionType.DENY),
            acl("plans", "*", AclOperation.READ, host="10.0.0.1"),
        ]
        for future in admin.create_acls(made).values():
            future.result(90)
        under_kafka = all_acls(ports)
        assert len(under_kafka) == len(made)
        seen = {user: may_see(ports, user, *topics) for user in ("ann", "o'bob, *")}
        assert seen == {"ann": {"orders", "order-items"}, "o'bob, *": {"orders", "order-items", "prices"}}
        cluster.stop()

        cluster.start_ottla()
        assert all_acls(ports) == under_kafka
        assert {user: may_see(ports, user, *topics) for user in seen} == seen
        admin = ports.admin()
        new = [
            acl("prices", "ann", AclOperation.DESCRIBE),
            acl("pla", "ann", AclOperation.READ, pattern=ResourcePatternType.PREFIXED),
        ]
        for future in admin.create_acls(new).values():
            future.result(90)
        gone = AclBindingFilter(
            ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:ann", None, AclOperation.READ,
            AclPermissionType.ANY,
        )  # fmt: skip
        [removed] = admin.delete_acls([gone]).values()
        assert len(removed.result(90)) == 1
        under_ottla = all_acls(ports)
        assert len(under_ottla) == len(made) + 1
        cluster.stop()

        cluster.start_kafka()
        assert all_acls(ports) == under_ottla
        admin, deadline = ports.admin(), time.monotonic() + 60
        while not {*topics} <= set(admin.list_topics(timeout=30).topics):
            assert time.monotonic() < deadline, "a Kafka that has just started knows of no topic yet"
        assert may_see(ports, "ann", *topics) == {"orders", "order-items", "prices", "plans"}
        assert may_see(ports, "o'bob, *", *topics) == seen["o'bob, *"]


def new_token(ports: Ports, file: Path) -> tuple[str, str]:
    """Return the id and HMAC of a token that Kafka's own tool creates for ann."""
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="ann" password="{PASSWORD}";\n'
    )
    words = ["--bootstrap-server", ports.sasl, "--command-config", str(file), "--create"]
    said = run_tool(TOKENS, [*words, "--max-life-time-period", "-1"], version=ZOOKEEPER_VERSION).stdout
    line = next(each for each in said.splitlines() if "User:ann" in each)
    token_id, hmac = line.split()[:2]
    return token_id, hmac


def logs_in_with(ports: Ports, token_id: str, hmac: str) -> bool:
    exchange = scram.log_in("SCRAM-SHA-256", token_id, hmac, is_token=True)
    with WireClient(ports.sasl) as client:
        handshake: Any = client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        assert handshake.error_code == 0
        message = next(exchange)
        try:
            while True:
                answer: Any = client.call(SaslAuthenticateRequest(auth_bytes=message), 1)
                if answer.error_code:
                    return False
                message = exchange.send(bytes(answer.auth_bytes))
        except StopIteration:
            return True


def test_delegation_tokens_move_to_ottla_and_back(ports: Ports, tmp_path: Path) -> None:
    settings = ports.settings(delegation_token_secret_key="of the tokens")
    with MigratingCluster(tmp_path / "cluster", settings, 1) as cluster:
        cluster.start_kafka()
        add_scram_user(ports.admin(), "ann")
        of_kafka = new_token(ports, tmp_path / "ann.properties")
        cluster.stop()

        cluster.start_ottla()
        assert logs_in_with(ports, *of_kafka)
        assert not logs_in_with(ports, of_kafka[0], "another")
        of_ottla = new_token(ports, tmp_path / "ann.properties")
        assert logs_in_with(ports, *of_ottla)
        cluster.stop()

        cluster.start_kafka()
        assert logs_in_with(ports, *of_kafka)
        assert logs_in_with(ports, *of_ottla)


def test_a_password_cannot_be_set_without_a_secret(ports: Ports, tmp_path: Path) -> None:
    refusals = []
    with MigratingCluster(tmp_path / "cluster", ports.settings(), 1) as cluster:
        for start in (cluster.start_kafka, cluster.start_ottla):
            start()
            with pytest.raises(KafkaException) as refused:
                ports.set_plain_users(ann=PASSWORD)
            refusals.append((refused.value.args[0].code(), refused.value.args[0].str()))
            cluster.stop()
    assert refusals[0] == refusals[1]
    assert "Password encoder secret not configured" in refusals[0][1]
