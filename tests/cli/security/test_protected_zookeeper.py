"""The tools with a protected ZooKeeper: TLS, logins, and znodes with ACLs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from ottla.client.errors import ClientError
from ottla.jvm.zookeeper import four_letter_word
from ottla.security.sasl.scram import credential, parse_credential
from ottla.testing import ZooKeeper
from ottla.testing.ports import free_ports
from ottla.zookeeper import ZooKeeperClient, zookeeper_security
from tests.broker.attacks.secured import Secured
from tests.installed import kafka_tool
from tests.ports import ports_in_a_row
from tests.zookeeper_keys import ZooKeeperKeys, zookeeper_keys

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> ZooKeeperKeys:
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    return zookeeper_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def secure(keys: ZooKeeperKeys) -> Iterator[ZooKeeper]:
    with ZooKeeper(security=keys.server()) as running:
        yield running


def tls_file(keys: ZooKeeperKeys) -> str:
    file = keys.directory / "client.properties"
    settings = keys.server().broker_settings(trust_store=keys.ca)
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(file)


def as_user(keys: ZooKeeperKeys, user: str | None) -> dict[str, str]:
    if user is None:
        return {**os.environ, "KAFKA_OPTS": ""}
    return {**os.environ, **keys.server().broker_environment(keys.directory / f"{user}.jaas", user)}


def run(keys: ZooKeeperKeys, tool: str, *words: str, user: str | None = "kafka", code: int = 0) -> str:
    done = subprocess.run(
        [kafka_tool(tool), *words], capture_output=True, text=True, timeout=60, env=as_user(keys, user)
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def shell(keys: ZooKeeperKeys, address: str, *words: str, user: str | None = "kafka", code: int = 0) -> str:
    said = run(
        keys, "zookeeper-shell", address, "-zk-tls-config-file", tls_file(keys), *words, user=user, code=code
    )
    return said.partition("path:null\n")[2] or said


def test_the_shell_reaches_a_server_with_tls_and_a_login(secure: ZooKeeper, keys: ZooKeeperKeys) -> None:
    assert shell(keys, secure.connect, "create", "/shell", "one") == "Created /shell\n"
    # Kafka's tool accepts the option in any position.
    said = run(
        keys, "zookeeper-shell", secure.connect, "get", "-zk-tls-config-file", tls_file(keys), "/shell"
    )
    assert said.endswith("\none\n")
    shell(keys, secure.connect, "delete", "/shell")


def test_the_shell_says_why_it_cannot_connect(secure: ZooKeeper, keys: ZooKeeperKeys, tmp_path: Path) -> None:
    wrong = tmp_path / "jaas.conf"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    wrong.write_text(f'Client {{ {module} required username="kafka" password="wrong"; }};')
    environment = {**os.environ, "KAFKA_OPTS": f"-Djava.security.auth.login.config={wrong}"}
    words = [kafka_tool("zookeeper-shell"), secure.connect, "-zk-tls-config-file", tls_file(keys), "ls", "/"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 1
    assert "the login of kafka at 127.0.0.1 failed: wrong user or password" in done.stderr
    assert "Traceback" not in done.stderr
    said = run(keys, "zookeeper-shell", secure.connect, "-zk-tls-config-file", code=1)
    assert "Error: no filename provided with option -zk-tls-config-file" in said


@contextmanager
def client(zookeeper: ZooKeeper, keys: ZooKeeperKeys, user: str) -> Iterator[ZooKeeperClient]:
    security = zookeeper_security(
        dict(keys.server().broker_settings(trust_store=keys.ca)),
        keys.server().broker_environment(keys.directory / f"{user}.jaas", user),
    )
    made = ZooKeeperClient(zookeeper.connect, security=security)
    made.start(timeout=30)
    try:
        yield made
    finally:
        made.stop()
        made.close()


def test_nodes_are_protected_and_opened_again(secure: ZooKeeper, keys: ZooKeeperKeys) -> None:
    root = "/migrated"
    owner, reader, everybody = ("sasl", "kafka", 31), ("world", "anyone", 1), ("world", "anyone", 31)
    protected = ("", "/brokers", "/brokers/topics", "/config", "/ottla")
    migration = ("zookeeper-security-migration", "--zookeeper.connect", f"{secure.connect}{root}")
    options = ("--zk-tls-config-file", tls_file(keys))
    with client(secure, keys, "kafka") as mine, client(secure, keys, "other") as other:

        def acls(path: str) -> set[tuple[str, str, int]]:
            return {(acl.id.scheme, acl.id.id, acl.perms) for acl in mine.get_acls(f"{root}{path}")[0]}

        for path in (*protected, "/config/users", "/consumers", "/others"):
            mine.create(f"{root}{path}", b"x")
        said = run(keys, *migration, *options, "--zookeeper.acl", "secure", user=None, code=1)
        assert "ZooKeeper would not know who you are" in said
        said = run(keys, *migration, *options, "--zookeeper.acl", "secure", "--enable.path.check", code=1)
        assert "These nodes are missing, and nothing was changed: /admin, /cluster" in said
        assert acls("/brokers") == {everybody}

        run(keys, *migration, *options, "--zookeeper.acl", "secure")
        assert {path: acls(path) for path in protected} == {path: {owner, reader} for path in protected}
        assert acls("/config/users") == {owner}
        assert acls("/consumers") == acls("/others") == {everybody}
        assert shell(keys, secure.connect, "get", f"{root}/brokers", user="other") == "x\n"
        said = shell(keys, secure.connect, "set", f"{root}/brokers", "y", user="other", code=1)
        assert f"Insufficient permission : {root}/brokers" in said
        for refused in (
            lambda: other.create(f"{root}/brokers/ids"),
            lambda: other.delete(f"{root}/brokers/topics"),
            lambda: other.get(f"{root}/config/users"),
        ):
            with pytest.raises(NoAuthError):
                refused()

        run(keys, *migration, *options, "--zookeeper.acl", "unsecure")
        other.set(f"{root}/brokers", b"y")


def test_a_server_is_started_as_kafkas_documentation_has_it(keys: ZooKeeperKeys, tmp_path: Path) -> None:
    """Uses zookeeper.properties with a secure port and providers, and a JAAS file in KAFKA_OPTS."""
    plain, port = free_ports(2)
    auth = "org.apache.zookeeper.server.auth"
    properties = tmp_path / "zookeeper.properties"
    properties.write_text(
        f"dataDir={tmp_path}/data\nclientPort={plain}\nclientPortAddress=127.0.0.1\nsecureClientPort={port}\n"
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        f"authProvider.sasl={auth}.SASLAuthenticationProvider\n"
        f"authProvider.x509={auth}.X509AuthenticationProvider\n"
        f"ssl.keyStore.location={keys.pem('zookeeper', '127.0.0.1')}\nssl.keyStore.type=PEM\n"
        f"ssl.trustStore.location={keys.ca}\nssl.trustStore.type=PEM\nssl.clientAuth=none\n"
    )
    jaas = tmp_path / "server.jaas"
    users = " ".join(f'user_{name}="pencil"' for name in ("other", "kafka"))
    jaas.write_text(f"Server {{ {auth}.DigestLoginModule required {users}; }};\n")
    environment = {**os.environ, "KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"}
    server = subprocess.Popen(
        [kafka_tool("zookeeper-server-start"), str(properties)], stderr=subprocess.PIPE, env=environment
    )
    try:
        probe = keys.server().probe()
        until_it_answers(server, lambda: four_letter_word("127.0.0.1", port, "ruok", tls=probe))
        assert four_letter_word("127.0.0.1", plain, "ruok") == "imok"
        secured_only = tmp_path / "zoo.cfg"
        secured_only.write_text(properties.read_text().replace("clientPort=", "#", 1))
        status = run(keys, "zkServer.sh", "status", str(secured_only))
        assert f"Client port found: {port}. Client address: localhost. Client SSL: true." in status
        assert "Mode: standalone" in status
        address = f"127.0.0.1:{port}"
        assert (
            shell(keys, address, "create", "/mine", "x", "sasl:other:cdrwa", user="other")
            == "Created /mine\n"
        )
        assert shell(keys, address, "get", "/mine", user="other") == "x\n"
        assert "Insufficient permission" in shell(keys, address, "get", "/mine", user=None, code=1)
    finally:
        server.kill()
        server.communicate(timeout=20)


def until_it_answers(server: subprocess.Popen[bytes], ask) -> None:
    while ask() != "imok":
        assert server.poll() is None, server.stderr and server.stderr.read()


@pytest.mark.slow
def test_a_secure_ensemble_is_one_command(keys: ZooKeeperKeys, tmp_path: Path) -> None:
    port = ports_in_a_row(3)
    users = tmp_path / "users.properties"
    users.write_text("kafka=pencil\n")
    command = [sys.executable, "-m", "ottla", "zookeeper", "start", "--servers", "3"]
    command += ["--listen", f"127.0.0.1:{port}", "--data", str(tmp_path / "data"), "--users", str(users)]
    command += ["--keystore", str(keys.pem("zookeeper", "127.0.0.1")), "--truststore", str(keys.ca)]
    users.chmod(0o644)
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert f"{users} has passwords in it and others can read it: chmod 600 {users}." in refused.stderr
    users.chmod(0o600)
    ensemble = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert ensemble.stdout is not None
        ready = ensemble.stdout.readline()
        assert ready.startswith(f"ZooKeeper is ready at 127.0.0.1:{port},127.0.0.1:{port + 1},")
        assert four_letter_word("127.0.0.1", port, "ruok") is None, "without TLS"
        probe = keys.server().probe()
        modes = [str(four_letter_word("127.0.0.1", port + n, "srvr", tls=probe)) for n in range(3)]
        assert sum("Mode: leader" in mode for mode in modes) == 1
        for word in ("dump", "cons", "envi", "wchp"):
            assert "not executed" in str(four_letter_word("127.0.0.1", port, word, tls=probe))
        jaas = tmp_path / "data" / "server-1" / "jaas.conf"
        assert jaas.stat().st_mode & 0o077 == 0
    finally:
        ensemble.send_signal(signal.SIGINT)
        said, _ = ensemble.communicate(timeout=40)
    assert said.endswith("Stopped cleanly.\n")
    assert "pencil" not in said
    assert "pencil" not in "".join(path.read_text() for path in (tmp_path / "data").glob("*/zookeeper.log"))


def test_the_first_users_are_there_before_any_broker(secure: ZooKeeper, keys: ZooKeeperKeys) -> None:
    """Otherwise brokers that use SCRAM among themselves could not start."""
    root = "/first/users"
    configs = (
        "configs",
        "--zookeeper",
        f"{secure.connect}{root}",
        "--zk-tls-config-file",
        tls_file(keys),
        "--alter",
    )
    ann = ("--entity-type", "users", "--entity-name", "a/n n")
    scram = "SCRAM-SHA-256=[iterations=8192,password=pencil],SCRAM-SHA-512=[password=pencil]"
    said = run(keys, *configs, *ann, "--add-config", scram)
    assert said == "Completed updating config for entity: user-principal 'a/n n'.\n"
    with client(secure, keys, "kafka") as mine:
        path = f"{root}/config/users/a%2Fn%20n"
        stored = json.loads(mine.get(path)[0])
        assert stored["version"] == 1
        parsed = parse_credential(stored["config"]["SCRAM-SHA-256"])
        assert parsed == credential("SCRAM-SHA-256", "pencil", parsed.salt, 8192)
        assert {(acl.id.scheme, acl.id.id, acl.perms) for acl in mine.get_acls(path)[0]} == {
            ("sasl", "kafka", 31)
        }
        [change] = mine.get_children(f"{root}/config/changes")
        assert (
            mine.get(f"{root}/config/changes/{change}")[0] == b'{"version":2,"entity_path":"users/a%2Fn%20n"}'
        )

        run(keys, *configs, *ann, "--delete-config", "SCRAM-SHA-512")
        assert json.loads(mine.get(path)[0])["config"].keys() == {"SCRAM-SHA-256"}
        assert len(mine.get_children(f"{root}/config/changes")) == 2
    said = run(keys, *configs, *ann, "--delete-config", "SCRAM-SHA-512", code=1)
    assert "Invalid config(s): SCRAM-SHA-512" in said
    said = run(keys, *configs, *ann, "--add-config", "SCRAM-SHA-256=[iterations=100,password=pencil]", code=1)
    assert "Iterations 100 is less than the minimum 4096" in said


def test_a_user_that_was_made_before_the_broker_logs_in(
    shared_zookeeper: ZooKeeper, keys: ZooKeeperKeys, tmp_path: Path
) -> None:
    zookeeper = shared_zookeeper.chroot()
    configs = ("configs", "--zookeeper", zookeeper.connect, "--alter", "--entity-type", "users")
    for password in ("first", "second"):
        run(
            keys, *configs, "--entity-name", "ann", "--add-config", f"SCRAM-SHA-256=[password={password}]",
            user=None,
        )  # fmt: skip
    properties = tmp_path / "server.properties"
    properties.write_text(f"zookeeper.connect={zookeeper.connect}\nlog.dirs={tmp_path}\n")
    bob = "SCRAM-SHA-512=[name=bob,iterations=8192,password=pen,cil]"
    words = ("format", "--config", str(properties), "--cluster-id", "x" * 22, "--add-scram", bob)
    run(keys, "storage", *words, user=None)
    settings = {"broker.id": "0", "zookeeper.connect": zookeeper.connect}
    with Secured(tmp_path, **settings) as secured:
        secured.log_in("SCRAM-SHA-512", "bob", "pen,cil")
        secured.log_in("SCRAM-SHA-256", "ann", "second")
        run(
            keys,
            *configs,
            "--entity-name",
            "ann",
            "--add-config",
            "SCRAM-SHA-256=[password=third]",
            user=None,
        )
        deadline = time.monotonic() + 30
        while True:  # until the broker has received the notification
            try:
                secured.log_in("SCRAM-SHA-256", "ann", "third")
                break
            except ClientError:
                assert time.monotonic() < deadline
