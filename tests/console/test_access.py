"""Console access: logins and permissions, tried on every route."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.console.access.login import Signer
from ottla.console.access.roles import BUILT_IN, Level, Role
from ottla.console.pages import all_routes
from ottla.console.settings import ClusterSettings, ConsoleSettings, OidcSettings
from ottla.console.web.app import Route
from ottla.http import Access
from ottla.http.authentication import scrypt_credential
from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.console.browsing import Visitor, text_of
from tests.console.provider import CLIENT, SECRET, Provider

ROLES = {**BUILT_IN, "team": Role("team", Level.OPERATOR, ("team-*",), groups=("mixed",))}
USERS = {"vera": "viewer", "otto": "operator", "ada": "admin", "tim": "team", "nora": "nothing"}


def routes() -> list[Route]:
    settings = ConsoleSettings((ClusterSettings("local", {}),))
    return [each for each in all_routes(settings, Signer(b"x")) if not each.public]


def path_of(route: Route) -> str:
    values = {"cluster": "local", "topic": "team-orders", "group": "readers", "broker": "0"}
    return re.sub(r"{(\w+)}", lambda match: values.get(match[1], "x"), route.path)


def ids(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def console(
    broker: Broker, open_console: Callable[..., InBackground], tmp_path_factory: pytest.TempPathFactory
) -> InBackground:
    for topic in ("team-orders", "secret-plans"):
        broker.create_topic(topic)
        broker.produce(topic, b"content of " + topic.encode())
    users = tmp_path_factory.mktemp("users") / "users.txt"
    # One good hash is enough, because hashes are slow by design.
    passwords = {name: f"{name}-pw" for name in USERS} | {"vera": scrypt_credential("vera-pw")}
    users.write_text("".join(f"{name}: {passwords[name]},{role}\n" for name, role in USERS.items()))
    return open_console(users_file=users, roles=ROLES)


@pytest.fixture
def stranger(console: InBackground) -> Iterator[Visitor]:
    with Visitor(console.url) as visiting:
        yield visiting


def log_in(visitor: Visitor, name: str, password: str | None = None) -> httpx.Response:
    return visitor.submit("/login", "/login", user=name, password=password or f"{name}-pw")


@pytest.fixture(scope="module")
def logged_in(console: InBackground) -> Iterator[Callable[[str], Visitor]]:
    known: dict[str, Visitor] = {}

    def visitor(name: str) -> Visitor:
        if name not in known:
            known[name] = Visitor(console.url)
            assert log_in(known[name], name).url.path == "/clusters/local/overview"
        return known[name]

    yield visitor
    for each in known.values():
        each.http.close()


# -- without a login --


@pytest.mark.parametrize("route", routes(), ids=ids)
def test_no_page_answers_without_a_login(stranger: Visitor, route: Route) -> None:
    path = path_of(route)
    answer = stranger.http.request(route.method, path, follow_redirects=False, data={"csrf": "x"})
    if route.method == "GET":
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login?next=")
    else:
        assert answer.status_code == 401
    as_script = stranger.http.request(
        route.method,
        f"{path}.json" if route.json and route.method == "GET" else path,
        headers={"Accept": "*/*"},
    )
    assert as_script.status_code == 401
    assert "content of" not in as_script.text


def test_every_answer_forbids_scripts_of_others_and_frames(stranger: Visitor) -> None:
    for path in ("/login", "/nowhere", "/clusters/local/topics.json", "/static/console.js"):
        answer = stranger.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=", stranger.get("/login").text)


def test_static_files_are_those_of_the_package_only(stranger: Visitor) -> None:
    for path in ("/static/..%2fserver.py", "/static/%2e%2e/settings.py", "/static/nothing.css"):
        assert stranger.get(path).status_code == 404


def test_the_right_password_is_needed(stranger: Visitor) -> None:
    page = log_in(stranger, "vera", "wrong")
    assert page.status_code == 401
    assert "The name or the password is wrong." in page.text
    assert "The name or the password is wrong." in log_in(stranger, "nobody", "x").text
    assert log_in(stranger, "vera").url.path == "/clusters/local/overview"


def test_the_login_leads_to_the_page_that_was_asked_for_and_nowhere_else(stranger: Visitor) -> None:
    page = stranger.get("topics?q=team")
    assert page.url.path == "/login"
    done = stranger.send(stranger.form(page, "/login"), user="ada", password="ada-pw")
    assert (done.url.path, done.url.query) == ("/clusters/local/topics", b"q=team")
    for elsewhere in ("https://evil.example/", "//evil.example/", "/\\evil.example"):
        form = stranger.form(stranger.get("/login", next=elsewhere), "/login")
        assert form.fields["next"] == "/"


def test_many_wrong_passwords_are_too_many(open_console: Callable[..., InBackground], tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    users.write_text("ann: right,viewer\n")
    running = open_console(users_file=users, audit_file=tmp_path / "audit.jsonl")
    with Visitor(running.url) as visitor:
        statuses = [log_in(visitor, "ann", f"wrong {number}").status_code for number in range(11)]
        assert statuses == [401] * 10 + [429]
        assert log_in(visitor, "ann", "right").status_code == 429
    # Repeated attempts cannot fill the disk.
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == 10


def test_a_cookie_that_was_tampered_with_is_none(stranger: Visitor) -> None:
    log_in(stranger, "otto")
    [cookie] = [each for each in stranger.http.cookies.jar if each.name == "ottla_console"]
    data, _, mac = str(cookie.value).partition(".")
    session = json.loads(base64.urlsafe_b64decode(data))
    forged = base64.urlsafe_b64encode(json.dumps({**session, "u": "ada"}).encode()).decode()
    with httpx.Client(base_url=stranger.http.base_url, headers={"Accept": "text/html"}) as http:
        answer = http.get("/clusters/local/topics", headers={"Cookie": f"ottla_console={forged}.{mac}"})
        assert answer.status_code == 303
        answer = http.get("/clusters/local/topics", headers={"Cookie": f"ottla_console={data}.{mac}"})
        assert answer.status_code == 200


def test_logging_out_ends_it(stranger: Visitor) -> None:
    log_in(stranger, "otto")
    assert stranger.submit("topics", "/logout").url.path == "/login"
    assert stranger.get("topics").url.path == "/login"


def test_scripts_log_in_with_a_header(console: InBackground) -> None:
    with httpx.Client(base_url=console.url, auth=("otto", "otto-pw")) as http:
        assert http.get("/clusters/local/topics.json").json()["total"] >= 2
        form = {"name": "from-a-script", "confirmed": "1"}
        answer = http.post("/clusters/local/new-topic", data=form)
        assert answer.status_code == 303
    with httpx.Client(base_url=console.url, auth=("otto", "no")) as http:
        assert http.get("/clusters/local/topics.json").status_code == 401


# -- roles --


@pytest.mark.parametrize("route", [each for each in routes() if each.method == "POST"], ids=ids)
def test_a_viewer_changes_nothing_by_any_request(logged_in: Callable[[str], Visitor], route: Route) -> None:
    vera = logged_in("vera")
    data = {
        "csrf": vera.token(),
        "confirmed": "1",
        "typed": "team-orders",
        "topic": "team-orders",
        "name": "x",
    }
    answer = vera.http.post(path_of(route), data=data)
    assert answer.status_code == 403
    assert "This needs the role" in text_of(answer)


@pytest.mark.parametrize("route", [each for each in routes() if each.access is Access.ADMIN], ids=ids)
def test_an_operator_does_nothing_that_is_for_admins(
    logged_in: Callable[[str], Visitor], route: Route
) -> None:
    otto = logged_in("otto")
    answer = otto.http.request(route.method, path_of(route), data={"csrf": otto.token(), "confirmed": "1"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "route",
    [each for each in routes() if "{" in each.path.replace("{cluster}", "") or each.everywhere],
    ids=ids,
)
def test_a_role_for_some_topics_is_nothing_beside_them(
    logged_in: Callable[[str], Visitor], route: Route
) -> None:
    tim = logged_in("tim")
    path = path_of(route).replace("team-orders", "secret-plans")
    answer = tim.http.request(route.method, path, data={"csrf": tim.token(), "confirmed": "1"})
    assert answer.status_code == 403
    assert "content of" not in answer.text


def test_a_role_for_some_topics_sees_and_changes_those(logged_in: Callable[[str], Visitor]) -> None:
    tim = logged_in("tim")
    assert [row["name"] for row in tim.json("topics")["topics"]] == ["team-orders"]
    assert tim.json("heatmap")["total"] == 1
    assert "content of team-orders" in tim.get("topics/team-orders/messages").text
    assert tim.submit("topics/team-orders/produce", "/produce", value="x").status_code == 200
    refused = tim.submit("new-topic", "/new-topic", name="other-topic")
    assert refused.status_code == 403
    assert "This is what would happen" not in refused.text
    resent = tim.http.post(
        "/clusters/local/topics/team-orders/resend",
        data={"csrf": tim.token(), "partition": 0, "offset": 0, "target": "secret-plans"},
    )
    assert resent.status_code == 403


def test_a_role_for_some_topics_sees_those_of_a_group(
    broker: Broker, logged_in: Callable[[str], Visitor]
) -> None:
    consumer_group(broker, "mixed", "team-orders", "secret-plans")
    topics = {
        name: {row["topic"] for row in logged_in(name).json("groups/mixed/lag")["partitions"]}
        for name in ("ada", "tim")
    }
    assert topics == {"ada": {"team-orders", "secret-plans"}, "tim": {"team-orders"}}
    assert "secret-plans" not in logged_in("tim").get("groups/mixed/lag").text
    assert (
        logged_in("tim").submit("groups/mixed/reset", "/reset", kind="earliest", topic="").status_code == 403
    )


def test_a_user_without_a_role_sees_nothing(stranger: Visitor) -> None:
    assert log_in(stranger, "nora").status_code == 403


# -- forms of other sites --


@pytest.mark.parametrize("route", [each for each in routes() if each.method == "POST"], ids=ids)
def test_a_form_of_another_site_does_nothing(logged_in: Callable[[str], Visitor], route: Route) -> None:
    ada = logged_in("ada")
    data = {"confirmed": "1", "typed": "team-orders", "topic": "team-orders", "name": "x"}
    for fields, headers in (
        (data, {}),
        ({**data, "csrf": "abc.def"}, {}),
        ({**data, "csrf": logged_in("vera").token()}, {}),
        ({**data, "csrf": ada.token()}, {"Sec-Fetch-Site": "cross-site"}),
    ):
        answer = ada.http.post(path_of(route), data=fields, headers=headers)
        assert answer.status_code == 403
        assert "another site" in text_of(answer)


def test_the_login_form_has_a_token_too(stranger: Visitor) -> None:
    answer = stranger.http.post("/login", data={"user": "ada", "password": "ada-pw"})
    assert answer.status_code == 403


def test_without_logins_the_console_answers_under_its_own_names_only(
    open_console: Callable[..., InBackground],
) -> None:
    """Another site's page can point its name here (DNS rebinding), but the Host header reveals it."""
    running = open_console()
    with Visitor(running.url) as visitor:
        assert visitor.get("topics").status_code == 200
        refused = visitor.http.get("/clusters/local/topics", headers={"Host": "evil.example"})
        assert refused.status_code == 421


