"""Promises of the HTTP/1.1 server to good and bad clients."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import time

import httpx
import pytest

from ottla.http import Access, Limits
from tests.http.conftest import sample_router
from tests.http.serving import Served, read_all, read_until, serving

HOST = b"Host: localhost\r\n"


def test_a_path_is_matched_before_it_is_decoded(served: Served) -> None:
    shown = httpx.get(f"{served.url}/show/a%2Fb%20c%2Bd+e%C3%A9/versions/1?x=1&x=2&y=a+b%20c&z").json()
    assert shown["params"] == {"subject": "a/b c+d+eé", "version": "1"}
    assert shown["query"] == {"x": "2", "y": "a b c", "z": ""}


def test_a_spelled_part_goes_before_a_parameter(served: Served) -> None:
    assert httpx.get(f"{served.url}/show/latest/versions/1").json() == "quick"
    assert httpx.get(f"{served.url}/quick/").json() == "quick"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/none", {}, 404),
        ("GET", "/show/a/versions", {}, 404),
        ("GET", "/show//versions/1", {}, 404),
        ("GET", "/show/%ff/versions/1", {}, 400),
        ("PUT", "/quick", {}, 405),
        ("GET", "/quick", {"Accept": "text/html"}, 406),
        ("GET", "/quick", {"Accept": "application/json;q=0"}, 406),
        ("POST", "/json", {"Content-Type": "text/plain"}, 415),
        ("GET", "/refuses", {}, 422),
        ("GET", "/fails", {}, 500),
    ],
)
def test_what_no_handler_answers_has_one_kind_of_body(
    served: Served, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    content = b"{}" if method == "POST" else None
    answer = httpx.request(method, served.url + path, headers=headers, content=content)
    assert answer.status_code == status
    assert answer.json()["error_code"] == (42201 if status == 422 else status)
    if status == 405:
        assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_the_client_chooses_among_what_a_route_produces(served: Served) -> None:
    def produced(accept: str) -> str:
        return httpx.get(f"{served.url}/show", headers={"Accept": accept}).headers["Content-Type"]

    assert produced("*/*") == "application/vnd.test.v1+json"
    assert produced("application/json") == "application/json"
    assert produced("application/vnd.test.v1+json;q=0.5, application/json") == "application/json"
    assert produced("text/html, application/*;q=0.1") == "application/vnd.test.v1+json"


def test_a_failure_is_one_plain_line_in_the_log(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ottla.http"):
        assert httpx.get(f"{served.url}/fails").json()["message"] == "Internal Server Error"
    messages = [record.getMessage() for record in caplog.records if record.name == "ottla.http"]
    assert len(messages) == 1
    assert messages[0].startswith("GET /fails from 127.0.0.1:")
    assert messages[0].endswith("failed: RuntimeError: a bug with a line break")


def test_a_connection_is_used_again(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    connection.connect()
    own = connection.sock.getsockname()
    for _ in range(3):
        connection.request("POST", "/echo", body=b"x" * 1000)
        assert connection.getresponse().read() == b"x" * 1000
        connection.request("POST", "/none", body=b"x" * 1000)
        assert connection.getresponse().read()
        assert connection.sock.getsockname() == own
    connection.close()


def test_requests_that_are_sent_ahead_are_answered_in_order(served: Served) -> None:
    one = b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\n%02d"
    sent = b"".join(one % number for number in range(100))
    with served.connect() as connection:
        connection.sendall(sent + b"GET /lines HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        answers = read_all(connection)
    bodies = [part.split(b"\r\n\r\n")[1] for part in answers.split(b"HTTP/1.1 200 OK")[1:]]
    assert bodies[:100] == [b"%02d" % number for number in range(100)]
    assert answers.endswith(b"7\r\nline 2\n\r\n0\r\n\r\n")


def test_head_has_the_headers_and_no_body(served: Served) -> None:
    answer = served.exchange(b"HEAD /quick HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    assert b"Content-Length: 7\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")
    streamed = served.exchange(b"HEAD /lines HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    assert streamed.endswith(b"\r\n\r\n")


def test_options_names_the_methods(served: Served) -> None:
    answer = httpx.options(f"{served.url}/show")
    assert answer.status_code == 200
    assert answer.headers["Allow"] == "DELETE, GET, HEAD, OPTIONS"
    assert httpx.options(f"{served.url}/none").status_code == 404


def test_no_content_has_no_length(served: Served) -> None:
    answer = httpx.delete(f"{served.url}/show")
    assert answer.status_code == 204
    assert "Content-Length" not in answer.headers
    assert "Content-Type" not in answer.headers


def test_a_stream_is_chunked_for_1_1_and_ends_the_connection_for_1_0(served: Served) -> None:
    assert httpx.get(f"{served.url}/lines?count=1000").text == "".join(f"line {n}\n" for n in range(1000))
    answer = served.exchange(b"GET /lines HTTP/1.0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\nline 0\nline 1\nline 2\n")
    assert b"chunked" not in answer


def test_a_stream_that_fails_is_cut_and_not_ended(served: Served) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{served.url}/breaks")


def test_a_chunked_body_with_trailers_is_read(served: Served) -> None:
    chunks = b"3\r\nabc\r\n5;extension=1\r\ndefgh\r\n0\r\nX-Trailer: ignored\r\nHost: elsewhere\r\n\r\n"
    answer = served.exchange(
        b"POST /echo HTTP/1.1\r\n"
        + HOST
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + chunks
        + b"GET /quick HTTP/1.1\r\n"
        + HOST
        + b"Connection: close\r\n\r\n"
    )
    assert b"\r\n\r\nabcdefghHTTP/1.1 200 OK\r\n" in answer
    assert answer.endswith(b'"quick"')


def test_a_client_that_asks_before_it_sends_is_told(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(
            b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"body")
        assert read_until(connection, lambda got: got.endswith(b"body"))
    # Clients need not send a body that the server would refuse.
    refused = served.exchange(
        b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 9999999\r\nExpect: 100-continue\r\n\r\n"
    )
    assert refused.startswith(b"HTTP/1.1 413 ")
    assert b"Connection: close" in refused


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_that_is_too_large_is_refused_and_the_client_reads_why(served: Served, declared: bool) -> None:
    content = b"x" * 3_000_000
    answer = httpx.post(f"{served.url}/echo", content=content if declared else iter([content]))
    assert answer.status_code == 413
    assert answer.json() == {"error_code": 413, "message": "The request is larger than 1000000 bytes."}


def test_a_streamed_body_may_be_larger_than_memory_should_hold(served: Served) -> None:
    assert httpx.post(f"{served.url}/digest", content=b"x" * 5_000_000).json()["size"] == 5_000_000


def test_an_answer_before_the_body_was_read_arrives(served: Served) -> None:
    assert httpx.post(f"{served.url}/unread", content=b"x" * 50_000).json() == "not read"
    assert httpx.post(f"{served.url}/unread", content=iter([b"x" * 500_000])).json() == "not read"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),  # a TLS client
        (b"GET /quick HTTP/1.1\r\n\r\n", b"400"),  # no Host
        (b"GET /quick HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n", b"400"),
        (b"GET /quick HTTP/1.1\r\nHost : a\r\n\r\n", b"400"),
        (b"GET /quick HTTP/1.1\r\nHost: localhost\r\nX: 1\r\n folded\r\n\r\n", b"400"),
        (b"GET /quick HTTP/1.1\nHost: localhost\n\n", b"400"),
        (b"GET /quick HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n", b"400"),
        (b"GET /quick HTTP/3.0\r\nHost: localhost\r\n\r\n", b"400"),
        (b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"400"),
        (
            b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            b"400",
        ),
        (b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 1\r\n\r\na", b"400"),
        (
            b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
            b"400",
        ),
        (
            b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            b"501",
        ),
        (b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (
            b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
            b"400",
        ),
        (b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\nContent-Length: 1\r\n\r\na", b"417"),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"414"),
        (b"GET /quick HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", b"431"),
        (b"GET /quick HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 300 + b"\r\n", b"431"),
        (b"GET /quick HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000, b"431"),
    ],
)
def test_what_is_malformed_is_refused_and_the_connection_ends(
    served: Served, request_bytes: bytes, status: bytes
) -> None:
    answer = served.exchange(request_bytes)
    assert answer.startswith(b"HTTP/1.1 " + status), answer
    assert b"Connection: close" in answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["message"]


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: identity\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_a_request_cannot_hide_in_the_body_of_another(served: Served, headers: bytes) -> None:
    smuggled = b"0\r\n\r\nGET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = served.exchange(b"POST /echo HTTP/1.1\r\n" + HOST + headers + b"\r\n" + smuggled)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501"))
    assert b"quick" not in answer


def test_what_came_before_a_malformed_request_is_answered(served: Served) -> None:
    answer = served.exchange(b"GET /lines HTTP/1.1\r\n" + HOST + b"\r\nnonsense\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"line 2\n\r\n0\r\n\r\nHTTP/1.1 400 " in answer


def test_a_value_cannot_begin_a_header_of_its_own(served: Served) -> None:
    answer = served.exchange(
        b"GET /splits?value=a%0d%0aSet-Cookie:%20x HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    )
    assert b"Set-Cookie" not in answer


def test_an_absolute_target_is_taken_by_its_path(served: Served) -> None:
    request = b"GET http://elsewhere/quick HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    assert served.exchange(request).endswith(b'"quick"')


def test_a_request_in_single_bytes_is_understood(served: Served) -> None:
    with served.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"POST /echo HTTP/1.1\r\n" + HOST + b"Connection: close\r\nContent-Length: 2\r\n\r\nab":
            connection.sendall(bytes([byte]))
        assert read_all(connection).endswith(b"\r\n\r\nab")


def test_a_client_that_has_said_all_still_gets_its_answer(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\nab")
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection).endswith(b"ab")


def test_slow_clients_are_cut() -> None:
    limits = Limits(header_seconds=0.3, keep_alive_seconds=0.3, body_seconds=0.3)
    with serving(sample_router(), limits=limits) as served:
        silent, headers, idle, body = (served.connect() for _ in range(4))
        headers.sendall(b"GET /quick HTT")
        idle.sendall(b"GET /quick HTTP/1.1\r\n" + HOST + b"\r\n")
        body.sendall(b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\nabc")
        assert read_all(silent) == b""
        assert read_all(headers).startswith(b"HTTP/1.1 408 ")
        assert read_all(idle).endswith(b'"quick"')
        assert read_all(body).startswith(b"HTTP/1.1 408 ")
        for connection in (silent, headers, idle, body):
            connection.close()


def test_a_client_that_does_not_read_is_cut_and_its_stream_ends() -> None:
    router = sample_router()
    closed: list[bool] = []

    async def endless(request):  # type: ignore[no-untyped-def]
        from ottla.http import Response

        async def made():  # type: ignore[no-untyped-def]
            while True:
                yield b"x" * 65536

        return Response(200, made(), "text/plain", on_close=lambda: closed.append(True))

    router.add("GET", "/endless", endless, access=Access.ANYONE)
    with serving(router, limits=Limits(write_seconds=0.5)) as served, served.connect() as connection:
        connection.sendall(b"GET /endless HTTP/1.1\r\n" + HOST + b"\r\n")
        _wait(lambda: bool(closed))


def test_a_client_that_goes_ends_its_stream_even_if_nothing_is_sent() -> None:
    import asyncio

    from ottla.http import Response

    router = sample_router()
    ended: list[str] = []

    async def quiet(request):  # type: ignore[no-untyped-def]
        async def made():  # type: ignore[no-untyped-def]
            try:
                yield b"begun"
                await asyncio.sleep(600)
            finally:
                ended.append("iterator")

        return Response(200, made(), "text/plain", on_close=lambda: ended.append("response"))

    router.add("GET", "/quiet", quiet, access=Access.ANYONE)
    with serving(router) as served:
        connection = served.connect()
        connection.sendall(b"GET /quiet HTTP/1.1\r\n" + HOST + b"\r\n")
        read_until(connection, lambda got: b"begun" in got)
        connection.close()
        _wait(lambda: ended == ["iterator", "response"])


def test_more_connections_than_allowed_are_turned_away() -> None:
    with serving(sample_router(), limits=Limits(max_connections=2)) as served:
        first, second = served.connect(), served.connect()
        for connection in (first, second):
            connection.sendall(b"GET /quick HTTP/1.1\r\n" + HOST + b"\r\n")
            read_until(connection, lambda got: got.endswith(b'"quick"'))
        with served.connect() as third:
            assert read_all(third).startswith(b"HTTP/1.1 503 ")
        first.close()
        second.close()
        _wait(lambda: served.server.connections == 0)
        assert httpx.get(f"{served.url}/quick").json() == "quick"


def test_stopping_lets_requests_finish_and_takes_no_new_ones() -> None:
    import asyncio

    from ottla.http import Response

    router = sample_router()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def waits(request):  # type: ignore[no-untyped-def]
        begun.set()
        await go_on.wait()
        return Response(200, b'"finished"')

    router.add("GET", "/waits", waits, access=Access.ANYONE)
    with serving(router) as served:
        idle, busy = served.connect(), served.connect()
        idle.sendall(b"GET /quick HTTP/1.1\r\n" + HOST + b"\r\n")
        read_until(idle, lambda got: got.endswith(b'"quick"'))
        busy.sendall(b"GET /waits HTTP/1.1\r\n" + HOST + b"\r\n")
        served.run(begun.wait())
        stopping = asyncio.run_coroutine_threadsafe(served.server.stop(20), served.loop)
        assert read_all(idle) == b""
        with pytest.raises(OSError, match="refused"):
            served.connect()
        assert not stopping.done()
        served.loop.call_soon_threadsafe(go_on.set)
        answer = read_all(busy)
        assert answer.endswith(b'"finished"')
        assert b"Connection: close" in answer
        stopping.result(20)
        idle.close()
        busy.close()


def _wait(condition):  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "It did not happen."
        time.sleep(0.01)
