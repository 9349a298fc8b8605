"""Connection limits: the broker refuses, delays or closes connections without affecting other clients."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from ottla.broker.lifecycle.server import StartupError
from ottla.broker.network import connection as connection_module
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.wire_client import WireClient


@contextlib.contextmanager
def clients(broker: Broker, count: int) -> Iterator[list[WireClient]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(WireClient(broker.bootstrap_servers)) for _ in range(count)]


def is_served(client: WireClient, seconds: float = 20) -> bool:
    client.socket.settimeout(seconds)
    try:
        client.call(ApiVersionsRequest())
    except (TimeoutError, ConnectionError):
        return False
    return True


def test_one_connection_too_many_of_an_address_is_closed_and_the_others_go_on():
    with Broker(config={"max.connections.per.ip": "3"}) as broker, clients(broker, 3) as first:
        assert all(map(is_served, first))
        with WireClient(broker.bootstrap_servers) as fourth:
            assert fourth.is_closed()
        assert all(map(is_served, first))
        first[0].socket.close()
        assert is_served_soon(broker)


def is_served_soon(broker: Broker) -> bool:
    """Return True if the broker soon serves a new client. It notices a disconnect with a short delay."""
    for _ in range(100):
        with WireClient(broker.bootstrap_servers) as client:
            if is_served(client):
                return True
        time.sleep(0.02)
    return False


def test_an_override_for_an_address_wins():
    config = {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "localhost:3, 10.0.0.1:7"}
    with Broker(config=config) as broker, clients(broker, 3) as first:
        assert all(map(is_served, first))
        with WireClient(broker.bootstrap_servers) as fourth:
            assert fourth.is_closed()


def test_overrides_that_make_no_sense_stop_the_start():
    with pytest.raises(StartupError, match="host:number"):
        Broker(config={"max.connections.per.ip.overrides": "localhost"}).start()


@pytest.mark.parametrize("limit", ["max.connections", "listener.name.plaintext.max.connections"])
def test_over_the_limit_of_all_connections_newcomers_wait(limit):
    with Broker(config={limit: "2"}) as broker, clients(broker, 3) as three:
        assert is_served(three[0])
        assert is_served(three[1])
        assert not is_served(three[2], 0.3)
        three[0].socket.close()
        three[2].receive(ApiVersionsRequest())  # the response to the request sent while waiting
        assert is_served(three[1])


def test_new_connections_per_second_are_limited_by_waiting():
    with Broker(config={"max.connection.creation.rate": "1", "quota.window.num": "2"}) as broker:
        started = time.monotonic()
        for _ in range(3):
            with WireClient(broker.bootstrap_servers) as client:
                assert is_served(client)
        assert time.monotonic() - started > 0.5


def test_idle_connections_are_closed_and_busy_ones_are_not():
    with (
        Broker(config={"connections.max.idle.ms": "1500"}) as broker,
        clients(broker, 3) as (idle, busy, waiting),
    ):
        broker.create_topic("quiet")
        assert is_served(idle)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        fetch = FetchRequest(
            max_wait_ms=4000,
            min_bytes=1,
            max_bytes=1000,
            topics=[FetchTopic(topic="quiet", partitions=[partition])],
        )
        waiting.send(fetch, 12)
        ends = time.monotonic() + 3
        while time.monotonic() < ends:
            assert is_served(busy)
            time.sleep(0.05)
        assert idle.is_closed()
        waiting.receive(fetch, 12)  # idle for longer than the limit, but the broker owed the response


def test_the_system_looks_after_dead_peers():
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        assert is_served(client)
        [connection] = broker._running()._listeners[0].connections
        assert connection._wire._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_a_client_that_does_not_read_is_not_served_beyond_a_bound(monkeypatch):
    """Promise: unread responses of a slow client do not pile up in the broker's memory."""
    monkeypatch.setattr(connection_module, "_MAX_QUEUED", 1 << 19)
    with Broker() as broker:
        broker.create_topic("wide", partitions=500)
        with WireClient(broker.bootstrap_servers) as slow, WireClient(broker.bootstrap_servers) as other:
            request = MetadataRequest(topics=None)
            answer = other.call(request)
            assert len(answer.topics[0].partitions) == 500
            size = len(answer.encode(13))
            slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            slow.socket.setblocking(False)
            sent = [slow.send(request) for _ in range(400)]
            connection = waiting_connection(broker)
            for _ in range(50):
                assert connection._responses.size <= connection_module._MAX_QUEUED + size + 100
                assert is_served(other)
            assert (
                sum(map(len, map(bytes, filter(None, connection._responses.parts))))
                < 2 * connection_module._MAX_QUEUED
            )
            slow.socket.setblocking(True)
            slow.socket.settimeout(60)
            other.send(request)
            expected = other.receive_frame()[4:]
            for correlation_id in sent:
                assert slow.receive_frame(correlation_id)[4:] == expected


def waiting_connection(broker: Broker) -> connection_module.Connection:
    connections = broker._running()._listeners[0].connections
    for _ in range(500):
        for connection in list(connections):
            if connection._responses.size > connection_module._MAX_QUEUED:
                return connection
        time.sleep(0.01)
    raise AssertionError("no connection has a full queue")


def test_responses_arrive_whole_through_a_socket_that_takes_little_at_a_time():
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("wide", partitions=500)
        assert is_served(client)
        [connection] = broker._running()._listeners[0].connections
        connection._wire._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        request = MetadataRequest(topics=None)
        sent = [client.send(request) for _ in range(100)]
        for correlation_id in sent:
            answer = client.receive(request, correlation_id=correlation_id)
            assert len(answer.topics[0].partitions) == 500


def test_a_client_that_means_another_broker_is_told_to_start_over():
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        here = client.call(MetadataRequest(topics=[]), 12)
        me = here.brokers[0].node_id
        named = {"client_software_name": "test", "client_software_version": "1"}
        for cluster_id, node_id, code in (
            (None, -1, ErrorCode.NONE),
            (here.cluster_id, me, ErrorCode.NONE),
            (here.cluster_id, me + 1, ErrorCode.REBOOTSTRAP_REQUIRED),
            ("another", me, ErrorCode.REBOOTSTRAP_REQUIRED),
        ):
            answer = client.call(ApiVersionsRequest(cluster_id=cluster_id, node_id=node_id, **named), 5)
            assert (answer.error_code, bool(answer.api_keys)) == (code, code is ErrorCode.NONE)


def test_clients_leave_room_for_brokers() -> None:
    clients_port, brokers_port = ReservedPorts(2).numbers
    config = {
        "listeners": f"CLIENTS://127.0.0.1:{clients_port},BROKERS://127.0.0.1:{brokers_port}",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "max.connections": "2",
    }
    with Broker(config=config, port=clients_port) as broker, clients(broker, 2) as taken:
        assert all(map(is_served, taken))
        with (
            WireClient(broker.bootstrap_servers) as waiting,
            WireClient(f"127.0.0.1:{brokers_port}") as other,
        ):
            assert is_served(other)
            assert not is_served(waiting, 0.3)
