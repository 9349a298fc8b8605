"""Codecs for the keys and values of a source, as Spark functions and for use in this process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.client.schema_registry import Schema
from ottla.spark.formats.column_tree import sql_type
from ottla.spark.formats.registered.decoder import registered_decoder
from ottla.spark.formats.registered.schema_source import SchemaSource
from ottla.spark.formats.registered.writing import Encoding, encode_column
from ottla.spark.formats.value_format import quoted
from ottla.sql.errors import SqlError
from ottla.sql.planning.json_expressions import text
from ottla.sql.registered.conversions import decoded, encoded, field_like, picked
from ottla.sql.registered.formats import BINARY, REGISTERED, WITHOUT_REGISTRY
from ottla.sql.sql_types import Field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_NO_SCHEMA = Schema("")


@dataclass(frozen=True)
class PartCodec:
    """Codec of a key or a value in AVRO, PROTOBUF, PROTOBUF_NOSR or JSON_SR."""

    form: str
    part: str  # key or value
    fields: tuple[Field, ...]
    bare: bool  # one column is the whole value
    #: Source of the writer schemas, and the reader schema.
    source: SchemaSource
    reader: Schema = _NO_SCHEMA
    #: Type of the decoded records; None for JSON.
    found: pa.DataType | None = None
    #: Whether the reader schema determines `found`. Otherwise the columns do.
    by_schema: bool = False
    #: Schema for writing and its type, or None if the source is only read.
    schema: Schema | None = None
    wanted: pa.DataType | None = None

    @property
    def kind(self) -> str:
        return "protobuf" if self.form == WITHOUT_REGISTRY else REGISTERED[self.form]

    @property
    def is_binary(self) -> bool:
        return self.form in BINARY

    @property
    def frame(self) -> bytes:
        if self.form == WITHOUT_REGISTRY:
            return b""
        assert self.schema is not None
        return b"\0" + self.schema.id.to_bytes(4, "big")

    def name_in_json(self, field: Field) -> str:
        """Return the schema's spelling if the schema determined the column."""
        return field.written if self.by_schema else field.name

    # Reading

    def options(self) -> dict[str, str]:
        """Return options for the data source, which then decodes whole columns at once."""
        given = {f"{self.part}Format": self.kind}
        if self.form == WITHOUT_REGISTRY:
            return given | {f"{self.part}Schema": self.reader.text}
        if self.source.message is not None:
            given[f"{self.part}Message"] = self.source.message
        if self.by_schema:
            return given | {f"{self.part}SchemaId": str(self.reader.id)}
        assert self.found is not None
        return given | {f"{self.part}Schema": sql_type(self.found)}

    def columns(self, parsed: str) -> dict[str, str]:
        assert self.found is not None
        if self.bare:
            return {self.fields[0].name: decoded(parsed, self.found, self.fields[0].type)}
        return {each.name: picked(parsed, self.found, each) for each in self.fields}

    @property
    def decoder(self) -> str:
        return f"ottla_decode_{self._digest()}"

    @property
    def encoder(self) -> str:
        return f"ottla_encode_{self._digest()}"

    def _digest(self) -> str:
        what = repr((self.form, self.part, self.source, self.reader, str(self.found), self.schema))
        return hashlib.blake2b(what.encode(), digest_size=10).hexdigest()

    def install(self, spark: SparkSession, known: set[str]) -> None:
        """Register the functions with Spark if needed. Running queries keep their own versions."""
        from pyspark.sql.functions import arrow_udf

        if not self.is_binary:
            return
        assert self.found is not None
        if self.decoder not in known:
            known.add(self.decoder)
            spark.udf.register(self.decoder, arrow_udf(_plain(self._decoding()), sql_type(self.found)))
        if self.schema is not None and self.encoder not in known:
            known.add(self.encoder)
            spark.udf.register(self.encoder, arrow_udf(_plain(self._encoding()), "BINARY"))

    def _decoding(self) -> Callable[[pa.Array], pa.Array]:
        kind, source, reader, part = self.kind, self.source, self.reader, self.part
        columns = self._columns()

        def decode(raw: pa.Array) -> pa.Array:
            found = registered_decoder(kind, source, reader, columns, part).decode(_binary(raw), None, part)
            return found.column

        return decode

    def _columns(self) -> str | None:
        """Return the requested type as Spark JSON, or None if the schema determines it."""
        if self.found is None:
            from ottla.sql.pull.json_values import raw_type

            return str(raw_type(self.fields).json())
        return None if self.by_schema or self.form == WITHOUT_REGISTRY else spark_json(self.found)

    def unreadable(self, raw: pa.Array) -> dict[int, str]:
        """Decode in this process and return the unreadable rows with reasons. Bare values are not checked."""
        decoder = registered_decoder(self.kind, self.source, self.reader, self._columns(), self.part)
        return decoder.decode(_binary(raw), None, self.part).reasons

    # Writing

    def _encoding(self) -> Callable[[pa.Array], pa.Array]:
        encoding = Encoding(
            self.kind,
            self.part,
            self._target(),
            schema=self.schema,
            frame=self.frame,
            null_is_default=True,
        )

        def encode(column: pa.Array) -> pa.Array:
            return encode_column(encoding, column)

        return encode

    def _target(self) -> SchemaSource:
        text = None if self.source.registry else self.reader.text
        return SchemaSource(self.source.registry, text=text, message=self.source.message)

    def encode_expression(self) -> str:
        assert self.wanted is not None
        assert self.schema is not None
        if self.bare:
            column = self.fields[0]
            return f"{self.encoder}({encoded(quoted(column.name), self.wanted, column.type)})"
        parts = []
        for column in self.fields:
            target = field_like(self.wanted, column.name)
            if target is None:
                raise SqlError(f"The schema {self.schema.id} of the {self.part} has no field {column.name}.")
            parts.append(f"{text(target.name)}, {encoded(quoted(column.name), target.type, column.type)}")
        return f"{self.encoder}(named_struct({', '.join(parts)}))"

    def encode(self, values: Sequence[Any], kind: pa.DataType) -> list[bytes | None]:
        """Encode values in this process. Raises ClientError if a value does not fit the schema."""
        found: list[bytes | None] = self._encoding()(pa.array(values, kind)).to_pylist()
        return found


@dataclass(frozen=True)
class Codecs:
    """Codecs of one source, None for formats without a codec."""

    key: PartCodec | None = None
    value: PartCodec | None = None
    #: Options for the data source to reach the registry.
    registry: Mapping[str, str] = field(default_factory=dict)

    def install(self, spark: SparkSession, known: set[str]) -> Codecs:
        for each in (self.key, self.value):
            if each is not None:
                each.install(spark, known)
        return self


NONE = Codecs()


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Remove annotations, because Spark would use them to choose the kind of function."""
    function.__annotations__.clear()
    return function


def _binary(raw: pa.Array) -> pa.Array:
    return raw if raw.type == pa.binary() else raw.cast(pa.binary())


_SPARK_NAMES = {
    pa.bool_(): "boolean",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
}


def spark_json(kind: pa.DataType) -> str:
    """Return a type as Spark JSON, without Spark."""
    return json.dumps(_spark(kind))


def _spark(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        fields = [
            {"name": each.name, "type": _spark(each.type), "nullable": True, "metadata": {}} for each in kind
        ]
        return {"type": "struct", "fields": fields}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _spark(kind.key_type),
            "valueType": _spark(kind.item_type),
            "valueContainsNull": True,
        }
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _spark(kind.value_type), "containsNull": True}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return _SPARK_NAMES[kind]
