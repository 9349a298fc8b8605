"""HTTP/2 by prior knowledge, by upgrade and over TLS, and hostile clients."""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import httpx
import pytest

from ottla.http import Access, Limits, Response
from tests.http.conftest import sample_router
from tests.http.serving import Served, read_all, read_until, serving


class Client:
    """A client that sends arbitrary frames."""

    def __init__(self, served: Served) -> None:
        self.socket = served.connect()
        self.wire = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.wire.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.wire.data_to_send())

    def ask(self, path: str, method: str = "GET", *, end: bool = True) -> int:
        number = int(self.wire.get_next_available_stream_id())
        headers = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "localhost")]
        self.wire.send_headers(number, headers, end_stream=end)
        self.flush()
        return number

    def events(self) -> list[Any]:
        data = self.socket.recv(65536)
        if not data:
            return [h2.events.ConnectionTerminated()]
        found = self.wire.receive_data(data)
        self.flush()
        return list(found)

    def until(self, kind: type[Any], read: Callable[[Any], None] = lambda event: None) -> Any:
        while True:
            for event in self.events():
                read(event)
                if isinstance(event, kind):
                    return event

    def close(self) -> None:
        self.socket.close()


def test_by_prior_knowledge(served: Served) -> None:
    with httpx.Client(http1=False, http2=True) as client:
        answer = client.get(f"{served.url}/show/a%2Fb/versions/2?x=%20")
        assert answer.http_version == "HTTP/2"
        assert answer.json()["params"] == {"subject": "a/b", "version": "2"}
        assert client.get(f"{served.url}/none").status_code == 404
        assert client.get(f"{served.url}/lines?count=500").text.endswith("line 499\n")
        assert client.head(f"{served.url}/quick").headers["content-length"] == "7"
        assert client.post(f"{served.url}/echo", content=b"x" * 900_000).content == b"x" * 900_000
        assert client.post(f"{served.url}/echo", content=b"x" * 2_000_000).status_code == 413
        big = b"y" * 10_000_000
        digest = client.post(f"{served.url}/digest", content=big).json()
        assert digest == {"sha256": hashlib.sha256(big).hexdigest(), "size": len(big)}
        with pytest.raises(httpx.RemoteProtocolError):
            client.get(f"{served.url}/breaks")
        assert client.get(f"{served.url}/quick").json() == "quick"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("option", ["--http2", "--http2-prior-knowledge", "--http1.1"])
def test_curl_speaks_it_in_every_way(served: Served, option: str) -> None:
    if option != "--http1.1" and "HTTP2" not in subprocess.check_output(["curl", "--version"], text=True):
        pytest.skip("this curl has no HTTP/2")
    printed = subprocess.run(
        ["curl", "-sS", option, "-w", " %{http_version}", f"{served.url}/lines"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert printed.stdout == f"line 0\nline 1\nline 2\n {'1.1' if option == '--http1.1' else '2'}"


def test_an_upgrade_with_a_body_stays_with_1_1(served: Served) -> None:
    headers = {
        "Connection": "Upgrade, HTTP2-Settings",
        "Upgrade": "h2c",
        "HTTP2-Settings": "AAMAAABkAAQAAP__",
    }
    with httpx.Client() as client:
        for _ in range(2):
            answer = client.post(f"{served.url}/echo", content=b"abc", headers=headers)
            assert (answer.http_version, answer.content) == ("HTTP/1.1", b"abc")


def test_an_upgrade_with_nonsense_is_refused(served: Served) -> None:
    answer = served.exchange(
        b"GET /quick HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: !\r\n\r\n"
    )
    assert b"HTTP/1.1 400 " in answer


def test_a_preface_in_single_bytes_is_understood(served: Served) -> None:
    wire = h2.connection.H2Connection()
    wire.initiate_connection()
    with served.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in wire.data_to_send():
            connection.sendall(bytes([byte]))
        assert any(
            isinstance(e, h2.events.RemoteSettingsChanged) for e in wire.receive_data(connection.recv(999))
        )


def test_a_preface_that_is_none_after_all_is_malformed(served: Served) -> None:
    assert served.exchange(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n").startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize("frame", [b"\xff" * 100, b"\0\0\4\0\0\0\0\0\0data", b"\0\0\0\1\5\0\0\0\2"])
def test_frames_that_are_none_end_the_connection(served: Served, frame: bytes) -> None:
    settings = b"\0\0\0\4\0\0\0\0\0"
    with served.connect() as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + frame)
        assert b"\x07" in read_all(connection)  # GOAWAY
    assert httpx.get(f"{served.url}/quick").json() == "quick"


def test_a_client_that_takes_little_gets_all_in_the_end(served: Served) -> None:
    """The window is five bytes, so the server waits for each update."""
    client = Client(served)
    client.wire.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 5})
    client.flush()
    client.until(h2.events.SettingsAcknowledged)
    received = bytearray()

    def read(event: Any) -> None:
        if isinstance(event, h2.events.DataReceived):
            received.extend(event.data)
            client.wire.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            with suppress(h2.exceptions.StreamClosedError):
                client.wire.increment_flow_control_window(5, event.stream_id)
            client.flush()

    client.ask("/lines?count=20")
    client.until(h2.events.StreamEnded, read)
    assert received.decode() == "".join(f"line {number}\n" for number in range(20))
    client.close()


