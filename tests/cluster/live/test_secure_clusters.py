"""Promise: brokers replicate and fail over with TLS and logins among themselves, and migrate to that while running."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509

from ottla.security.certificates import make_authority
from ottla.testing import Cluster
from ottla.testing.ports import ReservedPorts
from tests.cluster.load import Load, check_nothing_lost

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

BROKERS = range(3)
USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="broker-secret" user_broker="broker-secret" user_ann="pencil";'
)


class Secured:
    """The settings of three brokers. LOCAL is for the test itself; the other listeners are under test."""

    def __init__(self, directory: Path) -> None:
        self.authority = make_authority()
        self.ca_file = directory / "ca.pem"
        self.ca_file.write_bytes(self.authority.certificate_pem)
        self.files = {broker: directory / f"broker-{broker}.pem" for broker in BROKERS}
        for broker in BROKERS:
            self.issue(broker)
        self._reserved = ReservedPorts(len(BROKERS) * 2)
        self.plain = dict(zip(BROKERS, self._reserved.numbers, strict=False))
        self.secure = dict(zip(BROKERS, self._reserved.numbers[len(BROKERS) :], strict=True))

    def issue(self, broker: int) -> None:
        """Issue a new certificate in place of the previous one."""
        issued = self.authority.issue(f"broker-{broker}", ["localhost"])
        draft = self.files[broker].with_suffix(".new")
        draft.write_bytes(issued.key_pem + issued.certificate_pem)
        draft.replace(self.files[broker])

    def is_shown(self, broker: int) -> bool:
        """Return True if a new connection gets the certificate in the file."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        with (
            socket.create_connection(("localhost", self.secure[broker])) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as wrapped,
        ):
            shown = wrapped.getpeercert(binary_form=True)
        found = x509.load_pem_x509_certificate(self.files[broker].read_bytes())
        return shown is not None and x509.load_der_x509_certificate(shown) == found

    def broker(self, cluster_port: int, broker: int, listeners: list[str], between: str) -> dict[str, str]:
        ports = {"LOCAL": cluster_port, "PLAINTEXT": self.plain[broker], "SASL_SSL": self.secure[broker]}
        hosts = {"LOCAL": "127.0.0.1", "PLAINTEXT": "127.0.0.1", "SASL_SSL": "localhost"}
        return {
            "listeners": ",".join(f"{name}://{hosts[name]}:{ports[name]}" for name in ["LOCAL", *listeners]),
            "listener.security.protocol.map": "LOCAL:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
            "inter.broker.listener.name": between,
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": USERS,
            "ssl.keystore.location": str(self.files[broker]),
            "ssl.truststore.location": str(self.ca_file),
        }

    def client(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": "pencil",
            "ssl.ca.location": str(self.ca_file),
            "broker.address.family": "v4",
        }

    @property
    def servers(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.secure.values())


def set_up(cluster: Cluster, secured: Secured, listeners: list[str], between: str) -> None:
    """Set the brokers' initial configuration."""
    for broker in BROKERS:
        cluster._broker_config[broker] = secured.broker(cluster.ports[broker], broker, listeners, between)


def test_a_cluster_whose_brokers_log_in_to_each_other(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    secured = Secured(tmp_path)
    cluster = new_cluster(3, config={"listener.name.sasl_ssl.plain.connections.max.reauth.ms": "3000"})
    set_up(cluster, secured, ["SASL_SSL"], "SASL_SSL")
    with cluster:
        cluster.create_topic("t", config={"min.insync.replicas": "2"})
        cluster.wait_for_isr("t", BROKERS)
        with Load(secured.servers, "t", **secured.client()) as load:
            load.wait_for(500)
            leader = cluster.leader("t")
            cluster.kill(leader)
            cluster.wait_for_leader("t", other_than=leader)
            load.wait_for(500)
            cluster.restart(leader)
            cluster.wait_for_isr("t", BROKERS)
            load.wait_for(500)
        check_nothing_lost(cluster, "t", load)


def test_a_broker_with_the_wrong_password_says_so(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    secured = Secured(tmp_path)
    cluster = new_cluster(3)
    set_up(cluster, secured, ["SASL_SSL"], "SASL_SSL")
    wrong = USERS.replace('password="broker-secret"', 'password="wrong"')
    cluster._broker_config[2]["listener.name.sasl_ssl.plain.sasl.jaas.config"] = wrong
    with cluster:
        cluster.create_topic("t", partitions=3)

        def said() -> bool:
            text = cluster.log(2).read_text(errors="replace")
            return (
                "refuses the login of this broker: Authentication failed: Invalid username or password"
                in text
            )

        cluster.wait_until(said, "the broker has said so")
        text = cluster.log(2).read_text(errors="replace")
        assert "see listener.name.sasl_ssl.plain.sasl.jaas.config" in text
        assert "broker-secret" not in text


@pytest.mark.slow
def test_from_plaintext_to_sasl_ssl_without_losing_anything(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """The three rounds of restarts in docs/how-to/secure-a-cluster.md, with a producer that never stops."""
    secured = Secured(tmp_path)
    cluster = new_cluster(3)
    rounds = [
        (["PLAINTEXT"], "PLAINTEXT"),
        (["PLAINTEXT", "SASL_SSL"], "PLAINTEXT"),
        (["PLAINTEXT", "SASL_SSL"], "SASL_SSL"),
        (["SASL_SSL"], "SASL_SSL"),
    ]
    set_up(cluster, secured, *rounds[0])
    with cluster:
        cluster.create_topic("t", config={"min.insync.replicas": "2"})
        with Load(cluster.bootstrap_servers, "t") as load:
            load.wait_for(100)
            for listeners, between in rounds[1:]:
                set_up(cluster, secured, listeners, between)
                for broker in BROKERS:
                    cluster.wait_for_isr("t", BROKERS)
                    assert cluster.stop(broker) == 0
                    cluster.restart(broker)
                    load.wait_for(100)
            cluster.wait_for_isr("t", BROKERS)
            load.wait_for(100)
        check_nothing_lost(cluster, "t", load)
        cluster.create_topic("after")
        with Load(secured.servers, "after", **secured.client()) as load:
            load.wait_for(100)
        check_nothing_lost(cluster, "after", load)


@pytest.mark.slow
def test_certificates_are_renewed_under_load(new_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    cluster = new_cluster(3)
    set_up(cluster, secured, ["SASL_SSL"], "SASL_SSL")
    with cluster:
        cluster.create_topic("t", config={"min.insync.replicas": "2"})
        with Load(secured.servers, "t", **secured.client()) as load:
            load.wait_for(100)
            for broker in BROKERS:
                assert secured.is_shown(broker)
                secured.issue(broker)
                cluster.wait_until(partial(secured.is_shown, broker), "the new certificate is shown")
                load.wait_for(100)
            # Brokers accept each other's new certificates, too.
            leader = cluster.leader("t")
            assert cluster.stop(leader) == 0
            cluster.restart(leader)
            cluster.wait_for_isr("t", BROKERS)
            load.wait_for(100)
        check_nothing_lost(cluster, "t", load)
