"""`ottla console`, and `ottla start --console`."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from ottla.cli.commands.servers.console import start_beside
from ottla.cli.jobs.secured_data import SecuredData
from ottla.cli.main import cli, run
from ottla.console.server import Console
from ottla.console.settings import BadSettings, ClusterSettings, ConsoleSettings, read_file
from ottla.http.authentication import read_password_file
from ottla.http.background import InBackground
from tests.console.browsing import Visitor


def test_the_console_runs_beside_a_broker_and_says_where(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla", "start", "--listen", "127.0.0.1:0", "--data", str(tmp_path)]
    process = subprocess.Popen(
        [*command, "--console", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        found = re.search(r"^Console +(http://\S+)$", said, re.MULTILINE)
        assert found, said
        page = httpx.get(f"{found.group(1)}/", headers={"Accept": "text/html"}, follow_redirects=True)
        assert "All is well." in page.text
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "0.0.0.0:0"], "everyone with access to the console could change the cluster"),
        (["--listen", "here:there"], "'here:there' is not an address"),
        (["--registry", "nowhere"], "--registry must be a URL"),
        (["--config", "{file}"], "there is no setting colour"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "console.toml"
    file.write_text('colour = "blue"\n')
    assert run(["console", *(each.format(file=file) for each in arguments)]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_a_line_for_the_file_of_users_is_made(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["console", "--hash-password"], input="ann\noperator\ns3cret\ns3cret\n")
    line = done.stdout.splitlines()[-1]
    assert "s3cret" not in line
    (tmp_path / "users.txt").write_text(f"{line}\n")
    ann = read_password_file(tmp_path / "users.txt")["ann"]
    assert ann.roles == {"operator"}
    assert ann.has("s3cret")
    assert not ann.has("secret")


def test_the_console_beside_a_secured_broker_asks_for_a_login_and_shows_a_link_that_works_once(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    command = [
        sys.executable,
        "-m",
        "ottla",
        "start",
        "--secure",
        "--listen",
        "127.0.0.1:0",
        "--data",
        str(data),
    ]
    process = subprocess.Popen(
        [*command, "--console", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        url = re.search(r"^Console +(http://\S+)$", said, re.MULTILINE)
        link = re.search(r"^Log in +(http://\S+) ", said, re.MULTILINE)
        password = re.search(r"admin, password (\w+) ", said)
        assert url, said
        assert link, said
        assert password, said
        assert link.group(1).startswith(url.group(1))
        with Visitor(url.group(1)) as stranger:
            assert "Log in" in stranger.get("overview").text
            assert stranger.http.get("/clusters/local/topics.json").status_code == 401
            assert stranger.http.get("/login/link?token=guessed").status_code == 403
        with Visitor(url.group(1)) as visitor:
            ahead = visitor.http.get(link.group(1), headers={"Sec-Purpose": "prefetch;prerender"})
            assert ahead.status_code == 403  # from a browser, before the console was opened
            assert "All is well." in visitor.http.get(link.group(1)).text
            assert visitor.get("acls").status_code == 200
            done = visitor.submit("new-topic", "/new-topic", name="by-link", partitions="1")
            assert visitor.send(visitor.form(done, "/new-topic")).status_code == 200
            assert "by-link" in visitor.get("topics").text
        with Visitor(url.group(1)) as late:
            again = late.http.get(link.group(1))
            assert again.status_code == 403
            assert "was used already" in again.text
            page = late.submit("/login", "/login", user="admin", password=password.group(1))
            assert "All is well." in page.text
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
    logged = (data / "console-audit.jsonl").read_text()
    assert '"user": "admin"' in logged
    assert '"target": "by-link"' in logged


def test_beyond_this_machine_the_console_of_a_secured_broker_speaks_tls(tmp_path: Path) -> None:
    data = SecuredData(tmp_path)
    data.prepare(["localhost", "127.0.0.1"])
    data.write_clients("localhost:1", "s3cret")
    running, link = start_beside("0.0.0.0:0", ["localhost:1"], None, None, data)
    try:
        assert link is not None
        assert running.url.startswith("https://localhost:")
        trusted = ssl.create_default_context(cafile=str(data.authority))
        with Visitor(running.url, verify=trusted) as visitor:
            assert "Log in" in visitor.get("topics").text
            answer = visitor.submit("/login", "/login", user="admin", password="s3cret")
            assert answer.status_code == 502  # logged in, but the broker is down
            assert "Secure" in answer.history[0].headers["Set-Cookie"]
    finally:
        running.stop()


def test_a_cluster_that_does_not_answer_is_a_sentence_on_the_page() -> None:
    cluster = ClusterSettings("local", {"bootstrap.servers": "127.0.0.1:1"})
    settings = ConsoleSettings((cluster,), port=0)
    with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visitor:
        for page in ("overview", "topics", "groups", "topics/x/messages"):
            answer = visitor.get(page)
            assert answer.status_code == 502
            assert "Cannot reach a broker at 127.0.0.1:1" in answer.text


def test_a_file_names_clusters_roles_logins_and_masks(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 32)
    file = tmp_path / "console.toml"
    file.write_text(
        """
        listen = "0.0.0.0:9000"
        read_only = true
        audit_log = "audit.jsonl"
        secret_file = "secret"
        [login]
        users = "users.txt"
        [login.oidc]
        issuer = "https://login.example"
        client_id = "console"
        [roles.team]
        may = "operator"
        topics = ["orders-*"]
        [[masks]]
        topics = ["customers"]
        fields = ["email"]
        [[clusters]]
        name = "one"
        properties = { "bootstrap.servers" = "a:1" }
        [[clusters]]
        name = "two"
        registry = "http://r:8081"
        properties = { "bootstrap.servers" = "b:1" }
        """
    )
    settings = read_file(file)
    settings.check()
    assert [each.name for each in settings.clusters] == ["one", "two"]
    assert settings.clusters[1].registry == "http://r:8081"
    assert settings.roles["team"].topics == ("orders-*",)
    assert settings.users_file == tmp_path / "users.txt"
    assert settings.oidc is not None
    assert settings.masks[0].fields == ("email",)
    assert (settings.host, settings.port, settings.read_only) == ("0.0.0.0", 9000, True)


@pytest.mark.parametrize(
    "text",
    [
        "clusters = 3",
        '[[clusters]]\nname = "x"',
        '[roles.a]\nmay = "fly"',
        "read_only = 1",
        '[login.oidc]\nissuer = "https://x"',
        "[[masks]]\ntopics = []",
        'lag_seconds = "often"',
        "refresh_seconds = 0",
        "session_hours = true",
    ],
)
def test_a_wrong_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "console.toml"
    file.write_text(text)
    with pytest.raises(BadSettings, match=r"console\.toml: "):
        read_file(file)
