"""Settings, named as in kafka-connect-spooldir."""

from __future__ import annotations

import codecs
import os
import re
from typing import Any

from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    Validator,
    at_least,
    invalid,
    not_empty,
    one_of,
)

CLEANUP_POLICIES = ("NONE", "DELETE", "MOVE", "MOVEBYDATE")
SORT_ATTRIBUTES = (
    "NameAsc",
    "NameDesc",
    "LengthAsc",
    "LengthDesc",
    "LastModifiedAsc",
    "LastModifiedDesc",
)

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _pattern(name: str, value: Any) -> None:
    try:
        re.compile(value)
    except re.error as error:
        raise invalid(name, value, f"Not a regular expression: {error}") from None


def _charset(name: str, value: Any) -> None:
    try:
        codecs.lookup(value)
    except LookupError:
        raise invalid(name, value, "Not a character set that is known here") from None


def _each_of(*values: str) -> Validator:
    def check(name: str, value: Any) -> None:
        for each in value:
            one_of(*values)(name, each)

    return check


def base() -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "topic",
            ConfigType.STRING,
            importance=_HIGH,
            documentation="The topic to write to.",
            validator=not_empty,
        )
        .define(
            "input.path",
            ConfigType.STRING,
            importance=_HIGH,
            documentation="Input directory.",
            validator=not_empty,
        )
        .define(
            "input.file.pattern",
            ConfigType.STRING,
            importance=_HIGH,
            validator=_pattern,
            documentation="Regular expression for whole file names.",
        )
        .define(
            "finished.path",
            ConfigType.STRING,
            "",
            _HIGH,
            ("Directory for finished files (MOVE, MOVEBYDATE)."),
        )
        .define(
            "error.path",
            ConfigType.STRING,
            importance=_HIGH,
            documentation="Directory for unreadable files.",
            validator=not_empty,
        )
        .define(
            "cleanup.policy",
            ConfigType.STRING,
            "MOVE",
            _MEDIUM,
            validator=one_of(*CLEANUP_POLICIES),
            documentation="Treatment of finished files.",
        )
        .define(
            "halt.on.error",
            ConfigType.BOOLEAN,
            True,
            _HIGH,
            "Fail at an unreadable file instead of continuing with the next one.",
        )
        .define("batch.size", ConfigType.INT, 1000, _LOW, "Maximum records per poll.", validator=at_least(1))
        .define(
            "empty.poll.wait.ms",
            ConfigType.LONG,
            500,
            _LOW,
            "Time to wait when there are no files.",
            validator=at_least(1),
        )
        .define(
            "file.minimum.age.ms",
            ConfigType.LONG,
            0,
            _LOW,
            validator=at_least(0),
            documentation="Time that a file must stay unchanged before it is read.",
        )
        .define(
            "files.sort.attributes",
            ConfigType.LIST,
            ["NameAsc"],
            _LOW,
            "Order of files.",
            validator=_each_of(*SORT_ATTRIBUTES),
        )
        .define(
            "input.path.walk.recursively",
            ConfigType.BOOLEAN,
            False,
            _LOW,
            "Include subdirectories.",
        )
        .define(
            "processing.file.extension",
            ConfigType.STRING,
            ".PROCESSING",
            _LOW,
            "No effect: offsets record the progress.",
        )
        .define(
            "timestamp.mode",
            ConfigType.STRING,
            "PROCESS_TIME",
            _MEDIUM,
            validator=one_of("FIELD", "FILE_TIME", "PROCESS_TIME"),
            documentation="Source of a record's timestamp.",
        )
        .define(
            "metadata.location",
            ConfigType.STRING,
            "HEADERS",
            _LOW,
            "Place of the file's name and offset.",
            validator=one_of("HEADERS", "NONE"),
        )
        .define("task.index", ConfigType.INT, 0, _LOW, "Set by the connector.", validator=at_least(0))
        .define("task.count", ConfigType.INT, 1, _LOW, "Set by the connector.", validator=at_least(1))
    )


def lines() -> ConfigDef:
    return base().define(
        "file.charset",
        ConfigType.STRING,
        "UTF-8",
        _LOW,
        "The character set of the files.",
        validator=_charset,
    )


