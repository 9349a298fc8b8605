"""The Redis sinks against a real Redis."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("redis")
import redis

from ottla.connect import ConnectError, RetriableError, SchemaBuilder, Struct
from ottla.connect.connectors.redis.connector import RedisCacheSinkConnector, RedisSinkConnector
from ottla.connect.data.schema import INT64, OPTIONAL_STRING
from ottla.testing.connect import SinkHarness, check_sink
from ottla.testing.ports import free_ports

from .servers import program, running


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    server = program("redis-server", "redis-server")
    [port] = free_ports(1)
    directory = tmp_path_factory.mktemp("redis")
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    with running([*command, "--user", "ann", "on", ">secret", "~*", "&*", "+@all"], port, directory):
        yield port


@pytest.fixture
def client(port: int) -> Iterator[Any]:
    with redis.Redis(port=port, decode_responses=True) as found:
        found.flushall()
        yield found


@pytest.fixture
def config(port: int) -> Callable[..., dict[str, str]]:
    def make(**settings: str) -> dict[str, str]:
        named = {f"redis.{name}": value for name, value in settings.items()}
        return {"name": "cache", "redis.uri": f"redis://127.0.0.1:{port}", **named}

    return make


Make = Callable[..., dict[str, str]]


def test_streams_get_each_record_once_whatever_crashes(config: Make, client: Any) -> None:
    def fresh() -> dict[str, str]:
        client.flushall()
        return config(command="XADD")

    def send(sink: SinkHarness) -> None:
        for number in range(12):
            sink.send("events", {"n": number}, partition=number % 2)

    def stored() -> list[int]:
        return sorted(int(fields["n"]) for _, fields in client.xrange("events"))

    assert check_sink(RedisSinkConnector, fresh, send, stored) == list(range(12))
    assert client.get("ottla.connect.offset.cache.events.1") == "6"


def test_a_task_that_was_replaced_writes_nothing_twice(config: Make, client: Any) -> None:
    settings = config(command="LPUSH", key="list")
    with SinkHarness(RedisSinkConnector, settings) as old, SinkHarness(RedisSinkConnector, settings) as new:
        old.send("t", 0, key="zero")
        old.put()
        for number, name in enumerate(("zero", "one")):
            new.send("t", number, key=name)
        new.commit()
        for number, name in enumerate(("one", "two"), start=1):
            old.send("t", number, key=name)
        old.commit()
    assert client.lrange("list", 0, -1) == ["two", "one", "zero"]


def test_what_another_task_writes_between_look_and_write_is_not_written_again(
    config: Make, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(command="LPUSH", key="list")
    interfering = [True]
    multi = redis.client.Pipeline.multi

    def late(pipeline: Any) -> None:
        if interfering:
            interfering.clear()
            with SinkHarness(RedisSinkConnector, settings) as other:
                other.send("t", 0, key="zero")
                other.commit()
        multi(pipeline)

    monkeypatch.setattr(redis.client.Pipeline, "multi", late)
    with SinkHarness(RedisSinkConnector, settings) as sink:
        sink.send("t", 0, key="zero")
        sink.send("t", 1, key="one")
        sink.commit()
    assert not interfering
    assert client.lrange("list", 0, -1) == ["one", "zero"]


def test_two_connectors_of_one_topic_do_not_disturb_each_other(config: Make, client: Any) -> None:
    for name in ("one", "two"):
        with SinkHarness(RedisSinkConnector, {**config(command="LPUSH", key="list"), "name": name}) as sink:
            sink.send("t", 1, key="member")
            sink.commit()
    assert client.lrange("list", 0, -1) == ["member", "member"]


def test_hashes_and_deletes(config: Make, client: Any) -> None:
    schema = SchemaBuilder().field("id", INT64).field("name", OPTIONAL_STRING).build()
    with SinkHarness(RedisSinkConnector, config(command="HSET")) as sink:
        sink.send("users", Struct(schema, {"id": 1, "name": "Ada"}), value_schema=schema, key=1)
        sink.send("users", {"id": 2, "ok": True, "tags": ["a"], "none": None}, key="two")
        sink.send("users", {"id": 3}, key="three")
        sink.send("users", None, key="three")
        sink.commit()
    assert client.hgetall("users:1") == {"id": "1", "name": "Ada"}
    assert client.hgetall("users:two") == {"id": "2", "ok": "true", "tags": '["a"]'}
    assert not client.exists("users:three")


def test_strings_under_their_own_keys(config: Make, client: Any) -> None:
    with SinkHarness(RedisSinkConnector, config(command="SET", key="")) as sink:
        sink.send("t", b"\x01\x02", key="raw")
        sink.send("t", "text", key=b"k")
        sink.commit()
    assert client.get("raw") == "\x01\x02"
    assert client.get("k") == "text"


def test_sets_and_sorted_sets(config: Make, client: Any) -> None:
    for command, key in (("SADD", "set"), ("ZADD", "sorted")):
        with SinkHarness(RedisSinkConnector, config(command=command, key=key)) as sink:
            sink.send(key, 1, key="a")
            sink.send(key, 2, key="b")
            sink.send(key, None, key="a")
            sink.commit()
    assert client.smembers("set") == {"b"}
    assert client.zrange("sorted", 0, -1, withscores=True) == [("b", 2.0)]


def test_the_cache_sink(port: int) -> None:
    config = {"redis.hosts": f"127.0.0.1:{port}", "name": "c"}
    with SinkHarness(RedisCacheSinkConnector, config) as sink:
        sink.send("t", "1", key="a")
        sink.send("t", "2", key="b")
        sink.send("t", None, key="a")
        sink.commit()
    with redis.Redis(port=port, db=1, decode_responses=True) as second:
        assert second.get("b") == "2"
        assert not second.exists("a")


def test_records_that_do_not_fit_are_reported(config: Make, client: Any) -> None:
    client.set("taken", "text")
    with SinkHarness(RedisSinkConnector, config(command="XADD", key="${topic}")) as sink:
        sink.send("ok", "text")
        sink.send("taken", {"n": 1})
        sink.send("ok", {"n": 2})
        sink.commit()
        reasons = [str(error) for _, error in sink.reported]
    assert reasons[0].startswith("The value has to be a struct or a map for XADD, not str")
    assert "WRONGTYPE" in reasons[1]
    assert len(client.xrange("ok")) == 1


def test_a_module_that_is_missing_is_named(config: Make) -> None:
    with SinkHarness(RedisSinkConnector, config(command="JSONSET")) as sink:
        sink.send("t", {"a": 1}, key="k")
        with pytest.raises(ConnectError, match=r"does not know JSON.SET: it needs the module"):
            sink.commit()


def test_a_wrong_password_is_named(config: Make, client: Any) -> None:
    with SinkHarness(RedisSinkConnector, config(username="ann", password="secret")):
        pass
    with pytest.raises(ConnectError, match="refuses the login"):
        SinkHarness(RedisSinkConnector, config(username="ann", password="wrong")).start()


def test_a_server_that_does_not_answer_is_named() -> None:
    [port] = free_ports(1)
    with pytest.raises(ConnectError, match=f"Cannot reach Redis at 127.0.0.1:{port}"):
        SinkHarness(RedisSinkConnector, {"redis.uri": f"redis://127.0.0.1:{port}"}).start()
    with pytest.raises(ConnectError, match="is not an address such as"):
        SinkHarness(RedisSinkConnector, {"redis.uri": "127.0.0.1"}).start()


def test_a_connection_that_is_lost_is_tried_again(tmp_path: Any) -> None:
    server = program("redis-server", "redis-server")
    [port] = free_ports(1)
    command = [server, "--port", str(port), "--save", "", "--appendonly", "yes", "--dir", str(tmp_path)]
    config = {"name": "c", "redis.uri": f"redis://127.0.0.1:{port}", "redis.command": "LPUSH"}
    with SinkHarnessStopped(config, command, port, tmp_path) as sink:
        sink.send("t", 1, key="b")
        with pytest.raises(RetriableError, match="Cannot reach Redis"):
            sink.put()
        with running(command, port, tmp_path), redis.Redis(port=port, decode_responses=True) as client:
            wait_until_loaded(client)
            sink.commit()
            assert client.lrange("t", 0, -1) == ["b", "a"]


def wait_until_loaded(client: redis.Redis) -> None:
    """Wait until the server has loaded its file. It accepts connections before that."""
    deadline = time.monotonic() + 60
    while True:
        try:
            client.ping()
            return
        except redis.BusyLoadingError:
            assert time.monotonic() < deadline, "Redis does not end loading"
            time.sleep(0.01)


class SinkHarnessStopped(SinkHarness):
    """A sink whose Redis stops after the first record."""

    def __init__(self, config: dict[str, str], command: list[str], port: int, directory: Any) -> None:
        super().__init__(RedisSinkConnector, config)
        self._server = (command, port, directory)

    def start(self) -> None:
        with running(*self._server):
            super().start()
            self.send("t", 1, key="a")
            self.commit()
