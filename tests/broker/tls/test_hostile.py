"""Promise: hostile input instead of a TLS handshake, or after one, costs the broker next to nothing."""

from __future__ import annotations

import logging
import os
import random
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator

import pytest

from ottla.client.cluster import Cluster
from ottla.client.settings import Settings
from tests.broker.tls.tls_broker import TlsBroker

pytestmark = pytest.mark.timeout(180)

IDLE_MS = 1500


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    made = TlsBroker(
        tmp_path_factory.mktemp("tls"),
        **{"connections.max.idle.ms": str(IDLE_MS), "connection.failed.authentication.delay.ms": "50"},
    )
    with made.broker:
        yield made


def is_served(tls: TlsBroker) -> None:
    connection = Cluster(Settings.from_properties(tls.client("SSL"))).any_connection()
    assert connection.versions
    connection.close()


def open_connections(tls: TlsBroker, listener: str = "SSL") -> tuple[int, int]:
    """Return the connections that count against the limits, and the connections in a handshake."""

    async def count() -> tuple[int, int]:
        [found] = [each for each in tls.broker._running()._listeners if each.name == listener]
        return found._limits._by_listener[listener], len(found._handshakes)

    counted: tuple[int, int] = tls.run(count())
    return counted


def until_nobody_is_connected(tls: TlsBroker) -> None:
    deadline = time.monotonic() + 60
    while open_connections(tls) != (0, 0):
        assert time.monotonic() < deadline, open_connections(tls)
        time.sleep(0.05)


def ended(raw: socket.socket) -> bool:
    """Return True if the broker closes the connection, possibly after an alert."""
    raw.settimeout(60)
    try:
        while raw.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (struct.pack(">ihhih", 10, 18, 0, 1, -1), "does not speak TLS"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "does not speak TLS"),
        (b"\x16\x03\x01\x00\x05hello", ""),
        (b"\x15\x03\x03\x00\x02\x02\x28", ""),
    ],
)
def test_what_is_no_handshake_ends_the_connection_with_one_line_in_the_log(
    tls: TlsBroker, sent: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="ottla.broker.network.listener"):
        with socket.create_connection(("localhost", tls.ports["SSL"])) as raw:
            raw.sendall(sent)
            assert ended(raw)
        until_nobody_is_connected(tls)
    lines = [each.getMessage() for each in caplog.records if "handshake failed" in each.getMessage()]
    assert len(lines) == 1
    assert "127.0.0.1 on listener SSL" in lines[0]
    assert said in lines[0]
    is_served(tls)


def test_whoever_only_looks_whether_the_port_is_open_is_no_event(
    tls: TlsBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="ottla.broker.network.listener"):
        for _ in range(3):
            socket.create_connection(("localhost", tls.ports["SSL"])).close()
        until_nobody_is_connected(tls)
        is_served(tls)
    assert caplog.text == ""


def test_random_bytes_of_all_kinds(tls: TlsBroker) -> None:
    chance = random.Random(7)
    for _ in range(200):
        data = os.urandom(chance.randrange(1, 600))
        if chance.random() < 0.5:  # input with a valid beginning
            data = b"\x16\x03" + bytes([chance.randrange(5)]) + struct.pack(">H", len(data)) + data
        with socket.create_connection(("localhost", tls.ports["SSL"])) as raw:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            assert ended(raw)
    until_nobody_is_connected(tls)
    is_served(tls)


def test_who_never_finishes_a_handshake_is_closed(tls: TlsBroker) -> None:
    """Slow-loris: one byte now and then. Other clients connect in the meantime."""
    hello = client_hello()
    waiting = []
    for at in range(20):
        raw = socket.create_connection(("localhost", tls.ports["SSL"]))
        raw.sendall(hello[: at * 5])
        waiting.append(raw)
    assert open_connections(tls)[1] > 0
    is_served(tls)
    for raw in waiting:
        assert ended(raw)
        raw.close()
    until_nobody_is_connected(tls)


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(
            ssl.MemoryBIO(), outgoing, server_hostname="localhost"
        ).do_handshake()
    return outgoing.read()


def test_handshakes_count_against_the_limit_of_connections(tmp_path_factory: pytest.TempPathFactory) -> None:
    limited = TlsBroker(tmp_path_factory.mktemp("tls"), **{"max.connections.per.ip": "3"})
    with limited.broker:
        silent = [socket.create_connection(("localhost", limited.ports["SSL"])) for _ in range(3)]
        wait_for(lambda: open_connections(limited) == (3, 3))
        with socket.create_connection(("localhost", limited.ports["SSL"])) as one_more:
            assert ended(one_more)
        for raw in silent:
            raw.close()
        until_nobody_is_connected(limited)
        is_served(limited)


def wait_for(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_hostile_frames_inside_tls(tls: TlsBroker) -> None:
    chance = random.Random(11)
    context = tls.context()
    for _ in range(60):
        with (
            socket.create_connection(("localhost", tls.ports["SSL"])) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as wrapped,
        ):
            data = os.urandom(chance.randrange(4, 400))
            wrapped.sendall(struct.pack(">i", chance.choice([len(data), -1, 2**31 - 1, 5])) + data)
    is_served(tls)
    until_nobody_is_connected(tls)


def test_a_client_that_speaks_tls_to_a_plaintext_listener_is_named(
    tls: TlsBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, logger="ottla.broker.network.connection"),
        socket.create_connection(("localhost", tls.ports["PLAINTEXT"])) as raw,
    ):
        raw.sendall(client_hello())
        assert ended(raw)
    assert "the client speaks TLS, and listener PLAINTEXT does not" in caplog.text


def test_a_request_may_come_in_records_of_one_byte(tls: TlsBroker) -> None:
    context = tls.context()
    with (
        socket.create_connection(("localhost", tls.ports["SSL"])) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as wrapped,
    ):
        for byte in struct.pack(">ihhih", 10, 18, 0, 1, -1):
            wrapped.sendall(bytes([byte]))
        [size] = struct.unpack(">i", wrapped.recv(4))
        assert size > 0
    until_nobody_is_connected(tls)


def test_a_client_may_change_its_keys_at_any_time(tls: TlsBroker) -> None:
    """A TLS 1.3 key update: the broker has to answer in the middle of receiving."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")
    command = [program, "s_client", "-connect", f"localhost:{tls.ports['SSL']}", "-CAfile", tls.ca_file]
    frame = struct.pack(">ihhih", 10, 18, 0, 1, -1)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        said = b""
        for sent, expected in (
            (b"K\n", b"KEYUPDATE"),
            (frame, b"\0\0\0\x01\0\0"),
            (b"K\n", b"KEYUPDATE"),
            (frame, b"\0\0\0\x01\0\0"),
        ):
            client.stdin.write(sent)
            client.stdin.flush()
            seen = len(said)
            while expected not in said[seen:]:
                chunk = os.read(client.stdout.fileno(), 65536)
                assert chunk, said
                said += chunk
        client.kill()
    until_nobody_is_connected(tls)
