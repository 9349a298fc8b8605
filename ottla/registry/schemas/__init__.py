"""The three schema types of the registry: parsing, stored texts, compatibility. Pure.

`parse` reads a text, `check` compares two parsed schemas.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.registry.schemas.parsed import Incompatibility, InvalidSchema, ParsedSchema

__all__ = ["SCHEMA_TYPES", "Incompatibility", "InvalidSchema", "ParsedSchema", "check", "parse"]

SCHEMA_TYPES = ("JSON", "PROTOBUF", "AVRO")


def parse(
    schema_type: str, text: str, references: Mapping[str, ParsedSchema], *, stored: bool = False
) -> ParsedSchema:
    """Parse `text`, which refers to `references` by their names. Raises `InvalidSchema`.

    A `stored` schema may predate a rule that it violates. Defaults in Avro, patterns in JSON Schema, and reserved
    numbers and names in Protobuf are checked for new schemas only.
    """
    # Each type has its own libraries; a registry with only Avro schemas never loads the others.
    if schema_type == "AVRO":
        from ottla.registry.schemas.avro import parse_avro

        return parse_avro(text, references, stored=stored)
    if schema_type == "JSON":
        from ottla.registry.schemas.json_schema import parse_json_schema

        return parse_json_schema(text, references, stored=stored)
    if schema_type == "PROTOBUF":
        from ottla.registry.schemas.protobuf import parse_protobuf

        return parse_protobuf(text, references, stored=stored)
    raise InvalidSchema(f"unknown schema type {schema_type}: it is one of {', '.join(sorted(SCHEMA_TYPES))}")


def check(reader: ParsedSchema, writer: ParsedSchema, policy: str = "STRICT") -> list[Incompatibility]:
    """Return why data written with `writer` cannot be read with `reader`; empty if it can.

    `policy` (STRICT, LENIENT, LOGICAL) matters for JSON Schema only.
    """
    if reader.schema_type != writer.schema_type:
        types = f"{{reader}} {reader.schema_type}, {{writer}} {writer.schema_type}"
        template = f"The type of the schema has changed: {types}"
        return [Incompatibility("SCHEMA_TYPE_CHANGED", "/", template)]
    return reader.check(writer, policy)