def test_a_stream_that_is_taken_back_ends_its_iterator_and_no_other() -> None:
    import asyncio

    ended: list[bool] = []
    router = sample_router()

    async def quiet(request):  # type: ignore[no-untyped-def]
        async def made():  # type: ignore[no-untyped-def]
            yield b"begun"
            await asyncio.sleep(600)

        return Response(200, made(), "text/plain", on_close=lambda: ended.append(True))

    router.add("GET", "/quiet", quiet, access=Access.ANYONE)
    with serving(router) as served:
        client = Client(served)
        first, _ = client.ask("/quiet"), client.ask("/quiet")
        seen: list[Any] = []
        while sum(isinstance(event, h2.events.DataReceived) for event in seen) < 2:
            seen += client.events()
        client.wire.reset_stream(first)
        client.flush()
        deadline = time.monotonic() + 20
        while not ended:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(ended) == 1
        number = client.ask("/quick")
        assert client.until(h2.events.StreamEnded).stream_id == number
        client.close()
        while len(ended) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_streams_that_are_opened_and_taken_back_at_once_end_the_connection(served: Served) -> None:
    client = Client(served)
    try:
        for _ in range(3000):
            client.wire.reset_stream(client.ask("/lines?count=1000"))
            client.flush()
        client.until(h2.events.ConnectionTerminated)
    except (ConnectionError, h2.exceptions.ProtocolError):
        pass
    finally:
        client.close()
    assert httpx.get(f"{served.url}/quick").json() == "quick"


def test_a_stream_that_is_not_read_is_reset() -> None:
    with serving(sample_router(), limits=Limits(write_seconds=0.3)) as served:
        client = Client(served)
        client.ask("/lines?count=100000")
        assert client.until(h2.events.StreamReset)
        client.close()


def test_stopping_says_goodbye() -> None:
    with serving(sample_router()) as served:
        client = Client(served)
        number = client.ask("/echo", "POST", end=False)
        client.until(h2.events.RemoteSettingsChanged)
        import asyncio

        stopping = asyncio.run_coroutine_threadsafe(served.server.stop(20), served.loop)
        said: list[Any] = []
        try:
            client.until(h2.events.ConnectionTerminated, said.append)
        finally:
            client.socket.close()
        stopping.result(20)
        assert number == 1


def test_the_upgrade_itself(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(
            b"GET /quick HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
            b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        )
        switched = read_until(connection, lambda got: b"\r\n\r\n" in got)
        assert switched.startswith(b"HTTP/1.1 101 ")
