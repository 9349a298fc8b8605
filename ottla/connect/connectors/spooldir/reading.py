"""Readers that yield the records of a file. A reader can start after any number of records."""

from __future__ import annotations

import bz2
import csv
import gzip
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple, cast

from ottla.connect.connectors.spooldir.schemas import (
    Parser,
    TextParsers,
    generated,
    key_schema,
    parse_schema,
)
from ottla.connect.data.schema import STRING, Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError, DataError

_CHUNK = 1 << 20
_OPENERS: Mapping[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}

# The csv module's default field limit is too small.
csv.field_size_limit(1 << 30)


class Row(NamedTuple):
    value: Any
    value_schema: Schema
    key: Any = None
    key_schema: Schema | None = None


class Reader:
    charset: str

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    def rows(self, file: IO[str], name: str) -> Iterator[Row]:
        """Raises DataError with the location of unreadable input."""
        raise NotImplementedError


def open_text(path: str, charset: str) -> IO[str]:
    """Open a text file, decompressing it according to its suffix."""
    opener = next((each for suffix, each in _OPENERS.items() if path.endswith(suffix)), open)
    return cast(IO[str], opener(path, "rt", encoding=charset, newline=""))


class LineReader(Reader):
    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.charset = settings["file.charset"]

    def rows(self, file: IO[str], name: str) -> Iterator[Row]:
        for line in file:
            yield Row(line.rstrip("\r\n"), STRING)


class SchemaLessJsonReader(LineReader):
    def rows(self, file: IO[str], name: str) -> Iterator[Row]:
        for value in _json_values(file, name):
            yield Row(json.dumps(value, ensure_ascii=False, separators=(",", ":")), STRING)


