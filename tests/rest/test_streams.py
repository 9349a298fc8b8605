"""Streaming records: server-sent events, lines, WebSockets."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import CloseConnection, Request, TextMessage

from ottla.client.admin.groups import committed
from ottla.client.cluster import Cluster
from ottla.client.settings import Settings
from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.history.recorder import wait_until

EVENTS = {"Accept": "text/event-stream"}
LINES = {"Accept": "application/x-ndjson"}


def events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    last = ""
    for line in answer.iter_lines():
        if line.startswith("id: "):
            last = line[4:]
        elif line.startswith("data: "):
            yield last, json.loads(line[6:])


def records(answer: httpx.Response) -> Iterator[Any]:
    return (json.loads(line) for line in answer.iter_lines() if line.strip())


def test_events_come_as_they_are_written(http: httpx.Client, broker: Broker, topic: str) -> None:
    broker.produce(topic, b"before", partition=0)
    with http.stream("GET", f"/topics/{topic}/stream", headers=EVENTS) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer)
        broker.produce(topic, b'{"n": 1}', key=b"k", partition=0)
        place, record = next(found)
        assert place == f"{topic}/0/1"
        assert (record["offset"], record["key"], record["value"]) == (1, "k", {"n": 1})
        broker.produce(topic, b"\xff", partition=1)
        place, record = next(found)
        assert place == f"{topic}/0/1,{topic}/1/0"
        assert record["value"] == {"base64": "/w=="}


def test_who_comes_back_goes_on_where_it_was_cut_off(http: httpx.Client, broker: Broker, topic: str) -> None:
    for number in range(4):
        broker.produce(topic, str(number).encode(), partition=0)
    headers = {**EVENTS, "Last-Event-ID": f"{topic}/0/1"}
    with http.stream("GET", f"/topics/{topic}/stream", headers=headers) as answer:
        found = events(answer)
        assert [next(found)[1]["value"] for _ in range(2)] == [2, 3]


@pytest.mark.parametrize(("query", "values"), [("offset=earliest", [0, 1]), ("partition=0&offset=1", [1])])
def test_lines_from_an_offset(
    http: httpx.Client, broker: Broker, topic: str, query: str, values: list[int]
) -> None:
    for number in range(2):
        broker.produce(topic, str(number).encode(), partition=0)
    with http.stream("GET", f"/topics/{topic}/stream?{query}", headers=LINES) as answer:
        found = records(answer)
        assert [next(found)["value"] for _ in values] == values


def test_a_member_of_a_group_commits_what_it_has_sent(http: httpx.Client, broker: Broker, topic: str) -> None:
    group = f"g-{uuid.uuid4()}"
    for number in range(3):
        broker.produce(topic, str(number).encode(), partition=0)
    path = f"/consumers/{group}/stream?topics={topic}&auto.offset.reset=earliest"
    with http.stream("GET", path, headers=LINES) as answer:
        found = records(answer)
        assert [next(found)["value"] for _ in range(3)] == [0, 1, 2]
        settings = Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers})
        cluster = Cluster(settings)
        try:
            wait_until(lambda: (topic, 0) in committed(cluster, group), "the offset is committed")
            assert committed(cluster, group)[topic, 0].offset == 3
        finally:
            cluster.close()


def test_a_client_that_leaves_takes_its_consumer_along(http: httpx.Client, topic: str) -> None:
    group = f"g-{uuid.uuid4()}"
    [cluster] = http.get("/v3/clusters").json()["data"]
    path = f"{cluster['metadata']['self']}/consumer-groups/{group}"
    with http.stream("GET", f"/consumers/{group}/stream?topics={topic}", headers=EVENTS) as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b": connected\n\n"
        wait_until(lambda: http.get(path).json().get("state") == "STABLE", "the group has a member")
    wait_until(lambda: http.get(path).json().get("state") in ("EMPTY", None), "the member has left")


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("offset=soon", 400, 400),
        ("offset=3", 400, 400),
        ("partition=9", 404, 40402),
        ("format=xml", 400, 400),
        ("isolation.level=none", 400, 400),
    ],
)
def test_bad_requests(http: httpx.Client, topic: str, query: str, status: int, code: int) -> None:
    answer = http.get(f"/topics/{topic}/stream?{query}", headers=EVENTS)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)


def test_a_topic_that_is_not_there(http: httpx.Client) -> None:
    answer = http.get("/topics/nowhere/stream", headers=EVENTS)
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40401)


def test_a_websocket(proxy: InBackground, broker: Broker, topic: str) -> None:
    host, port = proxy.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        connection = WSConnection(ConnectionType.CLIENT)
        target = f"/topics/{topic}/stream?offset=earliest"
        wire.sendall(connection.send(Request(host=f"{host}:{port}", target=target)))
        broker.produce(topic, b'{"n": 1}', partition=0)
        found: list[object] = []
        while not any(isinstance(each, TextMessage) for each in found):
            connection.receive_data(wire.recv(65536))
            found += connection.events()
        [message] = [each for each in found if isinstance(each, TextMessage)]
        assert json.loads(message.data)["value"] == {"n": 1}
        wire.sendall(connection.send(CloseConnection(code=1000)))
        while not isinstance(found[-1], CloseConnection):
            connection.receive_data(wire.recv(65536) or None)
            found += connection.events()
