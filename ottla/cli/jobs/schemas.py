"""Keys and values whose schemas a registry keeps, in `ottla produce` and `ottla consume`: JSON on our side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.jobs.messages import ConsumedMessage, OutgoingMessage
from ottla.client.errors import ClientError
from ottla.client.schema_codecs import BadData, FramedTexts, SchemaCodecs, decode, encode, unframed
from ottla.client.schema_registry import AVRO, JSON, PROTOBUF, RegistrySettings, Schema, SchemaRegistry

KINDS = {"avro": AVRO, "json-schema": JSON, "protobuf": PROTOBUF}
AUTO, RAW = "auto", "raw"


def open_registry(properties: dict[str, str]) -> SchemaRegistry:
    try:
        return SchemaRegistry(RegistrySettings.from_properties(properties))
    except ClientError as error:
        raise JobError(error.message) from None


# Reading

Decoder = Callable[[bytes | None, str], bytes | None]


class Decoding:
    """Of messages that are shown. With `auto` what begins with the id of a schema is JSON, if it can be."""

    def __init__(self, registry: SchemaRegistry, key_format: str, value_format: str) -> None:
        self._codecs = SchemaCodecs(registry)
        self._framed = FramedTexts(registry)
        self._key = self._decoder(key_format)
        self._value = self._decoder(value_format)

    @property
    def is_needed(self) -> bool:
        return self._key is not None or self._value is not None

    def message(self, message: ConsumedMessage) -> ConsumedMessage:
        where = f"{message.topic}-{message.partition}@{message.offset}"
        if self._key is not None:
            message.key = self._key(message.key, f"The key of {where}")
        if self._value is not None:
            message.value = self._value(message.value, f"The value of {where}")
        return message

    def _decoder(self, form: str) -> Decoder | None:
        if form == RAW:
            return None
        return self._guessed if form == AUTO else self._of_kind(KINDS[form])

    def _guessed(self, data: bytes | None, _where: str) -> bytes | None:
        text = self._framed.text(data)
        return data if text is None else text.encode()

    def _of_kind(self, kind: str) -> Decoder:
        def read(data: bytes | None, where: str) -> bytes | None:
            if data is None:
                return None
            try:
                schema_id, payload = unframed(data)
                found = self._codecs.registry.by_id(schema_id).type
                if found != kind:
                    raise JobError(
                        f"{where} was written with schema {schema_id}, which is {found}, not {kind}."
                    )
                value = decode(self._codecs.by_id(schema_id), payload)
            except BadData as error:
                raise JobError(f"{where} cannot be read with its schema: {error}") from None
            except ClientError as error:
                raise JobError(f"{where} cannot be read: {error.message}") from None
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

        return read


# Writing


class Encoding:
    """Of messages that are sent: keys and values that are JSON, by schemas that are found before the first of them."""

    def __init__(self, registry: SchemaRegistry, topic: str) -> None:
        self._codecs = SchemaCodecs(registry)
        self._topic = topic
        self._ids: dict[str, int] = {}

    def use(self, part: str, form: str, schema: str | None, schema_id: int | None) -> None:
        """`schema` is a file, or the schema itself; without it and without an id, the latest of the subject is used."""
        registry, subject = self._codecs.registry, f"{self._topic}-{part}"
        try:
            if schema_id is None and schema is not None:
                schema_id = registry.register(subject, Schema(_text(schema), KINDS[form]))
            elif schema_id is None:
                schema_id = registry.latest(subject).id
            found = registry.by_id(schema_id)
            if found.type != KINDS[form]:
                raise JobError(f"Schema {schema_id} is {found.type}, not {KINDS[form]}.")
            self._codecs.by_id(schema_id)
        except ClientError as error:
            raise JobError(f"The schema of the {part}: {error.message}") from None
        self._ids[part] = schema_id

    def message(self, message: OutgoingMessage) -> OutgoingMessage:
        if "key" in self._ids:
            message = replace(message, key=self._encoded(message.key, "key", self._ids["key"]))
        if "value" in self._ids:
            message = replace(message, value=self._encoded(message.value, "value", self._ids["value"]))
        return message

    def _encoded(self, text: bytes | None, part: str, schema_id: int) -> bytes | None:
        if text is None:
            return None
        shown = text.decode(errors="replace")[:200]
        try:
            return encode(self._codecs.by_id(schema_id), json.loads(text), schema_id)
        except BadData as error:
            raise JobError(f"A {part} does not fit schema {schema_id}. {error} It is {shown}") from None
        except ValueError:
            raise JobError(
                f"A {part} is not JSON, which is encoded with schema {schema_id}: {shown}"
            ) from None


def _text(schema: str) -> str:
    path = Path(schema)
    try:
        if len(schema) < 4096 and path.is_file():
            return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"Cannot read the schema in {schema}: {reason}.") from None
    if schema.lstrip()[:1] not in ("{", "[", '"') and "message" not in schema and len(schema.split()) == 1:
        if schema not in ("null", "boolean", "int", "long", "float", "double", "bytes", "string"):
            raise JobError(f"There is no file {schema}.")
        return json.dumps(schema)
    return schema