class _WithSchemas(Reader):
    """Takes schemas from the settings, or infers them from each file."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.charset = settings.get("file.charset") or settings["csv.file.charset"]
        self._parsers = TextParsers(
            settings["parser.timestamp.date.formats"], settings["parser.timestamp.timezone"]
        )
        self._value: Schema | None = None
        self._key: Schema | None = None
        if not settings["schema.generation.enabled"]:
            if not settings["value.schema"]:
                raise ConnectError(
                    "'value.schema' must be set, or 'schema.generation.enabled' be true: then fields are text."
                )
            self._value = self._struct("value.schema")
            self._key = self._struct("key.schema") if settings["key.schema"] else None
        self._by_field: dict[Schema, Parser] = {}

    def _struct(self, setting: str) -> Schema:
        found = parse_schema(setting, self.settings[setting])
        if found.type is not SchemaType.STRUCT:
            raise ConnectError(f"{setting} has to be a STRUCT, not {found.type.name}.")
        return found

    def _schemas(self, name: str, fields: list[tuple[str, SchemaType]]) -> tuple[Schema, Schema | None]:
        if self._value is not None:
            return self._value, self._key
        value = generated(self.settings["schema.generation.value.name"], fields)
        keys = self.settings["schema.generation.key.fields"]
        return value, key_schema(value, self.settings["schema.generation.key.name"], keys, name)

    def _from_text(self, schema: Schema, text: str) -> Any:
        parse = self._by_field.get(schema)
        if parse is None:
            parse = self._by_field[schema] = self._parsers.of(schema)
        return parse(text)


class CsvReader(_WithSchemas):
    def rows(self, file: IO[str], name: str) -> Iterator[Row]:
        for _ in range(self.settings["csv.skip.lines"]):
            file.readline()
        table = csv.reader(file, self._dialect(), strict=self.settings["csv.strict.quotes"])
        skipped = self.settings["csv.skip.lines"]
        try:
            yield from self._table(table, name, skipped)
        except csv.Error as error:
            raise DataError(f"{name}, line {skipped + table.line_num}: {error}.") from None

    def _dialect(self) -> type[csv.Dialect]:
        settings = self.settings

        class Dialect(csv.Dialect):
            delimiter = chr(settings["csv.separator.char"])
            quotechar = chr(settings["csv.quote.char"]) if settings["csv.quote.char"] else None
            escapechar = chr(settings["csv.escape.char"]) if settings["csv.escape.char"] else None
            doublequote = True
            skipinitialspace = settings["csv.ignore.leading.whitespace"]
            lineterminator = "\n"
            quoting = (
                csv.QUOTE_NONE
                if settings["csv.ignore.quotations"] or quotechar is None
                else csv.QUOTE_MINIMAL
            )

        return Dialect

    def _table(self, table: Any, name: str, skipped: int) -> Iterator[Row]:
        rows: Iterator[list[str]] = (row for row in table if row)
        first = next(rows, None)
        if first is None:
            return
        if self.settings["csv.first.row.as.header"]:
            header = [each.strip().removeprefix("\ufeff") for each in first]
        else:
            header = self._names(len(first))
            rows = itertools.chain([first], rows)
        doubled = next((each for each in header if header.count(each) > 1), None)
        if doubled is not None:
            raise DataError(f"{name}: the header has {doubled!r} twice.")
        value, key = self._schemas(name, [(each, SchemaType.STRING) for each in header])
        places = self._places(header, value, name)
        for row in rows:
            where = f"{name}, line {skipped + table.line_num}"
            if len(row) != len(header):
                raise DataError(f"{where}: there are {len(row)} fields, but {len(header)} columns.")
            struct = self._struct_of(value, places, row, where)
            yield Row(struct, value, None if key is None else _key_of(key, struct, where), key)

    def _names(self, width: int) -> list[str]:
        if self._value is not None:
            return [each.name for each in self._value.fields]
        return [f"column{number:02d}" for number in range(1, width + 1)]

    def _places(self, header: list[str], value: Schema, name: str) -> list[int | None]:
        """Return the column index of each schema field."""
        by_case = self.settings["csv.case.sensitive.field.names"]
        found = {each if by_case else each.lower(): place for place, each in enumerate(header)}
        places = [found.get(each.name if by_case else each.name.lower()) for each in value.fields]
        for field, place in zip(value.fields, places, strict=True):
            if place is None and not field.schema.optional and field.schema.default is None:
                raise DataError(f"{name} has no column {field.name!r}, which value.schema requires.")
        return places

    def _struct_of(self, value: Schema, places: list[int | None], row: list[str], where: str) -> Struct:
        struct = Struct(value)
        empty_is_null = self.settings["csv.null.field.indicator"] != "NEITHER"
        for number, (field, place) in enumerate(zip(value.fields, places, strict=True)):
            text = None if place is None else row[place]
            schema = field.schema
            if text == "" and (empty_is_null or schema.type is not SchemaType.STRING):
                text = None
            if text is None:
                if not schema.optional and schema.default is None:
                    raise DataError(f"{where}: the field {field.name!r} is empty, but not optional.")
                continue
            try:
                struct.values[number] = self._from_text(schema, text)
            except (ValueError, ArithmeticError) as error:
                wanted = (schema.name or schema.type.name).rpartition(".")[2]
                why = str(error) if str(error).startswith("it is") else ""
                raise DataError(
                    f"{where}: {text!r} in the field {field.name!r} is no {wanted}{f': {why}' if why else ''}."
                ) from None
        return struct


class JsonReader(_WithSchemas):
    def rows(self, file: IO[str], name: str) -> Iterator[Row]:
        schemas: tuple[Schema, Schema | None] | None = None
        for number, found in enumerate(_json_values(file, name), start=1):
            where = f"{name}, record {number}"
            if not isinstance(found, dict):
                raise DataError(f"{where}: a JSON object is wanted, not {json.dumps(found)[:60]}.")
            if schemas is None:
                schemas = self._schemas(name, [(key, _json_type(value)) for key, value in found.items()])
            value, key = schemas
            struct = self._value_of(value, found, where)
            yield Row(struct, value, None if key is None else _key_of(key, struct, where), key)

    def _value_of(self, schema: Schema, found: Any, where: str) -> Any:
        if found is None:
            if not schema.optional and schema.default is None:
                raise DataError(f"{where}: a value is null or missing, but not optional.")
            return None
        if schema.type is SchemaType.STRUCT and isinstance(found, dict):
            struct = Struct(schema)
            for field in schema.fields:
                place = (
                    f"{where}, field {field.name!r}" if ", field" not in where else f"{where}.{field.name}"
                )
                struct.put(field.name, self._value_of(field.schema, found.get(field.name), place))
            return struct
        if schema.type is SchemaType.ARRAY and isinstance(found, list) and schema.value_schema:
            return [self._value_of(schema.value_schema, each, where) for each in found]
        if schema.type is SchemaType.MAP and isinstance(found, dict) and schema.value_schema:
            return {key: self._value_of(schema.value_schema, each, where) for key, each in found.items()}
        if schema.type.is_primitive:
            text = found if isinstance(found, str) else json.dumps(found)
            try:
                return self._from_text(schema, text)
            except (ValueError, ArithmeticError):
                pass
        raise DataError(f"{where}: {json.dumps(found)[:60]} is no {schema.name or schema.type.name}.")


def _key_of(key: Schema, value: Struct, where: str) -> Struct:
    found = Struct(key)
    for field in key.fields:
        if value.schema.field(field.name) is None:
            raise DataError(f"{where}: the value has no field {field.name!r}, which key.schema wants.")
        found.put(field.name, value.get(field.name))
    return found


def _json_type(value: Any) -> SchemaType:
    if isinstance(value, bool):
        return SchemaType.BOOLEAN
    if isinstance(value, int):
        return SchemaType.INT64
    return SchemaType.FLOAT64 if isinstance(value, float) else SchemaType.STRING


def _json_values(file: IO[str], name: str) -> Iterator[Any]:
    """Yield consecutive JSON values with any separators, or the elements of an array."""
    decoder, buffer, number, ended, separators = json.JSONDecoder(), "", 0, False, " \t\r\n\ufeff"
    while True:
        buffer = buffer.lstrip(separators)
        if number == 0 and separators[-1] != "," and buffer.startswith("["):
            separators, buffer = separators + ",", buffer[1:]
            continue
        if "," in separators and buffer.startswith("]"):
            return
        if buffer:
            try:
                value, end = decoder.raw_decode(buffer)
            except json.JSONDecodeError as error:
                if ended:
                    raise DataError(f"{name}, record {number + 1} is not JSON: {error.msg}.") from None
            else:
                # A value at the end of the buffer may be incomplete, for example a number.
                if end < len(buffer) or ended:
                    yield value
                    number, buffer = number + 1, buffer[end:]
                    continue
        elif ended:
            return
        more = file.read(_CHUNK)
        ended, buffer = not more, buffer + more
