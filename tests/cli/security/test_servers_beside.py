"""Servers beside a secured broker: another user of the machine reaches their ports, and gets nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ottla.cli.properties import parse_properties

JSON = {"Content-Type": "application/json"}
NOBODY = 65534

#: Runs as another user: each input line is a request, and each output line its status and body.
CLIENT = """
import encodings.idna, os, sys, json, urllib.request, urllib.error  # later this user cannot read Python's files
os.setgroups([]); os.setgid(%(user)d); os.setuid(%(user)d)
for line in sys.stdin:
    method, url, body = json.loads(line)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            print(json.dumps([answer.status, answer.read().decode()]))
    except urllib.error.HTTPError as error:
        print(json.dumps([error.code, error.read().decode()]))
try:
    open(sys.argv[1]).read()
    print('"read"')
except PermissionError:
    print('"refused"')
"""


@contextmanager
def started(ottla, data: Path, *args: str) -> Iterator[dict[str, str]]:
    """The running command: the URLs of the servers beside the broker, by name."""
    process = ottla.start("start", "--secure", "--listen", "127.0.0.1:0", "--data", data, *args)
    urls: dict[str, str] = {}
    try:
        for line in process.stdout:
            found = re.match(r"(\w+) +(http://\S+)", line.decode())
            if found:
                urls[found[1]] = found[2]
            if b"Ctrl-C stops" in line:
                break
        else:
            raise AssertionError(process.communicate(timeout=20)[1].decode())
        yield urls
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def as_another_user(requests: list[tuple[str, str, object]], secret: Path) -> list[tuple[int, str]]:
    import json

    sent = "".join(json.dumps(each) + "\n" for each in requests)
    ran = subprocess.run(
        [sys.executable, "-I", "-c", CLIENT % {"user": NOBODY}, str(secret)],
        input=sent.encode(),
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
        cwd="/",
    )
    *answers, file = map(json.loads, ran.stdout.decode().splitlines())
    assert file == "refused"
    return [(status, body) for status, body in answers]


@pytest.fixture(scope="module")
def beside(alone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], Path]]:
    data = tmp_path_factory.mktemp("beside") / "data"
    args = ("--registry", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--console", "127.0.0.1:0")
    with started(alone, data, *args) as urls:
        yield urls, data


def admin_of(data: Path) -> tuple[str, str]:
    client = parse_properties((data / "client.properties").read_text())
    return client["sasl.username"], client["sasl.password"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_gets_nothing_without_a_login(beside) -> None:
    urls, data = beside
    schema = {"schema": '"int"'}
    requests: list[tuple[str, str, object]] = [
        ("GET", f"{urls['Registry']}/subjects", None),
        ("GET", f"{urls['Registry']}/metrics", None),
        ("POST", f"{urls['Registry']}/subjects/a/versions", schema),
        ("GET", f"{urls['REST']}/topics", None),
        ("GET", f"{urls['REST']}/metrics", None),
        ("GET", f"{urls['REST']}/topics/a/stream", None),
        ("GET", f"{urls['Console']}/", None),
    ]
    answers = as_another_user(requests, data / "client.properties")
    assert [status for status, _ in answers] == [401] * len(requests)


def test_the_admin_logs_in_everywhere(beside) -> None:
    urls, data = beside
    with httpx.Client(auth=admin_of(data), timeout=30) as admin:
        made = admin.post(f"{urls['Registry']}/subjects/a-value/versions", json={"schema": '"int"'})
        assert made.status_code == 200
        assert admin.get(f"{urls['Registry']}/subjects").json() == ["a-value"]
        # The proxy queries the registry with its caller's identity.
        avro = {"Content-Type": "application/vnd.kafka.avro.v2+json"}
        body = b'{"value_schema": "\\"int\\"", "records": [{"value": 1}]}'
        written = admin.post(f"{urls['REST']}/topics/a", content=body, headers=avro)
        assert written.json()["offsets"][0]["offset"] == 0


def test_users_have_their_own_rights(beside, new_ottla, tmp_path: Path) -> None:
    urls, data = beside
    ottla = new_ottla(
        OTTLA_COMMAND_CONFIG=str(data / "client.properties"), OTTLA_BOOTSTRAP_SERVER="localhost:9092"
    )
    ottla("users", "add", "ann", stdin=b"pencil\n")
    ottla("acls", "add", "ann", "--write", "anns")
    with httpx.Client(auth=("ann", "pencil"), timeout=30) as ann, httpx.Client(auth=("ann", "pen")) as wrong:
        registry = urls["Registry"]
        assert wrong.get(f"{registry}/subjects").status_code == 401
        assert ann.post(f"{registry}/subjects/b-value/versions", json={"schema": '"int"'}).status_code == 403
        assert ann.get(f"{registry}/subjects").status_code == 403
        assert ann.put(f"{registry}/config", json={"compatibility": "NONE"}).status_code == 403


@pytest.mark.spark
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_makes_no_connector(alone, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started(alone, data, "--connect", "127.0.0.1:0", "--registry", "127.0.0.1:0") as urls:
        connect, secret = urls["Connect"], str(data / "client.properties")
        steal = {"connector.class": "FileStreamSource", "topic": "loot", "file": secret}
        plant = {"connector.class": "FileStreamSink", "topics": "loot", "file": str(tmp_path / "loot")}
        requests: list[tuple[str, str, object]] = [
            ("POST", f"{connect}/connectors", {"name": "steal", "config": steal}),
            ("PUT", f"{connect}/connectors/plant/config", plant),
            ("PUT", f"{connect}/connector-plugins/FileStreamSource/config/validate", steal),
            ("GET", f"{connect}/connectors?expand=info", None),
            ("PUT", f"{connect}/admin/loggers/root", {"level": "DEBUG"}),
            ("GET", f"{connect}/metrics", None),
            ("GET", f"{urls['Registry']}/subjects", None),
        ]
        answers = as_another_user(requests, data / "client.properties")
        assert [status for status, _ in answers] == [401] * len(requests)
        with httpx.Client(auth=admin_of(data), timeout=60) as admin:
            # Even the cluster's admin does not own the worker's files.
            refused = admin.post(f"{connect}/connectors", json={"name": "steal", "config": steal})
            assert refused.status_code == 400
            assert "connector.file.directories" in refused.json()["message"]
            mock = {"connector.class": "MockSource", "tasks.max": "1"}
            assert admin.post(f"{connect}/connectors", json={"name": "m", "config": mock}).status_code == 201
            assert admin.get(f"{connect}/connectors").json() == ["m"]
