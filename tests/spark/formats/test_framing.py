"""Promise: each record is decoded with the schema it names, in any position; all others are bad rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow")

import pyarrow as pa

from ottla.client.errors import Unreachable
from ottla.client.schema_registry import PROTOBUF, RegistrySettings, Schema, SchemaRegistry
from ottla.spark.formats.registered import schema_source
from ottla.spark.formats.registered.decoder import RegisteredDecoder, format_decoder
from ottla.spark.formats.registered.framing import SchemaName, guid_header, unframe, with_header
from ottla.spark.formats.registered.schema_source import SchemaSource
from tests.client.registry_server import RegistryServer
from tests.spark.formats.avro_schemas import written
from tests.spark.formats.test_protobuf_decoder import CLASSES, PROTO

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
OLD: Any = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
NEW: Any = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": "int", "default": 3}],
}
GUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


def test_ids_guids_headers_nulls_and_nonsense() -> None:
    values = [
        framed(7, b"a"),
        None,
        b"\1" + GUID.bytes + b"b",
        b"",
        b"\2xxxxxxxxxxxxxxxxxxxx",
        b"\0\0\0\0",
        framed(9, b""),
        b"c",
    ]
    rows: list[Any] = [None] * 7 + [
        [{"key": "x", "value": b""}, {"key": "__value_schema_id", "value": b"\1" + GUID.bytes + b"\2\4"}]
    ]
    found = unframe(pa.array(values, pa.binary()), pa.array(rows, HEADERS), "value")
    names = [found.names[each] if each >= 0 else None for each in found.which]
    assert names == [
        SchemaName(7),
        None,
        SchemaName(guid=str(GUID)),
        None,
        None,
        None,
        SchemaName(9),
        SchemaName(guid=str(GUID), rest=b"\2\4"),
    ]
    assert found.skipped.tolist() == [5, 0, 17, 0, 0, 0, 5, 0]
    assert sorted(found.reasons) == [3, 4, 5]


def test_headers_of_keys_are_not_those_of_values_and_a_slice_is_like_a_whole() -> None:
    values = pa.array([b"?", framed(1, b"a"), framed(1, b"b")], pa.binary()).slice(1)
    pairs = [[{"key": "__key_schema_id", "value": framed(2, b"")}], None]
    headers = pa.array([None, *pairs], HEADERS).slice(1)
    as_values = unframe(values, headers, "value")
    assert [as_values.names[each].id for each in as_values.which] == [1, 1]
    as_keys = unframe(values, headers, "key")
    assert [as_keys.names[each].id for each in as_keys.which] == [2, 1]
    assert as_keys.skipped.tolist() == [0, 5]


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server
    schema_source.shared_registry(RegistrySettings((server.url,))).close()


def decoder_of(server: RegistryServer, kind: str, schema: Schema) -> RegisteredDecoder:
    source = SchemaSource(RegistrySettings((server.url,)), subject="s")
    return RegisteredDecoder(format_decoder(kind, source, schema, None, "value"), kind, source, schema)


def test_writers_are_asked_for_once_and_unknown_ones_again(server: RegistryServer) -> None:
    with SchemaRegistry(RegistrySettings((server.url,))) as registry:
        old = registry.register("s", Schema(json.dumps(OLD)))
        new = registry.register("s", Schema(json.dumps(NEW)))
        decoder = decoder_of(server, "avro", registry.by_id(new))
        values = pa.array(
            [
                framed(old, written(OLD, {"id": 1})),
                framed(new, written(NEW, {"id": 2, "x": 4})),
                framed(3, b"\2"),
                None,
            ],
            pa.binary(),
        )
        for _ in range(3):
            result = decoder.decode(values, None, "value")
            assert result.column.to_pylist() == [{"id": 1, "x": 3}, {"id": 2, "x": 4}, None, None]
            assert result.reasons == {2: "schema 3 is not in the registry"}
        assert server.requests.count(f"GET /schemas/ids/{old}") == 1
        assert server.requests.count("GET /schemas/ids/3") == 3
        # The record arrives now.
        third = registry.register("other", Schema('{"type": "record", "name": "R", "fields": []}'))
        assert third == 3
        reason = decoder.decode(values, None, "value").reasons[2]
        assert reason == "it was written with schema 3: id was not written, and it has no default"


def test_a_registry_that_is_gone_ends_the_task() -> None:
    with RegistryServer() as server:
        decoder = decoder_of(server, "avro", Schema(json.dumps(NEW)))
    with pytest.raises(Unreachable, match="No schema registry answers"):
        decoder.decode(pa.array([framed(1, b"\2")], pa.binary()), None, "value")


def test_indexes_of_a_message_may_be_in_the_header(server: RegistryServer) -> None:
    with SchemaRegistry(RegistrySettings((server.url,))) as registry:
        number = registry.register("s", Schema(PROTO, PROTOBUF))
        decoder = decoder_of(server, "protobuf", registry.by_id(number))
        guid = b"\1" + uuid.UUID(server.guid(number)).bytes
        data = CLASSES["Order"](i32=5).SerializeToString()
        headers: list[Any] = [
            [{"key": "__value_schema_id", "value": guid + rest}] for rest in (b"\0", b"\2\0", b"\2\4")
        ]
        values = pa.array([data, data, data, framed(number, b"\0" + data)], pa.binary())
        result = decoder.decode(values, pa.array([*headers, None], HEADERS), "value")
        assert [row and row["i32"] for row in result.column.to_pylist()] == [5, 5, None, 5]
        assert result.reasons == {2: "it is a message shop.Other, not shop.Order"}


@pytest.mark.parametrize("kind", ["avro", "protobuf", "jsonschema"])
def test_a_batch_without_any_schema_has_nulls_and_reasons(kind: str) -> None:
    """A task's first batch may hold only tombstones and invalid records."""
    columns = '{"type":"struct","fields":[{"name":"a","type":"integer","nullable":true,"metadata":{}}]}'
    source = SchemaSource(RegistrySettings(("http://127.0.0.1:1",)))
    reader = Schema("")
    decoder = RegisteredDecoder(format_decoder(kind, source, reader, columns, "value"), kind, source, reader)
    found = decoder.decode(pa.array([None, b"x", b""], pa.binary()), None, "value")
    assert found.column.to_pylist() == [None, None, None]
    assert found.reasons == {
        1: "it does not begin with the id of a schema",
        2: "it is empty, and has no id of a schema",
    }


def test_a_header_names_the_schema_of_records_that_are_not_null() -> None:
    data = guid_header("00000000-0000-0000-0000-00000000000a", b"\0")
    assert data == b"\1" + bytes(15) + b"\x0a\0"
    records = pa.array([b"x", None, b"y"], pa.binary())
    pair = {"key": "__value_schema_id", "value": data}
    assert with_header(None, "value", data, records).to_pylist() == [[pair], [], [pair]]
    own = pa.array([[{"key": "h", "value": b"1"}], None, []], with_header(None, "key", data, records).type)
    assert with_header(own, "value", data, records).to_pylist() == [
        [{"key": "h", "value": b"1"}, pair],
        [],
        [pair],
    ]
    framed = unframe(records, with_header(None, "value", data, records), "value")
    assert [str(each) for each in framed.names] == ["00000000-0000-0000-0000-00000000000a"]
    assert framed.which.tolist() == [0, -1, 0]
