"""Changes of a customer table, in the format of Debezium's connectors."""

from __future__ import annotations

from typing import Any

from ottla.connect import Schema, SchemaBuilder, Struct
from ottla.connect.data.schema import INT64, OPTIONAL_STRING, STRING

CUSTOMER = (
    SchemaBuilder("shop.customers.Value", optional=True)
    .field("id", INT64)
    .field("name", OPTIONAL_STRING)
    .build()
)
KEY = SchemaBuilder("shop.customers.Key").field("id", INT64).build()


def _envelope() -> Schema:
    source = SchemaBuilder("io.debezium.connector.postgresql.Source").field("db", STRING).build()
    builder = SchemaBuilder("shop.customers.Envelope").field("before", CUSTOMER).field("after", CUSTOMER)
    return builder.field("source", source).field("op", STRING).field("ts_ms", INT64).build()


ENVELOPE = _envelope()


def customer(id: int, name: str) -> Struct:
    return Struct(CUSTOMER, {"id": id, "name": name})


def change(before: Struct | None, after: Struct | None) -> dict[str, Any]:
    """Return the arguments for `SinkHarness.send`."""
    op = "c" if before is None else "d" if after is None else "u"
    row = after or before
    assert row is not None
    value = Struct(ENVELOPE, {"before": before, "after": after, "op": op, "ts_ms": 1})
    return {
        "value": value,
        "value_schema": ENVELOPE,
        "key": Struct(KEY, {"id": row.get("id")}),
        "key_schema": KEY,
    }
