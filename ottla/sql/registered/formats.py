"""The names of the formats, and what each of them can."""

from __future__ import annotations

#: SQL's name → that of `ottla.spark.formats`
REGISTERED = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON_SR": "jsonschema"}
#: Messages without the bytes that name their schema: columns say all.
WITHOUT_REGISTRY = "PROTOBUF_NOSR"
#: What a registry calls a schema → SQL's name of the format
OF_TYPE = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON": "JSON_SR"}

#: Formats that are decoded and encoded by functions; the others by expressions of Spark SQL.
BINARY = ("AVRO", "PROTOBUF", WITHOUT_REGISTRY)
#: The bytes before the value of JSON_SR: zero, and the id of its schema.
FRAME_BYTES = 5


def is_json(form: str) -> bool:
    return form in ("JSON", "JSON_SR")


def can_be_bare(form: str) -> bool:
    """Whether one column may be the whole key or value, without a record around it."""
    return form in ("JSON", "JSON_SR", "AVRO")
