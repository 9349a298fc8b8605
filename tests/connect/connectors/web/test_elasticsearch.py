"""The Elasticsearch sink against a small server with a bulk API and external versions."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
from collections.abc import Iterator

import pytest

pytest.importorskip("httpx")

from ottla.connect import ConfigError, ConnectError, Header, Schema, SchemaBuilder, SchemaType, Struct
from ottla.connect.connectors.elasticsearch.connector import ElasticsearchSinkConnector
from ottla.connect.data.schema import INT64, STRING, array
from ottla.testing.connect import SinkHarness, check_sink
from ottla.testing.ports import free_ports

from .bulk_server import BulkServer
from .http_server import Server, answering


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[BulkServer, Server]]:
    store = BulkServer()
    with answering(store) as server:
        yield store, server


@pytest.fixture
def store(running: tuple[BulkServer, Server]) -> BulkServer:
    running[0].__init__()  # type: ignore[misc]
    return running[0]


@pytest.fixture
def url(running: tuple[BulkServer, Server]) -> str:
    return running[1].url


def test_documents_by_key_are_the_newest_whatever_crashes(store: BulkServer, url: str) -> None:
    def fresh() -> dict[str, str]:
        store.__init__()  # type: ignore[misc]
        return {"connection.url": url, "behavior.on.null.values": "delete", "schema.ignore": "true"}

    def send(sink: SinkHarness) -> None:
        for number in range(15):
            sink.send("Orders", {"n": number}, key=number % 4)
        sink.send("Orders", None, key=2)

    stored = check_sink(ElasticsearchSinkConnector, fresh, send, lambda: dict(store.indices["orders"]))
    assert stored == {"0": {"n": 12}, "1": {"n": 13}, "3": {"n": 11}}


def test_documents_by_offset_are_there_once(store: BulkServer, url: str) -> None:
    def fresh() -> dict[str, str]:
        store.__init__()  # type: ignore[misc]
        return {"connection.url": url, "key.ignore": "true", "batch.size": "4"}

    def send(sink: SinkHarness) -> None:
        for number in range(12):
            sink.send("t", {"n": number}, partition=number % 2)

    stored = check_sink(ElasticsearchSinkConnector, fresh, send, lambda: dict(store.indices["t"]))
    assert stored == {f"t+{number % 2}+{number // 2}": {"n": number} for number in range(12)}


def test_an_index_gets_its_mapping_from_the_schema(store: BulkServer, url: str) -> None:
    timestamp = Schema(SchemaType.INT64, name="org.apache.kafka.connect.data.Timestamp")
    money = Schema(SchemaType.BYTES, name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"})
    inner = SchemaBuilder().field("city", STRING).build()
    builder = SchemaBuilder().field("id", INT64).field("at", timestamp).field("price", money)
    schema = builder.field("address", inner).field("tags", array(STRING)).build()
    when = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    value = Struct(
        schema,
        {
            "id": 1,
            "at": when,
            "price": decimal.Decimal("9.99"),
            "address": Struct(inner, {"city": "Oslo"}),
            "tags": ["a"],
        },
    )
    with SinkHarness(ElasticsearchSinkConnector, {"connection.url": url}) as sink:
        sink.send("t", value, value_schema=schema, key="k")
        sink.commit()
    text = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
    assert store.mappings["t"] == {
        "properties": {
            "id": {"type": "long"},
            "at": {"type": "date"},
            "price": {"type": "double"},
            "address": {"properties": {"city": text}},
            "tags": text,
        }
    }
    assert store.indices["t"]["k"] == {
        "id": 1,
        "at": int(when.timestamp() * 1000),
        "price": 9.99,
        "address": {"city": "Oslo"},
        "tags": ["a"],
    }


def test_upserts_change_the_fields_that_are_there(store: BulkServer, url: str) -> None:
    with SinkHarness(ElasticsearchSinkConnector, {"connection.url": url, "write.method": "UPSERT"}) as sink:
        sink.send("t", {"a": 1, "b": 1}, key="k")
        sink.send("t", {"b": 2}, key="k")
        sink.commit()
    assert store.indices["t"] == {"k": {"a": 1, "b": 2}}


def test_a_version_from_a_header(store: BulkServer, url: str) -> None:
    with SinkHarness(
        ElasticsearchSinkConnector, {"connection.url": url, "external.version.header": "v"}
    ) as sink:
        sink.send("t", {"n": "new"}, key="k", headers=[Header("v", 7)])
        sink.send("t", {"n": "old"}, key="k", headers=[Header("v", "6")])
        sink.send("t", {"n": "none"}, key="k")
        sink.commit()
        assert "The header 'v' has no number" in str(sink.reported[0][1])
    assert store.indices["t"] == {"k": {"n": "new"}}


def test_a_busy_server_is_asked_again(store: BulkServer, url: str) -> None:
    store.busy = 3
    with SinkHarness(ElasticsearchSinkConnector, {"connection.url": url, "retry.backoff.ms": "1"}) as sink:
        for number in range(2):
            sink.send("t", {"n": number}, key=number)
        sink.commit()
    assert len(store.indices["t"]) == 2


@pytest.mark.parametrize(("behavior", "reported"), [("fail", 1), ("ignore", 0), ("warn", 0)])
def test_documents_that_the_index_refuses(store: BulkServer, url: str, behavior: str, reported: int) -> None:
    schema = SchemaBuilder().field("id", INT64).build()
    config = {"connection.url": url, "behavior.on.malformed.documents": behavior}
    with SinkHarness(ElasticsearchSinkConnector, config) as sink:
        sink.send("t", Struct(schema, {"id": 1}), value_schema=schema, key="a")
        sink.send("t", {"id": "one"}, key="b")
        sink.send("t", {"id": 3}, key="c")
        sink.commit()
        assert len(sink.reported) == reported
        if reported:
            assert "refuses the document 'b': failed to parse field [id]" in str(sink.reported[0][1])
    assert list(store.indices["t"]) == ["a", "c"]


def test_records_that_are_no_documents_are_reported(store: BulkServer, url: str) -> None:
    with SinkHarness(ElasticsearchSinkConnector, {"connection.url": url}) as sink:
        sink.send("t", {"a": 1})
        sink.send("t", {"a": 1}, key={"x": 1})
        sink.send("t", "text", key="k")
        sink.send("t", None, key="k")
        sink.commit()
        reasons = [str(error) for _, error in sink.reported]
    assert "can not be null" in reasons[0]
    assert "dict is not supported as the document id" in reasons[1]
    assert "has to be a struct or a map" in reasons[2]
    assert "has no value" in reasons[3]


def test_a_login_is_sent_and_its_refusal_named(store: BulkServer, url: str) -> None:
    store.login = "Basic " + base64.b64encode(b"ann:secret").decode()
    config = {"connection.url": url, "connection.username": "ann"}
    with SinkHarness(ElasticsearchSinkConnector, {**config, "connection.password": "secret"}) as sink:
        sink.send("t", {"a": 1}, key="k")
        sink.commit()
    with pytest.raises(ConnectError, match="refuses the login: 401"):
        SinkHarness(ElasticsearchSinkConnector, {**config, "connection.password": "wrong"}).start()


def test_the_next_node_is_asked_if_one_does_not_answer(store: BulkServer, url: str) -> None:
    [port] = free_ports(1)
    config = {"connection.url": f"http://127.0.0.1:{port},{url}", "max.retries": "0"}
    with SinkHarness(ElasticsearchSinkConnector, config) as sink:
        sink.send("t", {"a": 1}, key="k")
        sink.commit()
    assert store.indices["t"] == {"k": {"a": 1}}
    with pytest.raises(ConnectError, match=f"Cannot reach http://127.0.0.1:{port}"):
        SinkHarness(
            ElasticsearchSinkConnector, {"connection.url": f"127.0.0.1:{port}", "max.retries": "0"}
        ).start()


def test_bad_settings_are_named() -> None:
    for config, why in (
        ({"connection.url": "ftp://host"}, "is not an address"),
        (
            {"connection.url": "h", "connection.username": "ann"},
            "Both connection.username and connection.password",
        ),
        ({"connection.url": "h", "write.method": "UPSERT", "key.ignore": "true"}, "UPSERT needs the key"),
        ({}, 'Missing required configuration "connection.url"'),
    ):
        with pytest.raises(ConfigError, match=why):
            SinkHarness(ElasticsearchSinkConnector, config)
