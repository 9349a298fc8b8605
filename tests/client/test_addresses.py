"""Addresses that cannot be right, and brokers that expect TLS."""

from __future__ import annotations

import pytest

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings, parse_servers
from ottla.testing import Broker


@pytest.mark.parametrize("text", ["localhost:abc", "a:9092,b:x1", "localhost:99999", "[::1]:port"])
def test_a_port_is_a_number(text: str) -> None:
    with pytest.raises(ClientError, match="is not the address of a broker: write HOST:PORT"):
        parse_servers(text)


def test_hosts_may_come_without_a_port() -> None:
    assert parse_servers("a; [::1]:9093, ::1,[::1]") == (
        ("a", 9092),
        ("::1", 9093),
        ("::1", 9092),
        ("::1", 9092),
    )


@pytest.mark.parametrize("security", ["SSL", "SASL_SSL"])
def test_a_broker_that_expects_tls_is_recognised(security: str) -> None:
    with Broker(security=security, acls=[]) as broker:
        cluster = Cluster(Settings(parse_servers(broker.bootstrap_servers)))
        with pytest.raises(ClientError, match="expects TLS, and this client connects without it"):
            cluster.any_connection()
        cluster.close()
