"""Definition of a stream or table, and its form in the catalogue."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ottla.spark.formats.value_format import quoted
from ottla.sql.errors import Position, SqlError
from ottla.sql.parsing.dialect import Text
from ottla.sql.parsing.statements import ColumnDefinition, CreateSource, Properties, SourceKind
from ottla.sql.parsing.words import Words
from ottla.sql.registered.formats import REGISTERED, WITHOUT_REGISTRY, can_be_bare
from ottla.sql.sql_types import SqlType, has_map

FORMATS = ("JSON", "DELIMITED", "KAFKA", "NONE", *REGISTERED, WITHOUT_REGISTRY)
_DELIMITERS = {"SPACE": " ", "TAB": "\t"}

#: Properties of WITH (…).
# fmt: off
PROPERTIES = (
    "kafka_topic", "value_format", "key_format", "format", "partitions", "replicas", "timestamp", "timestamp_format",
    "value_delimiter", "key_delimiter", "window_type", "window_size", "wrap_single_value", "key_schema_id",
    "value_schema_id", "key_schema_full_name", "value_schema_full_name", "value_avro_schema_full_name",
    "key_protobuf_nullable_representation", "value_protobuf_nullable_representation",
)
# fmt: on

PSEUDO_COLUMNS = ("ROWTIME", "ROWPARTITION", "ROWOFFSET")
WINDOW_COLUMNS = ("WINDOWSTART", "WINDOWEND")
#: format → supported types; JSON supports all types
_TYPES = {
    "KAFKA": ("INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES"),
    "DELIMITED": (
        "BOOLEAN",
        "INTEGER",
        "BIGINT",
        "DOUBLE",
        "STRING",
        "BYTES",
        "DECIMAL",
        "DATE",
        "TIME",
        "TIMESTAMP",
    ),
}


@dataclass(frozen=True)
class Source:
    kind: SourceKind
    name: str
    topic: str
    columns: tuple[ColumnDefinition, ...]
    key_format: str = "KAFKA"
    value_format: str = "JSON"
    timestamp: str | None = None
    timestamp_format: str | None = None
    key_delimiter: str = ","
    value_delimiter: str = ","
    window: str | None = None  # TUMBLING, HOPPING or SESSION: keys end with window bounds
    window_size_ms: int | None = None
    statement: str = ""
    query_id: str | None = None
    number: int | None = None  # of the definition in the catalogue
    is_terminated: bool = False  # TERMINATE ended its query, which is no longer listed
    is_unwrapped: bool = False  # WRAP_SINGLE_VALUE=false: the only column is the whole value
    is_read_only: bool = False  # created by CREATE SOURCE
    #: Ids of the registered schemas for writing.
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    #: Whether the columns were inferred from these schemas, which are then used for reading.
    key_is_inferred: bool = False
    value_is_inferred: bool = False
    #: Names of the schemas derived from columns, and Protobuf's nullable representation: OPTIONAL or WRAPPER.
    key_schema_name: str | None = None
    value_schema_name: str | None = None
    key_nullable: str | None = None
    value_nullable: str | None = None

    @property
    def keys(self) -> tuple[ColumnDefinition, ...]:
        return tuple(column for column in self.columns if column.is_key)

    @property
    def values(self) -> tuple[ColumnDefinition, ...]:
        return tuple(column for column in self.columns if not column.is_key and not column.is_headers)

    @property
    def headers(self) -> tuple[ColumnDefinition, ...]:
        return tuple(column for column in self.columns if column.is_headers)

    @property
    def window_columns(self) -> tuple[str, ...]:
        return () if self.window is None else WINDOW_COLUMNS

    def has(self, name: str) -> bool:
        return name in (*PSEUDO_COLUMNS, *self.window_columns, *(column.name for column in self.columns))

    def to_json(self) -> dict[str, Any]:
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain["columns"] = [
            {
                **column.to_json(),
                "key": column.is_key,
                "headers": column.is_headers,
                "header": column.header,
            }
            for column in self.columns
        ]
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Source:
        known = {field.name for field in dataclasses.fields(cls)}
        given = {name: value for name, value in plain.items() if name in known}
        given["columns"] = tuple(
            ColumnDefinition(
                each["name"],
                each["written"],
                SqlType.from_json(each["type"]),
                each["key"],
                each["headers"],
                each.get("header"),
            )
            for each in plain["columns"]
        )
        return cls(**given)


@dataclass(frozen=True)
class TopicShape:
    """Partitions and replicas for a topic to create."""

    partitions: int | None = None
    replicas: int | None = None


def from_statement(
    statement: CreateSource, known: Mapping[str, Any] | None = None, *, wraps: bool | None = None
) -> tuple[Source, TopicShape]:
    """Build a source from a statement. `known` comes from the schema registry, `wraps` from the properties."""
    properties = statement.properties
    _check_names(properties)
    if not any(not column.is_headers for column in statement.columns):
        raise SqlError(
            f"No columns supplied: expected the columns of {statement.name}, or AS SELECT.",
            statement.position,
        )
    if statement.kind == "TABLE" and not any(column.is_key for column in statement.columns):
        raise SqlError("A table needs a column with PRIMARY KEY.", statement.position)
    window, window_size = _window(properties)
    source = Source(
        statement.kind,
        statement.name,
        topic_of(properties, statement.name),
        statement.columns,
        window=window,
        window_size_ms=window_size,
        statement=statement.text,
        is_read_only=statement.is_read_only,
        **(described(properties, statement.columns, {}, wraps=wraps) | dict(known or {})),
    )
    check(source, statement.properties, statement.position)
    return source, shape(properties)


def described(
    properties: Properties,
    columns: tuple[ColumnDefinition, ...],
    inherited: Mapping[str, str],
    *,
    wraps: bool | None = None,
) -> dict[str, Any]:
    """Read formats and timestamps from WITH (…), with inherited defaults. `wraps` is that of WRAP_SINGLE_VALUE."""
    both = _format(properties, "format")
    keys = sum(column.is_key for column in columns)
    key_default = inherited.get("key_format", "KAFKA")
    if keys > 1 and key_default == "KAFKA":
        key_default = "JSON"
    given: dict[str, Any] = {
        "key_format": _format(properties, "key_format") or both or key_default,
        "value_format": _format(properties, "value_format") or both or inherited.get("value_format", "JSON"),
        "timestamp_format": _text(properties, "timestamp_format"),
    }
    timestamp = _text(properties, "timestamp")
    if timestamp is not None:
        names = {column.name for column in columns}
        given["timestamp"] = timestamp if timestamp in names else timestamp.upper()
        if given["timestamp"] not in names:
            raise SqlError(
                f"The TIMESTAMP column set in the WITH clause does not exist in the schema: '{given['timestamp']}'",
                properties["timestamp"].position,
            )
        _check_timestamp(columns, given, properties)
    for name in ("key_delimiter", "value_delimiter"):
        delimiter, form = _text(properties, name), given[name.replace("delimiter", "format")]
        if delimiter is not None:
            given[name] = _delimiter(delimiter, properties[name].position, form)
        elif form == "DELIMITED" and name in inherited:
            given[name] = inherited[name]
    given["is_unwrapped"] = _is_unwrapped(properties, columns, given["value_format"], wraps)
    return given | _schema_properties(properties, given["key_format"], given["value_format"])


def formats_of(statement: CreateSource) -> dict[str, str]:
    """Return the formats of key and value before the columns are known."""
    both = _format(statement.properties, "format")
    return {
        "key": _format(statement.properties, "key_format") or both or "KAFKA",
        "value": _format(statement.properties, "value_format") or both or "JSON",
    }


def schema_ids_of(properties: Properties) -> dict[str, int | None]:
    return {part: _number(properties, f"{part}_schema_id") for part in ("key", "value")}


def _schema_properties(properties: Properties, key_format: str, value_format: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    ids = schema_ids_of(properties)
    for part, form in (("key", key_format), ("value", value_format)):
        if ids[part] is not None and form not in REGISTERED:
            raise SqlError(
                f"{part.upper()}_FORMAT should support schema inference when {part.upper()}_SCHEMA_ID is provided. "
                f"Current format is {form}.",
                properties[f"{part}_schema_id"].position,
            )
        given[f"{part}_schema_id"] = ids[part]
        for name in (f"{part}_schema_full_name", f"{part}_avro_schema_full_name"):
            full_name = _text(properties, name) if name in PROPERTIES else None
            if full_name is None:
                continue
            if form not in ("AVRO", "PROTOBUF"):
                raise SqlError(
                    f"{name.upper()} is not supported with format: {form}", properties[name].position
                )
            if not full_name.strip():
                raise SqlError(f"{name.upper()} cannot be empty.", properties[name].position)
            given[f"{part}_schema_name"] = full_name.strip()
        given[f"{part}_nullable"] = _nullable(properties, part, form)
    return given


def _nullable(properties: Properties, part: str, form: str) -> str | None:
    name = f"{part}_protobuf_nullable_representation"
    said = _text(properties, name)
    if said is None:
        return None
    if form not in ("PROTOBUF", WITHOUT_REGISTRY) or said.upper() not in ("OPTIONAL", "WRAPPER"):
        raise SqlError(
            f"{name.upper()} is OPTIONAL or WRAPPER, of the format PROTOBUF.", properties[name].position
        )
    return said.upper()


def _delimiter(written: str, position: Position, form: str) -> str:
    delimiter = _DELIMITERS.get(written.upper(), written)
    if form != "DELIMITED":
        raise SqlError(f"A delimiter is for the format DELIMITED, and this is {form}.", position)
    if not written.strip():
        raise SqlError(
            "Delimiter cannot be empty, if you meant to have a tab or space for delimiter, "
            "please use the special values 'TAB' or 'SPACE'.",
            position,
        )
    if len(delimiter) != 1:
        raise SqlError(
            f"Invalid delimiter value: '{written}'. Delimiter must be a single character or TAB,SPACE.",
            position,
        )
    return delimiter


def _check_timestamp(
    columns: tuple[ColumnDefinition, ...], given: Mapping[str, Any], properties: Properties
) -> None:
    column = next(each for each in columns if each.name == given["timestamp"])
    position = properties["timestamp"].position
    if column.type.name not in ("BIGINT", "TIMESTAMP", "STRING"):
        raise SqlError(
            f"Timestamp column, `{column.name}`, should be LONG(INT64), TIMESTAMP, or a String with a timestamp_format "
            f"specified. It is {column.type}.",
            position,
        )
    if (column.type.name == "STRING") != (given["timestamp_format"] is not None):
        need = "needs timestamp_format" if column.type.name == "STRING" else "takes no timestamp_format"
        raise SqlError(f"{column.name} is {column.type}, which {need}.", position)


def _is_unwrapped(
    properties: Properties, columns: tuple[ColumnDefinition, ...], form: str, wraps: bool | None
) -> bool:
    values = sum(not column.is_key and not column.is_headers for column in columns)
    said = properties.get("wrap_single_value")
    if said is None:
        return wraps is False and values == 1 and can_be_bare(form)
    if not isinstance(said.value, bool):
        raise SqlError("wrap_single_value is TRUE or FALSE.", said.position)
    if values != 1:
        raise SqlError(
            f"'WRAP_SINGLE_VALUE' is only valid for single-field value schemas, and this has {values} fields.",
            said.position,
        )
    if can_be_bare(form):
        return not said.value
    if said.value != (form in ("PROTOBUF", WITHOUT_REGISTRY)):
        asked = "true" if said.value else "false"
        raise SqlError(
            f"Format '{form}' does not support 'WRAP_SINGLE_VALUE' set to '{asked}'.", said.position
        )
    return False


def shape(properties: Properties) -> TopicShape:
    _check_names(properties)
    return TopicShape(_number(properties, "partitions"), _number(properties, "replicas"))


def topic_of(properties: Properties, name: str) -> str:
    return _text(properties, "kafka_topic") or name


def map_key(name: str, kind: SqlType, where: Position | None) -> SqlError:
    return SqlError(
        "Map keys, including types that contain maps, are not supported as they may lead to unexpected behavior due to "
        f"inconsistent serialization. Key column name: `{name}`. Column type: {kind}.",
        where,
    )


def check(source: Source, properties: Properties, where: Position | None = None) -> None:
    """Refuse types that the formats cannot hold, before the first record arrives."""
    for key in source.keys:
        if has_map(key.type):
            raise map_key(key.name, key.type, where)
    for part, columns, chosen in (
        ("key", source.keys, source.key_format),
        ("value", source.values, source.value_format),
    ):
        said = properties.get(f"{part}_format") or properties.get("format")
        position = said.position if said else where
        if chosen == "KAFKA" and len(columns) > 1:
            raise SqlError(
                f"{part.capitalize()} format does not support schema: The 'KAFKA' format only supports a single field. "
                f"Got: [{_listed(columns)}]. Use {part}_format='JSON'.",
                position,
            )
        if chosen == "NONE" and columns:
            raise SqlError(
                f"The 'NONE' format can only be used when no columns are defined. Got: [{_listed(columns)}]",
                position,
            )
        allowed = _TYPES.get(chosen)
        for column in columns:
            if allowed is not None and column.type.name not in allowed:
                raise SqlError(
                    f"{part.capitalize()} format does not support schema: The '{chosen}' format does not support "
                    f"type '{column.type.name}', column: {quoted(column.name)}. Use {part}_format='JSON'.",
                    position,
                )


def _listed(columns: tuple[ColumnDefinition, ...]) -> str:
    return ", ".join(f"{quoted(each.name)} {each.type}{' KEY' if each.is_key else ''}" for each in columns)


def _check_names(properties: Properties) -> None:
    for name, given in properties.items():
        if name not in PROPERTIES:
            close = get_close_matches(name, PROPERTIES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(PROPERTIES)}."
            raise SqlError(f"WITH ({name}=…) is not supported; {hint}", given.position)


def _text(properties: Properties, name: str) -> str | None:
    given = properties.get(name)
    if given is None:
        return None
    if not isinstance(given.value, str):
        raise SqlError(f"{name} is a text in quotes.", given.position)
    return given.value


def _number(properties: Properties, name: str) -> int | None:
    given = properties.get(name)
    if given is None:
        return None
    value = given.value
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SqlError(f"{name} is a number of at least 1.", given.position)
    return value


def _format(properties: Properties, name: str) -> str | None:
    given = _text(properties, name)
    if given is None:
        return None
    chosen = given.upper()
    position = properties[name].position
    if chosen not in FORMATS:
        raise SqlError(f"There is no format {given}; there are {', '.join(FORMATS)}.", position)
    return chosen


def _window(properties: Properties) -> tuple[str | None, int | None]:
    given = _text(properties, "window_type")
    if given is None:
        return None, None
    kind, position = given.upper(), properties["window_type"].position
    if kind not in ("TUMBLING", "HOPPING", "SESSION"):
        raise SqlError("window_type is TUMBLING, HOPPING or SESSION.", position)
    size = _text(properties, "window_size")
    if size is None:
        if kind != "SESSION":
            raise SqlError(
                f"{kind.capitalize()} windows require 'WINDOW_SIZE' to be provided in the WITH clause. For example: "
                "'WINDOW_SIZE'='10 SECONDS'",
                position,
            )
        return kind, None
    if kind == "SESSION":
        raise SqlError(
            "'WINDOW_SIZE' should not be set for SESSION windows.", properties["window_size"].position
        )
    try:
        return kind, Words(Text(size), Text(size).tokens()).duration_ms()
    except SqlError as error:
        raise SqlError(
            f"Configuration WINDOW_SIZE is invalid: Invalid duration: '{size}'. {error.message}",
            properties["window_size"].position,
        ) from None
