"""Every route of every HTTP server, requested by every kind of caller.

Each route declares its required level (`Access`) and accepted bodies (`consumes`). The expected responses follow from
the two, so a new route automatically joins the matrix. The servers really run, and logins go to a real broker. Only
Spark is missing, because no statement gets that far.
"""

from __future__ import annotations

import base64
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.engine import Engine
from ottla.connect.runtime.spark.host import ThreadHost
from ottla.connect.worker.server import ConnectServer
from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http import Access, Router
from ottla.http.background import InBackground
from ottla.http.router import UNTYPED, Route
from ottla.registry.server import RegistryServer
from ottla.registry.settings import RegistrySettings
from ottla.rest.server import RestProxy
from ottla.rest.settings import RestSettings
from ottla.sql.server.server import Listener, SqlServer
from ottla.sql.server.settings import read_settings
from ottla.testing import Broker, acl

#: The level of each user.
LEVELS = {"user": Access.USER, "viewer": Access.VIEWER, "operator": Access.OPERATOR, "boss": Access.ADMIN}
PASSWORD = "correct-horse"
FOREIGN_HOST = {"Host": "evil.example"}
FOREIGN_ORIGIN = {"Origin": "https://evil.example"}
STRING = "org.apache.kafka.connect.storage.StringConverter"

#: Nonsense that no handler accepts.
NONSENSE = b"{"
#: The Dispatcher's refusal of a caller whose level is too low.
TOO_LOW = b"needs the rights of"


