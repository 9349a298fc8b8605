"""Encoding of columns in registry formats: options, registration in the driver, and encoding in tasks."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa

from ottla.client.errors import ClientError
from ottla.client.schema_registry import RegistrySettings, Schema
from ottla.spark.formats.json_types import arrow_type
from ottla.spark.formats.registered.framing import guid_header
from ottla.spark.formats.registered.registry_options import URL, parse_registry
from ottla.spark.formats.registered.schema_source import (
    TYPES,
    SchemaSource,
    columns_schema,
    shared_registry,
)
from ottla.spark.formats.value_format import REGISTERED, numba_needed
from ottla.spark.options import OptionError, Options

_TOPIC, _RECORD, _TOPIC_RECORD = "TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"
_PACKAGE = "io.confluent.kafka.serializers.subject."
_STRATEGIES = {
    name.lower(): each for each in (_TOPIC, _RECORD, _TOPIC_RECORD) for name in (each, _PACKAGE + each)
}

_PREFIX, _HEADER = "PrefixSchemaIdSerializer", "HeaderSchemaIdSerializer"
_ID_PACKAGE = "io.confluent.kafka.serializers.schema.id."
_ID_SERIALIZERS = {
    name.lower(): each == _HEADER for each in (_PREFIX, _HEADER) for name in (each, _ID_PACKAGE + each)
}

#: Options for writing, besides those shared with reading.
WRITE_OPTIONS = (
    "keyFormat", "valueFormat", "keySchema", "valueSchema", "keySubjectNameStrategy", "valueSubjectNameStrategy",
    "registerSchemas", "keySchemaIdSerializer", "valueSchemaIdSerializer",
)  # fmt: skip


class UnwritableRow(Exception):
    """A row cannot be encoded. The message says why."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


class FormatEncoder(Protocol):
    """Encoder for columns of one type."""

    def encode(self, column: pa.Array, frame: bytes) -> pa.BinaryArray:
        """Encode the rows, each after the frame. Null rows stay null. Raises UnwritableRow."""
        ...


@dataclass(frozen=True)
class Encoding:
    """Encoding of a column. `schema` and `frame` are set once the driver has asked the registry."""

    name: str
    part: str
    source: SchemaSource
    strategy: str = _TOPIC
    register: bool = True
    #: Whether a header contains the schema id instead of the prefix.
    in_header: bool = False
    schema: Schema | None = None
    frame: bytes = b""
    header: bytes = b""
    #: Whether Avro fields without null get their default instead.
    null_is_default: bool = False


def parse_encoding(given: Options, part: str) -> Encoding | None:
    """Parse the encoding of the key or the value, or return None for text and bytes."""
    formats = {name: name for name in (*REGISTERED, "raw")}
    name = given.choice(f"{part}Format", formats, "raw")
    if name == "raw":
        return None
    source = _source(given, part, parse_registry(given))
    if source.registry is None and source.text is None:
        raise OptionError(f"{part}Format={name} needs {URL}, such as http://localhost:8081.")
    strategy = given.choice(f"{part}SubjectNameStrategy", _STRATEGIES, _TOPIC)
    in_header = given.choice(f"{part}SchemaIdSerializer", _ID_SERIALIZERS, False)
    if in_header and source.registry is None:
        raise OptionError(
            f"{part}SchemaIdSerializer={_HEADER} needs {URL}: without a registry there are no ids."
        )
    return Encoding(name, part, source, strategy, given.flag("registerSchemas", True), in_header)


def _source(given: Options, part: str, registry: RegistrySettings | None) -> SchemaSource:
    version = given.text(f"{part}SchemaVersion")
    if version is not None and version.strip().lower() != "latest" and not version.strip().isdigit():
        raise OptionError(f"{part}SchemaVersion must be latest or a number above 0, not '{version}'.")
    return SchemaSource(
        registry,
        given.text(f"{part}Subject"),
        None if version is None else 0 if version.strip().lower() == "latest" else int(version),
        given.count(f"{part}SchemaId"),
        given.text(f"{part}Schema"),
        given.text(f"{part}Message"),
    )


