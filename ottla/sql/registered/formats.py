"""Names and capabilities of the formats."""

from __future__ import annotations

#: SQL name → name in `ottla.spark.formats`
REGISTERED = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON_SR": "jsonschema"}
#: Messages without a schema id: the columns define the schema.
WITHOUT_REGISTRY = "PROTOBUF_NOSR"
#: Schema type in the registry → SQL name of the format
OF_TYPE = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON": "JSON_SR"}

#: Formats with codec functions. The others use Spark SQL expressions.
BINARY = ("AVRO", "PROTOBUF", WITHOUT_REGISTRY)
#: Bytes before a JSON_SR value: a zero byte and the schema id.
FRAME_BYTES = 5


def is_json(form: str) -> bool:
    return form in ("JSON", "JSON_SR")


def can_be_bare(form: str) -> bool:
    """Return True if one column may be the whole key or value, without a surrounding record."""
    return form in ("JSON", "JSON_SR", "AVRO")