def login(name: str, password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


@dataclass(frozen=True)
class Running:
    url: str
    router: Router
    is_secured: bool
    #: The levels that this kind of server distinguishes.
    users: Sequence[str]

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> tuple[int, bytes]:
        """Return status and body; only the status for a streaming response."""
        parts = urlsplit(self.url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=20)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            is_short = answer.getheader("Content-Length") is not None
            return answer.status, answer.read() if is_short else b""
        finally:
            connection.close()

    def upgrade(self, path: str, headers: dict[str, str]) -> int:
        parts = urlsplit(self.url)
        given = {
            "Host": parts.netloc,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            **headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as wire:
            wire.sendall(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
            return int(wire.recv(65536).split()[1])


# The servers


@contextmanager
def running(make: Callable[[], Any], is_secured: bool, users: Sequence[str]) -> Iterator[Running]:
    made: list[Any] = []

    def start() -> Any:
        made.append(make())
        return made[0]

    with InBackground(start, "matrix") as server:
        owner = made[0].app if isinstance(made[0], Console) else made[0]
        yield Running(server.url, owner.router, is_secured, users)


def _registry(client: dict[str, str], is_secured: bool, place: Path) -> Any:
    properties = {f"kafkastore.{name}": value for name, value in client.items()}
    properties |= {"listeners": "http://127.0.0.1:0", "kafkastore.topic": f"_schemas-{is_secured}"}
    method = {"authentication.method": "KAFKA" if is_secured else "NONE"}
    return lambda: RegistryServer(RegistrySettings.from_properties({**properties, **method}))


def _rest(client: dict[str, str], is_secured: bool, place: Path) -> Any:
    properties = {f"client.{name}": value for name, value in client.items()}
    properties |= {"bootstrap.servers": client["bootstrap.servers"], "listeners": "http://127.0.0.1:0"}
    method = {"authentication.method": "PROPAGATE" if is_secured else "NONE"}
    return lambda: RestProxy(RestSettings.parse({**properties, **method}))


def _connect(client: dict[str, str], is_secured: bool, place: Path) -> Any:
    properties = {
        **client,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(place / "offsets"),
        "listeners": "http://127.0.0.1:0",
        "authentication.method": "KAFKA" if is_secured else "NONE",
    }
    worker = WorkerConfig.from_properties(properties, distributed=False)
    return lambda: ConnectServer(worker, lambda config: Engine(None, config, host=ThreadHost()))


def _sql(client: dict[str, str], is_secured: bool, place: Path) -> Any:
    settings = read_settings({**client, "authentication.method": "KAFKA" if is_secured else "NONE"})

    def no_spark() -> Any:
        raise AssertionError("A request has reached Spark.")

    return lambda: SqlServer(
        no_spark,
        bootstrap_servers=client["bootstrap.servers"],
        properties=client,
        listeners=(Listener("127.0.0.1", 0),),
        checkpoints=str(place),
        authenticate=settings.authenticate,
    )


def _console(client: dict[str, str], is_secured: bool, place: Path) -> Any:
    users = place / "users"
    users.write_text("".join(f"{name}: {PASSWORD},{name}\n" for name in LEVELS).replace(",boss", ",admin"))
    settings = ConsoleSettings(
        (ClusterSettings("local", client),), port=0, users_file=users if is_secured else None
    )
    return lambda: Console(settings)


KAFKA_USERS = ("user", "viewer", "boss")
SERVERS = {
    "registry": (_registry, KAFKA_USERS),
    "rest": (_rest, KAFKA_USERS),
    "connect": (_connect, KAFKA_USERS),
    "sql": (_sql, KAFKA_USERS),
    "console": (_console, ("viewer", "operator", "boss")),
}


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[bool, dict[str, str]]]:
    """Client settings for a plain broker and a secured one."""
    rights = [acl("boss", "alter"), acl("viewer", "describe")]
    with ExitStack() as stack:
        plain = stack.enter_context(Broker())
        users = dict.fromkeys(KAFKA_USERS, PASSWORD)
        secured = stack.enter_context(Broker(security="SASL_PLAINTEXT", users=users, acls=rights))
        yield {
            False: {"bootstrap.servers": plain.bootstrap_servers},
            True: {**secured.client_properties("admin"), "bootstrap.servers": secured.bootstrap_servers},
        }


@pytest.fixture(scope="module", params=[f"{name}-{how}" for name in SERVERS for how in ("plain", "secured")])
def server(
    request: pytest.FixtureRequest,
    brokers: dict[bool, dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    name, _, how = request.param.partition("-")
    make, users = SERVERS[name]
    is_secured = how == "secured"
    made = make(brokers[is_secured], is_secured, tmp_path_factory.mktemp(name))
    with running(made, is_secured, users) as started:
        yield started


# The matrix


def path_of(pattern: str) -> str:
    """Return a matching path. Only the console's cluster exists."""
    return re.sub(r"\{(\w+)\}", lambda found: "local" if found[1] == "cluster" else "1", pattern)


def has_body(route: Route) -> bool:
    return route.method in ("POST", "PUT", "PATCH")


def requests_of(server: Running) -> list[tuple[Route, str, dict[str, str], bytes | None]]:
    """Return well-formed requests with nonsense bodies."""
    found = []
    for route in server.router.routes:
        typed = {"Content-Type": route.consumes[0]} if has_body(route) else {}
        found.append((route, path_of(route.pattern), typed, NONSENSE if has_body(route) else None))
    return found


def answers(server: Running, headers: dict[str, str]) -> Iterator[tuple[Route, int, bytes]]:
    def ask(route: Route, path: str, typed: dict[str, str], body: bytes | None) -> tuple[Route, int, bytes]:
        try:
            return route, *server.ask(route.method, path, {**typed, **headers}, body)
        except (HTTPException, OSError) as error:
            raise AssertionError(f"{route.method} {path} was not answered: {error!r}") from None

    with ThreadPoolExecutor(8) as threads:
        yield from threads.map(lambda given: ask(*given), requests_of(server))


def lets_in(route: Route, status: int, text: bytes) -> bool:
    """Return True if the request reached the handler, which may still refuse it."""
    return status not in (401, 415, 421) and TOO_LOW not in text


def wrong(
    found: Iterator[tuple[Route, int, bytes]], is_right: Callable[[Route, int, bytes], bool]
) -> list[str]:
    return [
        f"{route.method} {route.pattern} ({route.access.name}): {status} {text[:200]!r}"
        for route, status, text in found
        if not is_right(route, status, text)
    ]


def test_every_route_declares_who_may_ask(server: Running) -> None:
    assert len(server.router.routes) > 5
    assert all(isinstance(each.access, Access) for each in server.router.routes)
    assert all(isinstance(each.access, Access) for each in server.router.websockets)


def test_without_a_login(server: Running) -> None:
    def is_right(route: Route, status: int, text: bytes) -> bool:
        if server.is_secured and route.access > Access.ANYONE:
            return status == 401
        return lets_in(route, status, text)

    assert wrong(answers(server, {}), is_right) == []


def test_each_level(server: Running) -> None:
    if not server.is_secured:
        pytest.skip("nobody logs in here")
    for name in server.users:

        def is_right(route: Route, status: int, text: bytes, level: Access = LEVELS[name]) -> bool:
            if level < route.access:
                return status == 403
            return lets_in(route, status, text) and (status != 403 or route.access <= Access.USER)

        assert (name, wrong(answers(server, login(name)), is_right)) == (name, [])


def test_a_foreign_host(server: Running) -> None:
    def is_right(route: Route, status: int, text: bytes) -> bool:
        if not server.is_secured:
            return status == 421
        # A login protects against foreign host names, because a foreign page has no login.
        return status == 401 or (route.access == Access.ANYONE and lets_in(route, status, text))

    assert wrong(answers(server, FOREIGN_HOST), is_right) == []


def test_a_foreign_origin(server: Running) -> None:
    headers = {**FOREIGN_ORIGIN, **(login("boss") if server.is_secured else {})}
    assert wrong(answers(server, headers), lambda route, status, text: status == 403) == []


@pytest.mark.parametrize("kind", [None, "text/plain"])
def test_a_body_of_no_type_or_of_one_that_a_foreign_page_can_send(server: Running, kind: str | None) -> None:
    headers = login("boss") if server.is_secured else {}
    headers |= {} if kind is None else {"Content-Type": kind}
    wrongly = []
    for route in filter(has_body, server.router.routes):
        status, _ = server.ask(route.method, path_of(route.pattern), headers, NONSENSE)
        takes_it = kind is None and UNTYPED in route.consumes
        if (status == 415) == takes_it:
            wrongly.append(f"{route.method} {route.pattern}: {status}")
    assert wrongly == []


def test_no_route_takes_what_a_foreign_page_can_send(server: Running) -> None:
    """The console's forms are the exception: it checks a token in each of them."""
    simple = {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "*/*"}
    found = {kind for route in server.router.routes for kind in route.consumes}
    assert found & simple <= {"application/x-www-form-urlencoded", "multipart/form-data"}
    if any(route.pattern == "/login" for route in server.router.routes):
        return
    assert found & simple == set()


def test_websockets(server: Running) -> None:
    for route in server.router.websockets:
        path = path_of(route.pattern)
        own = login("boss") if server.is_secured else {}
        assert server.upgrade(path, {**own, **FOREIGN_ORIGIN}) == 403
        assert server.upgrade(path, own) == 101
        if server.is_secured:
            assert server.upgrade(path, {}) == 401
            for name in server.users:
                allowed = LEVELS[name] >= route.access
                assert (name, server.upgrade(path, login(name))) == (name, 101 if allowed else 403)
        else:
            assert server.upgrade(path, FOREIGN_HOST) == 421


def test_with_a_wrong_login(server: Running) -> None:
    """Runs last, because the console delays an address after many failed passwords."""
    if not server.is_secured:
        pytest.skip("nobody logs in here")

    def is_right(route: Route, status: int, text: bytes) -> bool:
        if route.access == Access.ANYONE:
            return lets_in(route, status, text)
        return status in (401, 429)

    assert wrong(answers(server, login("boss", "wrong")), is_right) == []