def planned_encoding(encoding: Encoding, kind: Any, topic: str | None) -> Encoding:
    """Return the encoding with its registered or existing schema. `kind` is the column's Spark type."""
    try:
        columns = arrow_type(kind)
    except KeyError:
        raise OptionError(
            f"Column '{encoding.part}' cannot be written as {encoding.name}: it is {kind.simpleString()}."
        ) from None
    source = encoding.source
    if source.text is None and (source.id is not None or source.version is not None):
        subject = source.subject or _subject(encoding, topic, None)
        chosen = SchemaSource(source.registry, subject, source.version or None, source.id)
        schema = columns_schema(chosen, encoding.name)
        number = schema.id
    else:
        text = source.text or default_schema(encoding.name, columns)
        schema = Schema(text, TYPES[encoding.name])
        number = _registered_id(encoding, schema, topic)
    framed = source.registry is not None and not encoding.in_header
    planned = Encoding(
        encoding.name,
        encoding.part,
        source,
        in_header=encoding.in_header,
        schema=schema,
        frame=b"\0" + number.to_bytes(4, "big") if framed else b"",
    )
    # Refuse unencodable columns in the driver.
    encoder = format_encoder(planned, columns)
    if encoding.in_header:
        rest = getattr(encoder, "indexes", b"")
        planned = replace(planned, header=guid_header(_guid(source.registry, number), rest))
    return planned


def _guid(settings: RegistrySettings | None, number: int) -> str:
    assert settings is not None
    try:
        guid = shared_registry(settings).guid(number)
    except ClientError as error:
        raise OptionError(error.message) from None
    if not guid:
        raise OptionError(
            f"The schema registry gives no GUID for schema {number}, which headers name it by: "
            f"omit {_HEADER}."
        )
    return guid


def _registered_id(encoding: Encoding, schema: Schema, topic: str | None) -> int:
    settings = encoding.source.registry
    if settings is None:
        return 0
    subject = encoding.source.subject or _subject(encoding, topic, schema)
    registry = shared_registry(settings)
    try:
        return (
            registry.register(subject, schema) if encoding.register else registry.lookup(subject, schema).id
        )
    except ClientError as error:
        raise OptionError(
            f"The schema of '{encoding.part}' under subject '{subject}': {error.message}"
        ) from None


def _subject(encoding: Encoding, topic: str | None, schema: Schema | None) -> str:
    part, strategy = encoding.part, encoding.strategy
    if strategy != _RECORD and topic is None:
        raise OptionError(f"Rows go to many topics: name the subject of their schema with {part}Subject.")
    if strategy == _TOPIC:
        return f"{topic}-{part}"
    if schema is None:
        raise OptionError(f"{strategy} needs a schema to take its name from: say {part}Subject.")
    name = record_name(encoding.name, schema)
    return name if strategy == _RECORD else f"{topic}-{name}"


def encode_column(encoding: Encoding, column: pa.Array) -> pa.BinaryArray:
    encoder = format_encoder(encoding, column.type)
    try:
        return encoder.encode(column, encoding.frame)
    except UnwritableRow as error:
        raise ClientError(
            f"A row cannot be written as {encoding.name}: in column '{encoding.part}' {error.reason}."
        ) from None


# The formats


def default_schema(name: str, columns: pa.DataType) -> str:
    if name == "avro":
        from ottla.spark.formats.avro.encode_program import schema_of

        return schema_of(columns)
    if name == "jsonschema":
        from ottla.spark.formats.json_schema.types import schema_of as json_schema_of

        return json_schema_of(columns)
    from ottla.spark.formats.protobuf.encode_program import schema_of as proto_of

    return proto_of(columns)


def record_name(name: str, schema: Schema) -> str:
    if name == "avro":
        from ottla.spark.formats.avro.schema import parse

        found = parse(schema.text).name
        if found:
            return found
    if name == "protobuf":
        from ottla.spark.formats.protobuf.messages import Types

        return Types(schema, {}).by_indexes((0,))
    if name == "jsonschema":
        found = json.loads(schema.text).get("title")
        if found:
            return str(found)
    raise OptionError("The schema has no name for its subject. Set valueSubject.")


@lru_cache(maxsize=16)
def format_encoder(encoding: Encoding, columns: pa.DataType) -> FormatEncoder:
    if encoding.name == "jsonschema":
        from ottla.spark.formats.json_schema.encoder import JsonSchemaEncoder

        return JsonSchemaEncoder(columns)
    assert encoding.schema is not None
    if encoding.name == "protobuf":
        with numba_needed("protobuf"):
            from ottla.spark.formats.protobuf.encoder import ProtobufEncoder

        return ProtobufEncoder(
            encoding.source, encoding.schema, columns, encoding.part, in_header=encoding.in_header
        )
    with numba_needed("avro"):
        from ottla.spark.formats.avro.registered import avro_encoder

    return avro_encoder(
        encoding.source,
        encoding.schema,
        columns,
        encoding.part,
        null_is_default=encoding.null_is_default,
    )