# -- input is escaped --

SCRIPTS = ("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><svg onload=alert(1)>')


@pytest.mark.parametrize("text", SCRIPTS)
def test_nothing_that_is_in_the_cluster_becomes_part_of_the_page(
    broker: Broker, logged_in: Callable[[str], Visitor], text: str
) -> None:
    """Keys, values, headers and group names come from strangers. Topic names cannot contain such characters."""
    ada = logged_in("ada")
    data = text.encode()
    broker.produce("team-orders", data, key=data, headers=[(text, data)])
    consumer_group(broker, text)
    pages = [
        ada.get("topics/team-orders/messages"),
        ada.get("topics/team-orders/messages", q=text),
        ada.get("topics", q=text),
        ada.get("groups"),
        ada.get("groups", q=text),
        ada.http.get(
            f"/clusters/local/groups/{httpx.URL('http://x', params={'a': text}).query.decode()[2:]}/lag"
        ),
        ada.get("topics/team-orders/groups"),
        ada.get(f"topics/{text.replace('/', '%2F')}/partitions"),
        ada.get("/login", next=text),
        ada.submit("new-topic", "/new-topic", name=text, configs=text),
    ]
    for page in pages:
        assert text not in page.text
        assert not re.search(r"<(script(?![^>]*src=\"/static)|img|svg onload)", page.text)
    assert "&lt;" in pages[0].text
    found = "/clusters/local/topics/team-orders/messages/search"
    with ada.http.stream("GET", found, params={"q": "alert"}) as stream:
        assert not re.search(r"<(script|img|svg onload)", stream.read().decode())


def consumer_group(broker: Broker, name: str, *topics: str) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
    offsets = [TopicPartition(topic, 0, 0) for topic in topics or ("team-orders",)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


# -- a provider --


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture(scope="module")
def with_provider(open_console: Callable[..., InBackground], provider: Provider) -> InBackground:
    return open_console(oidc=OidcSettings(provider.url, CLIENT, SECRET), roles=ROLES)


@pytest.fixture
def through_provider(with_provider: InBackground, provider: Provider) -> Iterator[Visitor]:
    provider.claims = {"preferred_username": "olga", "roles": ["operator", "unknown"]}
    provider.refuses, provider.wrong = False, {}
    with Visitor(with_provider.url) as visiting:
        yield visiting


def test_a_provider_says_who_somebody_is_and_which_roles_they_have(through_provider: Visitor) -> None:
    page = through_provider.get("topics")
    assert page.url.path == "/login"
    assert "Log in with the provider" in page.text
    page = through_provider.get("/login/provider", next="/clusters/local/topics")
    assert page.url.path == "/clusters/local/topics"
    assert "olga · operator" in page.text
    assert through_provider.get("changes").status_code == 403


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"nonce": "of another login"}, "not for this login"),
        ({"aud": "another client"}, "another audience"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"exp": 1_000_000_000, "iat": 999_999_000}, "expired"),
        ({"roles": []}, "has no role here"),
        ({"roles": "nothing we know"}, "has no role here"),
    ],
)
def test_a_token_that_is_not_for_this_login_lets_nobody_in(
    through_provider: Visitor, provider: Provider, wrong: dict[str, Any], sentence: str
) -> None:
    provider.wrong = wrong
    page = through_provider.get("/login/provider")
    assert page.status_code == 403
    assert sentence in text_of(page)
    assert through_provider.get("topics").url.path == "/login"


def test_a_code_of_another_login_lets_nobody_in(through_provider: Visitor, provider: Provider) -> None:
    page = through_provider.get("/login/callback", code="stolen", state="guessed")
    assert page.status_code == 400
    provider.refuses = True
    assert "access_denied" in text_of(through_provider.get("/login/provider"))
