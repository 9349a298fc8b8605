"""JsonConverter: JSON with the schema in each record (`{"schema":…,"payload":…}`) or without."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.config.config_def import ConfigType, Importance, invalid
from ottla.connect.converters.converter import NULL, Converter, SchemaAndValue, converter_config
from ottla.connect.converters.json_format.reading import (
    Reader,
    Readers,
    read_plain,
    read_schemaless,
    scan,
    scan_decimals,
)
from ottla.connect.converters.json_format.schemas import read_schema, write_schema
from ottla.connect.converters.json_format.writing import Writers, to_bytes
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError


def _decimal_format(name: str, value: Any) -> None:
    if str(value).upper() not in ("BASE64", "NUMERIC"):
        raise invalid(name, value, "String must be one of (case insensitive): NUMERIC, BASE64")


class JsonConverter(Converter):
    config_def = (
        converter_config()
        .define(
            "schemas.enable",
            ConfigType.BOOLEAN,
            True,
            Importance.HIGH,
            "Whether each key and value carries its schema.",
            group="Schemas",
        )
        .define(
            "schemas.cache.size",
            ConfigType.INT,
            1000,
            Importance.HIGH,
            "Number of schemas that this converter caches.",
            group="Schemas",
        )
        .define(
            "schema.content",
            ConfigType.STRING,
            None,
            Importance.HIGH,
            (
                "Schema for all records read by a sink, instead of the schema in each record. Requires "
                "schemas.enable=true."
            ),
            group="Schemas",
        )
        .define(
            "decimal.format",
            ConfigType.STRING,
            "BASE64",
            Importance.LOW,
            "Format of written decimals: BASE64 (bytes) or NUMERIC (a number). Both can be read.",
            validator=_decimal_format,
            group="Serialization",
        )
        .define(
            "replace.null.with.default",
            ConfigType.BOOLEAN,
            True,
            Importance.LOW,
            "Replace null by the field's default value.",
            group="Serialization",
        )
    )

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        settings = self.config_def.parse(config)
        self._with_schemas: bool = settings["schemas.enable"]
        self._cache_size: int = max(1, settings["schemas.cache.size"])
        replace_null: bool = settings["replace.null.with.default"]
        self._writers = Writers(
            numeric_decimals=settings["decimal.format"].upper() == "NUMERIC",
            replace_null=replace_null,
            cache_size=self._cache_size,
        )
        self._readers = Readers(replace_null=replace_null, cache_size=self._cache_size)
        self._heads: dict[Schema | None, str] = {}
        #: The bytes before the payload with their schema and reader. Most records start like the previous one.
        self._last_head: tuple[bytes, Schema, Reader] | None = None
        self._schemas: dict[str, Schema] = {}
        self._schema: Schema | None = None
        content = settings["schema.content"]
        if content:
            try:
                node = scan(content.encode())
            except DataError as error:
                reason = error.message.partition("serialization error: ")[2]
                raise DataError(
                    f"Failed to parse schema in converter config due to serialization error: {reason}"
                ) from None
            self._schema = self._read_schema(node)

    # To bytes

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None and value is None:
            return None
        payload = self._writers.of(schema)(value)
        if not self._with_schemas:
            return to_bytes(payload)
        return to_bytes(f"{self._head(schema)}{payload}}}")

    def all_from_connect(
        self, topic: str, schema: Schema | None, values: Sequence[Any]
    ) -> list[bytes | None]:
        if schema is None or not values:
            return super().all_from_connect(topic, schema, values)
        # This JSON contains no line feeds.
        payloads = "\n".join(self._writers.write_all(schema, values))
        written = to_bytes(payloads).split(b"\n")
        if not self._with_schemas:
            return [*written]
        head = to_bytes(self._head(schema))
        return [b"%b%b}" % (head, each) for each in written]

    def _head(self, schema: Schema | None) -> str:
        head = self._heads.get(schema)
        if head is None:
            if len(self._heads) >= self._cache_size:
                self._heads.clear()
            written = "null" if schema is None else write_schema(schema, self._write_default)
            head = self._heads[schema] = f'{{"schema":{written},"payload":'
        return head

    def _write_default(self, schema: Schema, value: Any) -> str:
        return self._writers.of(schema)(value)

    # From bytes

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        if not self._with_schemas:
            return None, read_plain(data)
        if self._schema is not None:
            return self._schema, self._readers.of(self._schema)(scan_decimals(data))
        last = self._last_head
        if last is not None and data.startswith(last[0]) and data.endswith(b"}"):
            head, schema, read = last
            try:
                node = scan_decimals.whole(data[len(head) : -1])
            except DataError:
                pass  # other members follow the payload
            else:
                return schema, read(node)
        return self._read_envelope(data)

    def all_to_connect(self, topic: str, data: Sequence[bytes | None]) -> tuple[Schema | None, list[Any]]:
        if self._with_schemas:
            return super().all_to_connect(topic, data)
        return None, [None if each is None else read_plain(each) for each in data]

    def _read_envelope(self, data: bytes) -> SchemaAndValue:
        envelope = scan_decimals(data)
        if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain'
                " additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false"
                " in your converter configuration."
            )
        schema = self._read_schema(envelope["schema"])
        if schema is None:
            return None, read_schemaless(envelope["payload"])
        read = self._readers.of(schema)
        self._remember_head(data, schema, read)
        return schema, read(envelope["payload"])

    def _read_schema(self, node: Any) -> Schema | None:
        key = json.dumps(node, default=str)
        found = self._schemas.get(key)
        if found is None:
            found = read_schema(node, self._read_default)
            if found is not None:
                if len(self._schemas) >= self._cache_size:
                    self._schemas.clear()
                self._schemas[key] = found
        return found

    def _read_default(self, schema: Schema, node: Any) -> Any:
        return Readers(replace_null=False, cache_size=1).of(schema)(node)

    def _remember_head(self, data: bytes, schema: Schema, read: Reader) -> None:
        """Cache the head if JsonConverter itself wrote it: the schema first, without spaces."""
        written = f'{{"schema":{write_schema(schema, self._write_default)},"payload":'
        head = to_bytes(written)
        self._last_head = (head, schema, read) if data.startswith(head) else None
