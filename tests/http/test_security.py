"""TLS, user names and passwords, and certificate names."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ottla.http import BasicAuthentication, read_password_file
from ottla.http.authentication import BadPasswordFile, User
from ottla.security.certificates import Authority, make_authority
from ottla.security.principal import PrincipalMapper
from ottla.security.tls.contexts import server_context
from ottla.security.tls.settings import Given, StoreSettings, Versions
from ottla.security.tls.stores import read_key_store, read_trust_store
from tests.http.conftest import sample_router
from tests.http.serving import Served, serving


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority()


def _context(authority: Authority, client_auth: str) -> ssl.SSLContext:
    issued = authority.issue("server", ["127.0.0.1"])
    settings = StoreSettings(
        keystore_certificate_chain=Given("chain", issued.certificate_pem.decode()),
        keystore_key=Given("key", issued.key_pem.decode()),
        truststore_certificates=Given("trust", authority.certificate_pem.decode()),
    )
    key_store = read_key_store(settings)
    assert key_store is not None
    return server_context(key_store, read_trust_store(settings), client_auth, Versions())


@pytest.fixture
def secured(authority: Authority) -> Iterator[Served]:
    mapper = PrincipalMapper("RULE:^CN=(.*?)$/$1/U,DEFAULT")
    with serving(sample_router(), tls=_context(authority, "requested"), mapper=mapper) as running:
        yield running


def _client(
    authority: Authority, tmp_path: Path, name: str | None = None, http2: bool = False
) -> httpx.Client:
    context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    if name is not None:
        issued = authority.issue(name, client=True)
        path = tmp_path / "client.pem"
        path.write_bytes(issued.key_pem + issued.certificate_pem)
        context.load_cert_chain(path)
    return httpx.Client(verify=context, http2=http2)


@pytest.mark.parametrize("http2", [False, True])
def test_the_name_of_a_certificate_becomes_the_principal(
    secured: Served, authority: Authority, tmp_path: Path, http2: bool
) -> None:
    url = secured.url.replace("http:", "https:")
    with _client(authority, tmp_path, "alice", http2) as client:
        answer = client.get(f"{url}/show")
        assert answer.json()["principal"] == "User:ALICE"
        assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert client.post(f"{url}/echo", content=b"x" * 900_000).content == b"x" * 900_000
        assert client.post(f"{url}/echo", content=b"x" * 20_000_000).status_code == 413
    with _client(authority, tmp_path, http2=http2) as client:
        assert client.get(f"{url}/show").json()["principal"] == "User:ANONYMOUS"


def test_where_a_certificate_is_required_nobody_comes_in_without(
    authority: Authority, tmp_path: Path
) -> None:
    with serving(sample_router(), tls=_context(authority, "required")) as served:
        url = served.url.replace("http:", "https:")
        with _client(authority, tmp_path) as client, pytest.raises(httpx.HTTPError):
            client.get(f"{url}/show")
        with _client(authority, tmp_path, "bob") as client:
            assert client.get(f"{url}/show").json()["principal"] == "User:CN=bob"


def test_a_plain_client_of_a_tls_port_does_no_harm(
    secured: Served, authority: Authority, tmp_path: Path
) -> None:
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{secured.url}/show")
    with _client(authority, tmp_path) as client:
        assert client.get(f"{secured.url.replace('http:', 'https:')}/quick").json() == "quick"


def test_a_password_file_as_jetty_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text(
        "# users\nalice: secret,admin,developer\nbob: MD5:5f4dcc3b5aa765d61d8327deb882cf99\n\n"
        "carol: OBF:1u2a1toa1w8v1tok1u30,user\n"
    )
    users = read_password_file(path)
    assert users["alice"].has("secret")
    assert not users["alice"].has("secret,admin")
    assert users["alice"].roles == {"admin", "developer"}
    assert users["bob"].has("password")
    assert users["carol"].has("admin")
    assert "secret" not in repr(users)


@pytest.mark.parametrize("line", ["alice", "alice:", ": secret", "alice: CRYPT:ad1ks", "alice: OBF:!!"])
def test_a_line_that_is_wrong_is_named_without_the_password(tmp_path: Path, line: str) -> None:
    path = tmp_path / "passwords"
    path.write_text(f"# one\n{line}\n")
    with pytest.raises(BadPasswordFile, match="line 2") as refused:
        read_password_file(path)
    assert "ad1ks" not in str(refused.value)


def test_basic_authentication() -> None:
    users = {"alice": User("secret", frozenset({"admin"})), "bob": User("word")}
    basic = BasicAuthentication(users, realm="sql", roles=["admin"], skip_paths=["/quick"])
    with serving(sample_router(), authenticate=basic) as served:
        refused = httpx.get(f"{served.url}/show")
        assert refused.status_code == 401
        assert refused.headers["WWW-Authenticate"] == 'Basic realm="sql"'
        assert refused.json() == {"error_code": 40101, "message": "Unauthorized"}
        for wrong in (("alice", "Secret"), ("eve", "secret"), ("eve", ""), ("alice", "")):
            assert httpx.get(f"{served.url}/show", auth=wrong).status_code == 401
        for header in ("Basic", "Basic !!!", "Bearer x", "Basic YWxpY2U="):
            assert httpx.get(f"{served.url}/show", headers={"Authorization": header}).status_code == 401
        assert httpx.get(f"{served.url}/none").status_code == 401
        assert httpx.get(f"{served.url}/show", auth=("bob", "word")).status_code == 403
        assert httpx.get(f"{served.url}/show", auth=("alice", "secret")).json()["principal"] == "User:alice"
        assert httpx.get(f"{served.url}/quick").json() == "quick"
