"""HTTP sinks and the HTTP source, against nginx and against a server that fails on demand."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("httpx")

from ottla.connect import ConfigError, ConnectError, SchemaBuilder, Struct
from ottla.connect.connectors.http.sink import AivenHttpSinkConnector, ConfluentHttpSinkConnector
from ottla.connect.connectors.http.source import HttpSourceConnector
from ottla.connect.data.schema import INT64
from ottla.testing.connect import SinkHarness, SourceHarness, check_sink, check_source
from ottla.testing.ports import free_ports

from ..servers import program, running
from .http_server import Answer, Request, answering

NGINX = """
daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  log_format bodies escape=json '$request_method $request_uri $request_body';
  server {{
    listen 127.0.0.1:{port};
    location /store/ {{ root .; dav_methods PUT DELETE; create_full_put_path on; }}
    location /log {{ access_log bodies.log bodies; proxy_pass http://127.0.0.1:{port}/fine; }}
    location /fine {{ return 204; }}
    location /secret {{
      auth_basic "secret"; auth_basic_user_file users; root .; dav_methods PUT; create_full_put_path on;
    }}
    location /pages/ {{ root .; }}
  }}
}}
"""


class Nginx(NamedTuple):
    url: str
    root: Path


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    server = program("nginx", "nginx")
    [port] = free_ports(1)
    root = tmp_path_factory.mktemp("nginx")
    root.chmod(0o777)
    user = "user root;\n" if os.geteuid() == 0 else ""
    (root / "nginx.conf").write_text(user + NGINX.format(port=port))
    (root / "users").write_text("ann:{PLAIN}secret\n")
    for name in ("store", "secret", "pages"):
        (root / name).mkdir()
    with running([server, "-p", str(root), "-c", str(root / "nginx.conf")], port, root):
        yield Nginx(f"http://127.0.0.1:{port}", root)


def test_records_are_put_under_their_keys_and_deleted(nginx: Nginx) -> None:
    config = {
        "http.api.url": f"{nginx.url}/store/${{topic}}/${{key}}",
        "request.method": "PUT",
        "behavior.on.null.values": "delete",
    }

    def fresh() -> dict[str, str]:
        for path in (nginx.root / "store").glob("*/*"):
            path.unlink()
        return config

    def send(sink: SinkHarness) -> None:
        for number in range(6):
            sink.send("orders", {"id": number}, key=f"order {number}")
        sink.send("orders", {"id": "changed"}, key="order 1")
        sink.send("orders", None, key="order 2")

    def stored() -> dict[str, object]:
        return {
            path.name: json.loads(path.read_text()) for path in (nginx.root / "store" / "orders").iterdir()
        }

    assert check_sink(ConfluentHttpSinkConnector, fresh, send, stored) == {
        "order 0": {"id": 0},
        "order 1": {"id": "changed"},
        "order 3": {"id": 3},
        "order 4": {"id": 4},
        "order 5": {"id": 5},
    }


def test_batches_are_put_together(nginx: Nginx) -> None:
    log = nginx.root / "bodies.log"
    for connector, config in (
        (AivenHttpSinkConnector, {"http.url": f"{nginx.url}/log?aiven", "batching.enabled": "true"}),
        (
            ConfluentHttpSinkConnector,
            {"http.api.url": f"{nginx.url}/log?confluent", "batch.json.as.array": "true"},
        ),
    ):
        with SinkHarness(connector, {**config, "batch.max.size": "2"}) as sink:
            for number in range(3):
                sink.send("t", {"n": number})
            sink.commit()
    lines = [line.split(" ", 2) for line in log.read_text().splitlines()]
    assert [(path, body.replace('\\"', '"')) for _, path, body in lines] == [
        ("/log?aiven", '{"n":0}\\n{"n":1}\\n'),
        ("/log?aiven", '{"n":2}\\n'),
        ("/log?confluent", '[{"n":0},{"n":1}]'),
        ("/log?confluent", '[{"n":2}]'),
    ]


def test_a_login_that_is_refused_is_named(nginx: Nginx) -> None:
    config = {
        "http.api.url": f"{nginx.url}/secret/x",
        "request.method": "PUT",
        "auth.type": "basic",
        "connection.user": "ann",
    }
    with SinkHarness(ConfluentHttpSinkConnector, {**config, "connection.password": "secret"}) as sink:
        sink.send("t", "text")
        sink.commit()
    assert (nginx.root / "secret" / "x").read_text() == "text"
    with SinkHarness(ConfluentHttpSinkConnector, {**config, "connection.password": "wrong"}) as sink:
        sink.send("t", "text")
        with pytest.raises(ConnectError, match="refuses the login: 401"):
            sink.commit()


def test_what_the_server_does_not_want_is_reported_and_the_rest_goes_on(nginx: Nginx) -> None:
    with SinkHarness(ConfluentHttpSinkConnector, {"http.api.url": f"{nginx.url}/${{topic}}"}) as sink:
        sink.send("nowhere", "x")
        sink.send("fine", "y")
        sink.commit()
        assert [record.topic for record, _ in sink.reported] == ["nowhere"]
        assert "refuses the request to /nowhere: 404" in str(sink.reported[0][1])


def test_requests_are_tried_again() -> None:
    answers = [Answer(503), Answer(429), Answer(200)]
    with answering(lambda _: answers.pop(0)) as server:
        config = {"http.url": server.url, "max.retries": "2", "retry.backoff.ms": "1"}
        with SinkHarness(AivenHttpSinkConnector, config) as sink:
            sink.send("t", "x")
            sink.commit()
    assert len(server.requests) == 3
    with answering(lambda _: Answer(503, b"busy")) as server:
        config = {"http.url": server.url, "max.retries": "1", "retry.backoff.ms": "1"}
        with SinkHarness(AivenHttpSinkConnector, config) as sink:
            sink.send("t", "x")
            with pytest.raises(ConnectError, match="answers 503 Service Unavailable, 'busy' again and again"):
                sink.commit()
    assert len(server.requests) == 2


def test_headers_and_tokens() -> None:
    tokens = iter(["old", "new"])

    def answer(request: Request) -> Answer:
        if request.path == "/token":
            assert base64.b64decode(request.headers["authorization"].split()[1]) == b"id:secret"
            return Answer(200, json.dumps({"access_token": next(tokens)}).encode())
        return Answer(200 if request.headers["authorization"] == "Bearer new" else 401)

    schema = SchemaBuilder().field("id", INT64).build()
    with answering(answer) as server:
        config = {
            "http.url": f"{server.url}/records",
            "http.authorization.type": "oauth2",
            "oauth2.access.token.url": f"{server.url}/token",
            "oauth2.client.id": "id",
            "oauth2.client.secret": "secret",
            "http.headers.content.type": "application/json",
            "http.headers.additional": "X-One:1,X-Two:a:b",
        }
        with SinkHarness(AivenHttpSinkConnector, config) as sink:
            sink.send("t", Struct(schema, {"id": 1}), value_schema=schema)
            sink.commit()
    last = server.requests[-1]
    assert (last.method, last.path, last.body) == ("POST", "/records", b'{"id":1}')
    assert (last.headers["x-one"], last.headers["x-two"]) == ("1", "a:b")
    assert last.headers["content-type"] == "application/json"


def test_a_server_that_does_not_answer_is_named() -> None:
    [port] = free_ports(1)
    config = {"http.url": f"http://127.0.0.1:{port}/x", "max.retries": "0"}
    with SinkHarness(AivenHttpSinkConnector, config) as sink:
        sink.send("t", "x")
        with pytest.raises(ConnectError, match=f"Cannot reach http://127.0.0.1:{port}"):
            sink.commit()


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"http.url": "localhost"}, "http.url 'localhost' is not an address"),
        ({"http.url": "http://h", "http.headers.additional": "x"}, "'x' is not of the form name:value"),
        (
            {"http.url": "http://h", "http.authorization.type": "static"},
            "http.headers.authorization must be set",
        ),
        ({"http.url": "http://h", "http.authorization.type": "kerberos"}, "String must be one of"),
    ],
)
def test_bad_settings_are_named(config: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        SinkHarness(AivenHttpSinkConnector, config)


FAST = {"topic.name.pattern": "things", "request.interval.ms": "1", "max.retries": "0"}


def test_the_source_counts_records() -> None:
    things = [{"n": number} for number in range(25)]

    def answer(request: Request) -> Answer:
        offset = int(parse_qs(urlsplit(request.path).query)["from"][0])
        return Answer(200, json.dumps({"data": {"items": things[offset : offset + 4]}}).encode())

    with answering(answer) as server:
        config = {
            **FAST,
            "url": f"{server.url}/things",
            "http.request.parameters": "from=${offset}",
            "http.response.data.json.pointer": "/data/items",
        }
        records = check_source(HttpSourceConnector, lambda: config)
    assert [record.value for record in records] == things
    assert records[-1].source_offset == {"offset": "25"}


def test_the_source_follows_the_offsets_of_records() -> None:
    things = [{"id": f"id-{number:02d}"} for number in range(11)]

    def answer(request: Request) -> Answer:
        after = urlsplit(request.path).path.rpartition("/")[2]
        return Answer(200, json.dumps([thing for thing in things if thing["id"] > after][:3]).encode())

    with answering(answer) as server:
        config = {
            **FAST,
            "url": f"{server.url}/after/${{offset}}",
            "http.offset.mode": "CHAINING",
            "http.initial.offset": "id-01",
            "http.offset.json.pointer": "/id",
        }
        records = check_source(HttpSourceConnector, lambda: config)
    assert [record.value for record in records] == things[2:]


def test_the_source_follows_cursors_through_files_of_nginx(nginx: Nginx) -> None:
    pages = {"first": ([1, 2, 3], "second"), "second": ([], "third"), "third": ([4, 5], None)}
    for name, (items, following) in pages.items():
        (nginx.root / "pages" / name).write_text(json.dumps({"items": items, "next": following}))
    config = {
        **FAST,
        "url": f"{nginx.url}/pages/${{offset}}",
        "http.offset.mode": "CURSOR_PAGINATION",
        "http.initial.offset": "first",
        "http.response.data.json.pointer": "/items",
        "http.next.page.json.pointer": "/next",
    }
    records = check_source(HttpSourceConnector, lambda: config)
    assert [record.value for record in records] == [1, 2, 3, 4, 5]
    with SourceHarness(HttpSourceConnector, config) as source:
        source.run()
        (nginx.root / "pages" / "third").write_text(json.dumps({"items": [4, 5, 6], "next": None}))
        source.restart()
        assert [record.value for record in source.run(6)] == [1, 2, 3, 4, 5, 6]


def test_tasks_share_the_entities(nginx: Nginx) -> None:
    for name in ("cats", "dogs"):
        (nginx.root / "pages" / name).write_text(json.dumps([{"name": name}]))
    config = {
        **FAST,
        "url": f"{nginx.url}/pages/${{entityName}}",
        "entity.names": "cats,dogs",
        "topic.name.pattern": "all-${entityName}",
        "request.interval.ms": "60000",
    }
    with SourceHarness(HttpSourceConnector, config, max_tasks=4) as source:
        source.poll()
        source.commit()
        assert len(source.connector.task_configs(4)) == 2
    assert {(record.topic, record.value["name"]) for record in source.committed} == {
        ("all-cats", "cats"),
        ("all-dogs", "dogs"),
    }


def test_what_the_source_cannot_use_is_said(nginx: Nginx) -> None:
    (nginx.root / "pages" / "text").write_text("hello")
    for path, why in (
        ("text", "does not answer with JSON, but 'hello'"),
        ("none", "refuses the request to /pages/none: 404"),
    ):
        config = {**FAST, "url": f"{nginx.url}/pages/{path}"}
        with SourceHarness(HttpSourceConnector, config) as source, pytest.raises(ConnectError, match=why):
            source.poll()
    for change, why in (
        ({"url": "x"}, "url 'x' is not an address"),
        ({"http.offset.mode": "CHAINING"}, "Must be set with http.offset.mode CHAINING"),
        ({"http.initial.offset": "a"}, "Has to be a number"),
        ({"url": "http://h/${entityName}"}, "Must be set, since"),
    ):
        with pytest.raises(ConfigError, match=why):
            SourceHarness(HttpSourceConnector, {**FAST, "url": "http://h", **change})
