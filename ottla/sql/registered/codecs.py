"""How the keys and values of a source are read and written: by functions of Spark, and by this process itself."""

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
    """Of a key or a value in AVRO, PROTOBUF, PROTOBUF_NOSR or JSON_SR."""

    form: str
    part: str  # key or value
    fields: tuple[Field, ...]
    bare: bool  # one column is all of it
    #: Where writers' schemas are found, and the reader's.
    source: SchemaSource
    reader: Schema = _NO_SCHEMA
    #: What records are decoded to. JSON has no such type.
    found: pa.DataType | None = None
    #: Whether the reader's schema makes `found`; else it is what the columns ask for.
    by_schema: bool = False
    #: The schema that records are written with, and the type of what it describes; None of what is only read.
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
        """What stands before each record."""
        if self.form == WITHOUT_REGISTRY:
            return b""
        assert self.schema is not None
        return b"\0" + self.schema.id.to_bytes(4, "big")

    def name_in_json(self, field: Field) -> str:
        """As the schema spells it, if that made the column."""
        return field.written if self.by_schema else field.name

    # Reading

    def options(self) -> dict[str, str]:
        """For the data source, so that it decodes a whole column at once."""
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
        """The columns out of what was decoded."""
        assert self.found is not None
        if self.bare:
            return {self.fields[0].name: decoded(parsed, self.found, self.fields[0].type)}
        return {each.name: picked(parsed, self.found, each) for each in self.fields}

    @property
    def decoder(self) -> str:
        """The name of the function that decodes."""
        return f"ottla_decode_{self._digest()}"

    @property
    def encoder(self) -> str:
        return f"ottla_encode_{self._digest()}"

    def _digest(self) -> str:
        what = repr((self.form, self.part, self.source, self.reader, str(self.found), self.schema))
        return hashlib.blake2b(what.encode(), digest_size=10).hexdigest()

    def install(self, spark: SparkSession, known: set[str]) -> None:
        """Make the functions known to Spark, unless they are. Queries that run keep those that they began with."""
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
        """The type that is asked for, as JSON of Spark; None if the schema makes it."""
        if self.found is None:
            from ottla.sql.pull.json_values import raw_type

            return str(raw_type(self.fields).json())
        return None if self.by_schema or self.form == WITHOUT_REGISTRY else spark_json(self.found)

    def unreadable(self, raw: pa.Array) -> dict[int, str]:
        """In this process: the rows that cannot be read, and why. What is bare is not looked at."""
        decoder = registered_decoder(self.kind, self.source, self.reader, self._columns(), self.part)
        return decoder.decode(_binary(raw), None, self.part).reasons

    # Writing

    def _encoding(self) -> Callable[[pa.Array], pa.Array]:
        encoding = Encoding(self.kind, self.part, self._target(), schema=self.schema, frame=self.frame)

        def encode(column: pa.Array) -> pa.Array:
            return encode_column(encoding, column)

        return encode

    def _target(self) -> SchemaSource:
        text = None if self.source.registry else self.reader.text
        return SchemaSource(self.source.registry, text=text, message=self.source.message)

    def encode_expression(self) -> str:
        """The bytes of a key or a value, out of its columns."""
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
        """In this process; ClientError, if one does not fit the schema."""
        found: list[bytes | None] = self._encoding()(pa.array(values, kind)).to_pylist()
        return found


@dataclass(frozen=True)
class Codecs:
    """Of one source; None where the format needs none."""

    key: PartCodec | None = None
    value: PartCodec | None = None
    #: How the data source reaches the registry.
    registry: Mapping[str, str] = field(default_factory=dict)

    def install(self, spark: SparkSession, known: set[str]) -> Codecs:
        for each in (self.key, self.value):
            if each is not None:
                each.install(spark, known)
        return self


NONE = Codecs()


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Spark would take annotations for a choice between kinds of functions."""
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
    """A type as JSON of Spark, which needs no Spark to be written."""
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
