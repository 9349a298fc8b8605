"""A stream or a table: what is known of it, and how it stands in the catalogue."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ottla.spark.sql.errors import SqlError
from ottla.spark.sql.parsing.dialect import Text
from ottla.spark.sql.parsing.statements import ColumnDefinition, CreateSource, Properties, SourceKind
from ottla.spark.sql.parsing.words import Words
from ottla.spark.sql.sql_types import SqlType

FORMATS = ("JSON", "DELIMITED", "KAFKA", "NONE")
_LATER = ("AVRO", "PROTOBUF", "PROTOBUF_NOSR", "JSON_SR")
_DELIMITERS = {"SPACE": " ", "TAB": "\t"}

#: What WITH (…) may say.
# fmt: off
PROPERTIES = (
    "kafka_topic", "value_format", "key_format", "format", "partitions", "replicas", "timestamp", "timestamp_format",
    "value_delimiter", "key_delimiter", "window_type", "window_size",
)
# fmt: on

PSEUDO_COLUMNS = ("ROWTIME", "ROWPARTITION", "ROWOFFSET")
WINDOW_COLUMNS = ("WINDOWSTART", "WINDOWEND")
#: format → the types that it holds; JSON holds all of them
_TYPES = {
    "KAFKA": ("INTEGER", "BIGINT", "STRING", "BYTES"),
    "DELIMITED": ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "STRING", "DECIMAL", "DATE", "TIME", "TIMESTAMP"),
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
    window: str | None = None  # TUMBLING, HOPPING or SESSION: keys end with the bounds of a window
    window_size_ms: int | None = None
    statement: str = ""
    query_id: str | None = None
    number: int | None = None  # of its definition in the catalogue
    is_terminated: bool = False  # whether its query was ended by TERMINATE: then it is listed no more

    @property
    def keys(self) -> tuple[ColumnDefinition, ...]:
        return tuple(column for column in self.columns if column.is_key)

    @property
    def values(self) -> tuple[ColumnDefinition, ...]:
        return tuple(column for column in self.columns if not column.is_key and not column.is_headers)

    @property
    def headers(self) -> ColumnDefinition | None:
        return next((column for column in self.columns if column.is_headers), None)

    @property
    def window_columns(self) -> tuple[str, ...]:
        return () if self.window is None else WINDOW_COLUMNS

    def has(self, name: str) -> bool:
        return name in (*PSEUDO_COLUMNS, *self.window_columns, *(column.name for column in self.columns))

    def to_json(self) -> dict[str, Any]:
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain["columns"] = [
            {**column.to_json(), "key": column.is_key, "headers": column.is_headers}
            for column in self.columns
        ]
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Source:
        known = {field.name for field in dataclasses.fields(cls)}
        given = {name: value for name, value in plain.items() if name in known}
        given["columns"] = tuple(
            ColumnDefinition(
                each["name"], each["written"], SqlType.from_json(each["type"]), each["key"], each["headers"]
            )
            for each in plain["columns"]
        )
        return cls(**given)


@dataclass(frozen=True)
class TopicShape:
    """How a topic is to be made that does not exist."""

    partitions: int | None = None
    replicas: int | None = None


def from_statement(statement: CreateSource) -> tuple[Source, TopicShape]:
    properties = statement.properties
    _check_names(properties)
    window, window_size = _window(properties)
    source = Source(
        statement.kind,
        statement.name,
        topic_of(properties, statement.name),
        statement.columns,
        window=window,
        window_size_ms=window_size,
        statement=statement.text,
        **described(properties, statement.columns, {}),
    )
    check(source, statement.properties)
    return source, shape(properties)


def described(
    properties: Properties, columns: tuple[ColumnDefinition, ...], inherited: Mapping[str, str]
) -> dict[str, Any]:
    """Formats and timestamps out of WITH (…); what it does not say is inherited."""
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
                f"There is no column {timestamp} for timestamps.", properties["timestamp"].position
            )
    for name in ("key_delimiter", "value_delimiter"):
        delimiter = _text(properties, name)
        if delimiter is not None:
            given[name] = _DELIMITERS.get(delimiter.upper(), delimiter)
    return given


def shape(properties: Properties) -> TopicShape:
    _check_names(properties)
    return TopicShape(_number(properties, "partitions"), _number(properties, "replicas"))


def topic_of(properties: Properties, name: str) -> str:
    return _text(properties, "kafka_topic") or name


def check(source: Source, properties: Properties) -> None:
    """What the formats cannot hold is refused where it is written, not when the first record comes."""
    for part, columns, chosen in (
        ("key", source.keys, source.key_format),
        ("value", source.values, source.value_format),
    ):
        said = properties.get(f"{part}_format") or properties.get("format")
        position = said.position if said else None
        if chosen == "KAFKA" and len(columns) > 1:
            raise SqlError(
                f"The format KAFKA holds one column, and the {part} of {source.name} has {len(columns)}: "
                f"use {part}_format='JSON'.",
                position,
            )
        if chosen == "NONE" and columns:
            raise SqlError(
                f"The format NONE holds nothing, but the {part} of {source.name} has columns.", position
            )
        allowed = _TYPES.get(chosen)
        for column in columns:
            if allowed is not None and column.type.name not in allowed:
                raise SqlError(
                    f"The format {chosen} cannot hold {column.name} {column.type}: "
                    f"use {part}_format='JSON', or one of {', '.join(allowed)}.",
                    position,
                )


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
    if chosen in _LATER:
        raise SqlError(
            f"The format {chosen} is not supported, because it needs a schema registry; "
            f"there are {', '.join(FORMATS)}.",
            position,
        )
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
            raise SqlError("window_type needs window_size, too.", position)
        return kind, None
    try:
        return kind, Words(Text(size), Text(size).tokens()).duration_ms()
    except SqlError as error:
        raise SqlError(error.message, properties["window_size"].position) from None
