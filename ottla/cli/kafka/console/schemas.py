"""Lines and messages with a schema: `kafka-avro-console-producer`, `kafka-avro-console-consumer` and their like.

They are the console producer and consumer with another reader of lines and another formatter, under the names that
Confluent's have. A key or value that a property names a serializer for has no schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.jobs.messages import OutgoingMessage
from ottla.cli.kafka.console.console_consumer import Deserializer, Formatter, default_formatter, deserializer
from ottla.cli.kafka.console.console_producer import LineReader
from ottla.client.errors import ClientError
from ottla.client.schema_codecs import BadData, SchemaCodecs, decode, encode, unframed
from ottla.client.schema_registry import AVRO, JSON, PROTOBUF, RegistrySettings, Schema, SchemaRegistry

_PACKAGE = "io.confluent.kafka.formatter"
#: By the name of the tool.
KINDS = {"avro": AVRO, "json-schema": JSON, "protobuf": PROTOBUF}
READERS = {
    f"{_PACKAGE}.AvroMessageReader": AVRO,
    f"{_PACKAGE}.json.JsonSchemaMessageReader": JSON,
    f"{_PACKAGE}.protobuf.ProtobufMessageReader": PROTOBUF,
}
FORMATTERS = {
    f"{_PACKAGE}.AvroMessageFormatter": AVRO,
    f"{_PACKAGE}.json.JsonSchemaMessageFormatter": JSON,
    f"{_PACKAGE}.protobuf.ProtobufMessageFormatter": PROTOBUF,
}
_DEFAULT_URL = "http://localhost:8081"


def short_names(classes: Mapping[str, str]) -> dict[str, str]:
    return {name.rpartition(".")[2]: kind for name, kind in classes.items()}


def _codecs(properties: Mapping[str, str]) -> SchemaCodecs:
    given = {"schema.registry.url": _DEFAULT_URL, **properties}
    if "basic.auth.user.info" in properties:
        given.setdefault("schema.registry.basic.auth.user.info", properties["basic.auth.user.info"])
    try:
        return SchemaCodecs(SchemaRegistry(RegistrySettings.from_properties(given)))
    except ClientError as error:
        raise JobError(error.message) from None


class SchemaReader:
    """Lines of JSON as messages. Their schemas are found before the first line is read."""

    def __init__(self, kind: str, topic: str, properties: Mapping[str, str]) -> None:
        self._lines = LineReader.from_properties(properties)
        self._codecs = _codecs(properties)
        self._kind = kind
        self._properties = properties
        self._value = self._schema(f"{topic}-value", "value")
        self._key = None
        if self._lines.parse_key and "key.serializer" not in properties:
            self._key = self._schema(f"{topic}-key", "key")

    def _schema(self, subject: str, which: str) -> int:
        given = self._properties
        try:
            if f"{which}.schema.id" in given:
                schema_id = int(given[f"{which}.schema.id"])
            else:
                schema = Schema(self._text(which), self._kind)
                if given.get("auto.register", given.get("auto.register.schemas", "true")).lower() == "true":
                    schema_id = self._codecs.registry.register(subject, schema)
                else:
                    schema_id = self._codecs.registry.lookup(subject, schema).id
            self._codecs.by_id(schema_id)
        except ValueError:
            raise JobError(
                f"{which}.schema.id must be a number, not {given[f'{which}.schema.id']}."
            ) from None
        except ClientError as error:
            raise JobError(error.message) from None
        return schema_id

    def _text(self, which: str) -> str:
        given = self._properties
        if f"{which}.schema" in given:
            return given[f"{which}.schema"]
        if f"{which}.schema.file" in given:
            path = given[f"{which}.schema.file"]
            try:
                return Path(path).read_text("utf-8")
            except OSError as error:
                raise JobError(f"Cannot read the schema in {path}: {error.strerror}.") from None
        raise JobError(
            f"Which schema has the {which}? Say --property {which}.schema=…, {which}.schema.file or "
            f"{which}.schema.id."
        )

    def messages(self, lines: Iterable[bytes]) -> Iterator[OutgoingMessage]:
        for message in self._lines.messages(lines):
            key = message.key if self._key is None else self._encoded(message.key, self._key)
            yield OutgoingMessage(self._encoded(message.value, self._value), key, message.headers)

    def _encoded(self, text: bytes | None, schema_id: int) -> bytes | None:
        if text is None:
            return None
        try:
            return encode(self._codecs.by_id(schema_id), json.loads(text), schema_id)
        except BadData as error:
            raise JobError(f"{error} The line is {text.decode(errors='replace')[:200]}") from None
        except ValueError:
            raise JobError(f"The line is not JSON: {text.decode(errors='replace')[:200]}") from None


def schema_formatter(properties: Mapping[str, str]) -> Formatter:
    codecs = _codecs(properties)

    def read(data: bytes) -> bytes:
        try:
            schema_id, payload = unframed(data)
            found = decode(codecs.by_id(schema_id), payload)
        except BadData as error:
            raise JobError(f"A message cannot be read with its schema: {error}") from None
        except ClientError as error:
            raise JobError(error.message) from None
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
        return text + b"\t%d" % schema_id if shows_ids else text

    def reader(which: str) -> Deserializer:
        named = properties.get(f"{which}.deserializer")
        return deserializer(named) if named else read

    shows_ids = properties.get("print.schema.ids", "false").lower() == "true"
    return default_formatter(properties, read_key=reader("key"), read_value=reader("value"))
