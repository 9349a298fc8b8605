"""GET /metrics for programs without an HTTP server: responses, and resistance to bad requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from ottla.monitoring.metrics.endpoint import MetricsThread


@pytest.fixture
def server() -> Iterator[MetricsThread]:
    running = MetricsThread("127.0.0.1", 0, lambda: "some_gauge 1\n").start()
    yield running
    running.stop()


def connect(server: MetricsThread) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10)


def read(connection: socket.socket) -> bytes:
    """Return one response, or the bytes received before the server closed the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(4096)
        if not piece:
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(4096)
    return head + b"\r\n\r\n" + body


def test_a_connection_is_kept_for_the_next_scrape(server: MetricsThread) -> None:
    with connect(server) as connection:
        for _ in range(3):
            connection.sendall(b"GET /metrics?name=x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = read(connection)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert answer.endswith(b"\r\n\r\nsome_gauge 1\n")


def test_whether_it_lives_is_said_without_measuring() -> None:
    """Probes query kafka_exporter this way, more often than Prometheus does."""

    def never() -> str:
        raise AssertionError("The metrics were made.")

    server = MetricsThread("127.0.0.1", 0, never).start()
    try:
        with connect(server) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = read(connection)
            assert (answer[:15], answer[-2:]) == (b"HTTP/1.1 200 OK", b"ok")
    finally:
        server.stop()


def test_a_client_that_wants_it_closed_or_sends_a_body_gets_no_second_answer(server: MetricsThread) -> None:
    for more in (b"Connection: close\r\n", b"Content-Length: 3\r\n"):
        with connect(server) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + more + b"\r\nabc")
            assert b"some_gauge 1" in read(connection)
            assert connection.recv(1) == b""


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00" + bytes(20_000), b"\r\n\r\n", b"GET\r\n\r\n", b"a" * 40_000]
)
def test_nonsense_does_no_harm(server: MetricsThread, sent: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        read(connection)
    with connect(server) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert b"some_gauge 1" in read(connection)


def test_too_many_connections_are_refused_and_the_others_served(server: MetricsThread) -> None:
    held = [connect(server) for _ in range(32)]
    try:
        for each in held:
            each.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in read(each)
        with connect(server) as refused:
            assert refused.recv(1) == b""
    finally:
        for each in held:
            each.close()


def test_a_port_that_is_taken_is_an_error_and_leaves_no_thread(server: MetricsThread) -> None:
    before = set(threading.enumerate())
    port = urlsplit(server.url).port or 0
    with pytest.raises(OSError, match="in use"):
        MetricsThread("127.0.0.1", port, lambda: "").start()
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Host: localhost\r\n", b"200"),
        (b"Host: evil.example\r\n", b"421"),
        (b"Host: localhost\r\nOrigin: https://evil.example\r\n", b"403"),
        (b"Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", b"403"),
    ],
)
def test_foreign_web_pages_see_no_metrics(headers: bytes, status: bytes) -> None:
    server = MetricsThread("127.0.0.1", 0, lambda: "some_gauge 1\n").start()
    try:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n" + headers + b"\r\n")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert (b"some_gauge" in answer) == (status == b"200")
    finally:
        server.stop()