def with_schemas() -> ConfigDef:
    return (
        base()
        .define("key.schema", ConfigType.STRING, "", _HIGH, "The schema of keys, as JSON.")
        .define("value.schema", ConfigType.STRING, "", _HIGH, "The schema of values, as JSON.")
        .define(
            "schema.generation.enabled",
            ConfigType.BOOLEAN,
            False,
            _MEDIUM,
            "Infer schemas from the files.",
        )
        .define("schema.generation.key.fields", ConfigType.LIST, [], _MEDIUM, "Key fields.")
        .define(
            "schema.generation.key.name",
            ConfigType.STRING,
            "com.github.jcustenborder.kafka.connect.model.Key",
            _MEDIUM,
            "The name of the key's schema.",
        )
        .define(
            "schema.generation.value.name",
            ConfigType.STRING,
            "com.github.jcustenborder.kafka.connect.model.Value",
            _MEDIUM,
            "The name of the value's schema.",
        )
        .define(
            "timestamp.field",
            ConfigType.STRING,
            "",
            _MEDIUM,
            "The field with the timestamp, for timestamp.mode FIELD.",
        )
        .define(
            "parser.timestamp.date.formats",
            ConfigType.LIST,
            ["yyyy-MM-dd'T'HH:mm:ss", "yyyy-MM-dd' 'HH:mm:ss"],
            _LOW,
            "Formats of dates and times, as in Java's SimpleDateFormat.",
        )
        .define(
            "parser.timestamp.timezone", ConfigType.STRING, "UTC", _LOW, "The time zone of dates and times."
        )
    )


def json_files() -> ConfigDef:
    return with_schemas().define(
        "file.charset",
        ConfigType.STRING,
        "UTF-8",
        _LOW,
        "The character set of the files.",
        validator=_charset,
    )


def csv_files() -> ConfigDef:
    return (
        with_schemas()
        .define(
            "csv.skip.lines",
            ConfigType.INT,
            0,
            _LOW,
            "Number of lines to skip at the start.",
            validator=at_least(0),
        )
        .define(
            "csv.separator.char",
            ConfigType.INT,
            44,
            _LOW,
            "The number of the character between fields: 44 is a comma, 9 a tab.",
        )
        .define("csv.quote.char", ConfigType.INT, 34, _LOW, "The number of the character around fields.")
        .define(
            "csv.escape.char",
            ConfigType.INT,
            92,
            _LOW,
            "The number of the character before a quote inside of quotes; 0 for none.",
        )
        .define(
            "csv.ignore.leading.whitespace",
            ConfigType.BOOLEAN,
            True,
            _LOW,
            "Drop leading blanks of fields.",
        )
        .define(
            "csv.ignore.quotations",
            ConfigType.BOOLEAN,
            False,
            _LOW,
            "Treat quotes as ordinary characters.",
        )
        .define(
            "csv.strict.quotes",
            ConfigType.BOOLEAN,
            False,
            _LOW,
            "Refuse misplaced quotes.",
        )
        .define(
            "csv.null.field.indicator",
            ConfigType.STRING,
            "NEITHER",
            _LOW,
            "Empty fields to read as null.",
            validator=one_of("NEITHER", "EMPTY_SEPARATORS", "EMPTY_QUOTES", "BOTH"),
        )
        .define(
            "csv.first.row.as.header",
            ConfigType.BOOLEAN,
            False,
            _MEDIUM,
            "Read the field names from the first row.",
        )
        .define(
            "csv.case.sensitive.field.names",
            ConfigType.BOOLEAN,
            False,
            _LOW,
            "Match header names case-sensitively.",
        )
        .define(
            "csv.file.charset",
            ConfigType.STRING,
            "UTF-8",
            _LOW,
            "The character set of the files.",
            validator=_charset,
        )
    )


def directory_problem(name: str, path: str) -> str | None:
    """Return the reason why a directory is unusable, in the words of kafka-connect-spooldir."""
    if not os.path.isdir(path):
        return f"Directory for '{name}' '{path}' does not exist. Create it, or correct the setting."
    if not os.access(path, os.W_OK | os.X_OK):
        return f"Directory for '{name}' '{path}' is not writable for this user."
    return None
