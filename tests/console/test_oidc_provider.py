"""Login through a third-party provider, with its own discovery, PKCE, nonce and signatures."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from bench.measuring.wire import free_port
from bench.peers.apache_kafka import Unavailable, java, resolve
from ottla.console.settings import OidcSettings
from ottla.http.background import InBackground
from tests.console.browsing import Visitor, text_of

pytestmark = pytest.mark.slow

VERSION = "2.2.1"
MAIN = "no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """navikt's test server, on Nimbus' OpenID Connect. Users type any name and claims."""
    try:
        jars = resolve(f"mock-oauth2-server-{VERSION}", [f"no.nav.security:mock-oauth2-server:{VERSION}"])
        command = [java(), "-Xmx256m", "-cp", f"{jars}/*", MAIN]
    except Unavailable as error:
        pytest.skip(str(error))
    port = free_port()
    settings = {
        "SERVER_PORT": str(port),
        "SERVER_HOSTNAME": "127.0.0.1",
        "JSON_CONFIG": '{"interactiveLogin": true}',
    }
    process = subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"{url}/isalive", timeout=5).raise_for_status()
                break
            except httpx.HTTPError:
                assert process.poll() is None, "the provider has ended"
                assert time.monotonic() < deadline, "the provider does not answer"
                time.sleep(0.05)
        yield f"{url}/company"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def console(open_console: Callable[..., InBackground], issuer: str) -> InBackground:
    return open_console(oidc=OidcSettings(issuer, "console", "secret", roles_claim="realm_access.roles"))


def log_in(visitor: Visitor, name: str, *roles: str) -> httpx.Response:
    """Log in like a browser: to the provider, through its form, and back."""
    page = visitor.get("/login/provider", next="/clusters/local/topics")
    assert page.status_code == 200, page.text
    claims = {"preferred_username": name, "realm_access": {"roles": list(roles)}}
    return visitor.http.post(str(page.url), data={"username": name, "claims": json.dumps(claims)})


def test_who_logs_in_there_is_in_here_with_the_roles_of_the_token(visitor: Visitor) -> None:
    assert visitor.get("topics").url.path == "/login"
    page = log_in(visitor, "olga", "operator", "something-else")
    assert page.url.path == "/clusters/local/topics"
    assert "olga · operator" in page.text
    assert visitor.get("changes").status_code == 403
    done = visitor.submit("new-topic", "/new-topic", name="by-olga", partitions="1")
    assert "was created" in visitor.send(visitor.form(done, "/new-topic")).text


def test_without_a_role_of_ours_nobody_is_let_in(visitor: Visitor) -> None:
    page = log_in(visitor, "nora", "accounting")
    assert page.status_code == 403
    assert "has no role here" in text_of(page)
    assert visitor.get("topics").url.path == "/login"


def test_a_code_is_good_for_the_login_that_it_was_given_to_only(
    visitor: Visitor, console: InBackground
) -> None:
    """A thief of the redirect has neither our cookie nor the verifier that the provider requires."""
    page = visitor.get("/login/provider", next="/clusters/local/topics")
    claims = json.dumps({"preferred_username": "ada", "realm_access": {"roles": ["admin"]}})
    back = visitor.http.post(
        str(page.url), data={"username": "ada", "claims": claims}, follow_redirects=False
    ).headers["location"]
    with Visitor(console.url) as thief:
        assert thief.http.get(back).status_code == 400
        thief.get("/login/provider")  # the thief's own attempt, with another state and another verifier
        assert thief.http.get(back).status_code == 400
        assert thief.get("topics").url.path == "/login"
    assert "ada · admin" in visitor.http.get(back).text
