"""Foreign web pages cannot use a server through a visitor's browser."""

from __future__ import annotations

import httpx
import pytest

from ottla.http import Access, HttpError, Request, Response, Router
from ottla.http.authentication import BasicAuthentication, User
from ottla.http.cross_site import CrossSite
from ottla.http.messages import Body
from ottla.http.router import UNTYPED
from tests.http.conftest import sample_router
from tests.http.serving import Served, serving

FOREIGN = "https://evil.example"


def _request(host: str = "localhost:8081", method: str = "GET", **headers: str) -> Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, "/subjects", {"host": host, **named}, Body())


def _status(check: CrossSite, request: Request) -> int:
    try:
        check.check(request)
    except HttpError as refusal:
        return refusal.status
    return 200


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8081",
        "LOCALHOST:8081",
        "127.0.0.1:8081",
        "[::1]:8081",
        "a.localhost",
        "10.0.0.7",
    ],
)
def test_a_local_server_answers_under_local_names_and_addresses(host: str) -> None:
    assert _status(CrossSite("127.0.0.1"), _request(host)) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8081", "localhost.evil.example", "127.0.0.1.evil.example", "registry",
     "evil.example@localhost", "localhost/evil.example", "[::1", "localhost:port", "evil.internal"],
)  # fmt: skip
def test_a_local_server_answers_under_no_other_name(host: str) -> None:
    assert _status(CrossSite("127.0.0.1"), _request(host)) == 421


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("schema-registry:8081", 200),  # a Docker Compose service
        ("registry.team.svc.cluster.local:8081", 200),
        ("registry.internal", 200),
        ("192.168.1.7:8081", 200),
        ("schemas.acme.com", 200),
        ("evil.example:8081", 421),
        ("registry.evil.example", 421),
    ],
)
def test_a_server_on_the_network_knows_names_that_no_foreign_page_can_have(host: str, status: int) -> None:
    assert _status(CrossSite("0.0.0.0", names=["schemas.acme.com"]), _request(host)) == status


def test_the_operator_can_allow_every_name() -> None:
    assert _status(CrossSite("127.0.0.1", names=["*"]), _request("evil.example")) == 200


def test_the_refusal_names_the_setting() -> None:
    with pytest.raises(HttpError, match=r"add it to allowed\.hosts"):
        CrossSite("127.0.0.1").check(_request("evil.example"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost:8081"}, 200),
        ({"origin": "HTTP://LOCALHOST:8081"}, 200),
        ({"origin": "http://localhost:3000"}, 403),  # another program on this machine
        ({"origin": FOREIGN}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://pages.acme.com"}, 200),
        ({"sec_fetch_site": "cross-site", "origin": "https://pages.acme.com"}, 200),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 200),  # a link
        ({"sec_fetch_site": "none", "sec_fetch_mode": "navigate"}, 200),
        # Behind a proxy that rewrites Host, the browser still identifies its own page.
        ({"sec_fetch_site": "same-origin", "origin": "https://console.acme.com"}, 200),
    ],
)
def test_where_a_page_comes_from_decides(headers: dict[str, str], status: int) -> None:
    check = CrossSite("127.0.0.1", origins=["https://*.acme.com"])
    assert _status(check, _request(**headers)) == status


def test_a_form_of_a_foreign_page_is_no_link() -> None:
    request = _request(method="POST", sec_fetch_site="cross-site", sec_fetch_mode="navigate")
    assert _status(CrossSite("127.0.0.1"), request) == 403


def test_a_foreign_host_and_a_foreign_page_are_refused_on_the_wire(served: Served) -> None:
    assert httpx.get(f"{served.url}/quick", headers={"Host": "evil.example"}).status_code == 421
    assert httpx.get(f"{served.url}/quick", headers={"Origin": FOREIGN}).status_code == 403
    with httpx.Client(http1=False, http2=True) as client:
        assert client.get(f"{served.url}/quick", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    ("header", "status"),
    [(b"Host: evil.example\r\n", b"421"), (b"Host: localhost\r\nOrigin: null\r\n", b"403")],
)
def test_a_foreign_page_opens_no_websocket(served: Served, header: bytes, status: bytes) -> None:
    answer = served.exchange(
        b"GET /talk HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + header + b"\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 " + status)


def test_where_everybody_logs_in_any_name_will_do_but_no_foreign_page() -> None:
    login = BasicAuthentication({"ann": User("secret")})
    with serving(sample_router(), authenticate=login) as served:
        asked = {"Host": "registry.acme.com"}
        assert httpx.get(f"{served.url}/quick", headers=asked).status_code == 401
        assert httpx.get(f"{served.url}/quick", headers=asked, auth=("ann", "secret")).status_code == 200
        # A browser stores a password and sends it with requests from foreign pages.
        foreign = httpx.get(f"{served.url}/quick", headers={"Origin": FOREIGN}, auth=("ann", "secret"))
        assert foreign.status_code == 403


async def _empty(request: Request) -> Response:
    return Response(204)


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [
        ("/json", "application/json", 204),
        ("/json", "application/json; charset=utf-8", 204),
        ("/json", "text/plain", 415),
        ("/json", "application/x-www-form-urlencoded", 415),
        ("/json", None, 415),
        ("/untyped", None, 204),
        ("/untyped", "text/plain", 415),
    ],
)
def test_a_body_needs_a_type_that_the_route_knows(path: str, kind: str | None, status: int) -> None:
    router = Router()
    router.add("POST", "/json", _empty, access=Access.ANYONE)
    router.add("POST", "/untyped", _empty, access=Access.ANYONE, consumes=("application/json", UNTYPED))
    with serving(router) as served:
        headers = {} if kind is None else {"Content-Type": kind}
        answer = httpx.post(f"{served.url}{path}", content=b"{}", headers=headers)
        assert answer.status_code == status
        if status == 415:
            assert "Send the header Content-Type: application/json." in answer.json()["message"]
        assert httpx.post(f"{served.url}/json").status_code == 204  # an empty body needs no content type
