"""Promise: whatever arrives, the broker stays up, stays small, and keeps serving honest clients."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from ottla.security.certificates import make_authority
from ottla.testing.ports import ReservedPorts
from tests.broker.network.hostile import frames
from tests.broker_process import BrokerProcess

MEGABYTE = 1024 * 1024


def ask_versions(sock: socket.socket, correlation_id: int = 7) -> ApiVersionsResponse:
    body = ApiVersionsRequest().encode(0)
    frame = struct.pack(">hhih", 18, 0, correlation_id, 2) + b"ok" + body
    sock.sendall(struct.pack(">i", len(frame)) + frame)
    size = struct.unpack(">i", receive(sock, 4))[0]
    answer = receive(sock, size)
    assert struct.unpack_from(">i", answer)[0] == correlation_id
    return ApiVersionsResponse.decode(answer, 0, 4)


def receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed")
        data += piece
    return data


class GoodClient:
    """Produces continuously in its own thread; the broker must acknowledge every record."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 1})
        self.errors: list[str] = []
        self.acknowledged = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged += 1

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.produce("good", value="x" * 100, on_delivery=self._delivered)
            self._producer.poll(0.005)

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(30) == 0


def attack(port: int, seed: int, count: int, context: ssl.SSLContext | None = None) -> int:
    """Send the frames, reconnect whenever the broker hangs up, and return the number of frames sent."""
    sent = 0
    sock: socket.socket | None = None
    for frame in frames(seed, count):
        if sock is None:
            sock = socket.create_connection(("127.0.0.1", port), timeout=30)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname="127.0.0.1")
        try:
            sock.sendall(frame)
            if select.select([sock], [], [], 0)[0] and not sock.recv(MEGABYTE):
                raise ConnectionError
        except OSError:
            sock.close()
            sock = None
        sent += 1
        if sent % 50 == 0 and sock is not None:
            # A frame with an excessive length would swallow the following frames, so reconnect now and then.
            sock.close()
            sock = None
    if sock is not None:
        sock.close()
    return sent


def survive(directory: Path, count: int, *, inside_tls: bool = False) -> None:
    attacked = BrokerProcess(directory, ["--set", "auto.create.topics.enable=true"])
    port, context = attacked.port, None
    if inside_tls:
        reserved = ReservedPorts(1)
        [port] = reserved.numbers
        listeners = f"PLAINTEXT://127.0.0.1:{attacked.port},SSL://127.0.0.1:{port}"
        authority = make_authority()
        issued = authority.issue("broker", ["127.0.0.1"])
        key_store = directory.with_suffix(".pem")
        key_store.write_bytes(issued.key_pem + issued.certificate_pem)
        attacked._options += [
            "--set",
            f"listeners={listeners}",
            "--set",
            f"ssl.keystore.location={key_store}",
        ]
        context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    with attacked as broker:
        good = GoodClient(broker.bootstrap_servers)
        before = None
        try:
            sent = 0
            for seed in range(10):
                sent += attack(port, seed, count // 10, context)
                before = before or broker.resident_bytes()
                assert broker.is_running
        finally:
            good.finish()
        assert sent == count // 10 * 10
        assert not good.errors
        assert good.acknowledged > 0
        assert broker.resident_bytes() < before + 150 * MEGABYTE
        with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as sock:
            assert ask_versions(sock).error_code == 0


def test_hostile_frames_hurt_nobody(tmp_path: Path) -> None:
    survive(tmp_path, 3000)


def test_hostile_frames_inside_tls_hurt_nobody(tmp_path: Path) -> None:
    survive(tmp_path, 1000, inside_tls=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_hostile_frames_hurt_nobody(tmp_path: Path) -> None:
    survive(tmp_path, 100_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_hostile_frames_inside_tls_hurt_nobody(tmp_path: Path) -> None:
    survive(tmp_path, 100_000, inside_tls=True)


def test_a_frame_over_the_limit_closes_that_connection_only(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, ["--set", "socket.request.max.bytes=100000"]) as broker:
        address = ("127.0.0.1", broker.port)
        with (
            socket.create_connection(address, timeout=10) as good,
            socket.create_connection(address, timeout=10) as bad,
        ):
            ask_versions(good)
            bad.sendall(struct.pack(">i", 100_001))
            assert bad.recv(1) == b""
            assert ask_versions(good).error_code == 0


def test_many_claims_of_large_frames_cost_no_memory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, contextlib.ExitStack() as stack:
        before = broker.resident_bytes()
        for _ in range(200):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=10))
            sock.sendall(struct.pack(">i", 100_000_000) + b"x" * 100)
        with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as sock:
            ask_versions(sock)
        deadline = time.monotonic() + 60
        while broker.resident_bytes() > before + 100 * MEGABYTE:
            assert time.monotonic() < deadline, "memory grows with what clients claim"
            time.sleep(0.05)
