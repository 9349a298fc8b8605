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
            documentation="The directory that files come to.",
            validator=not_empty,
        )
        .define(
            "input.file.pattern",
            ConfigType.STRING,
            importance=_HIGH,
            validator=_pattern,
            documentation="A regular expression that has to match the whole name of a file.",
        )
        .define(
            "finished.path", ConfigType.STRING, "", _HIGH, "Where files go that are done (MOVE, MOVEBYDATE)."
        )
        .define(
            "error.path",
            ConfigType.STRING,
            importance=_HIGH,
            documentation="Where files go that cannot be read.",
            validator=not_empty,
        )
        .define(
            "cleanup.policy",
            ConfigType.STRING,
            "MOVE",
            _MEDIUM,
            validator=one_of(*CLEANUP_POLICIES),
            documentation="What becomes of a file that is done.",
        )
        .define(
            "halt.on.error",
            ConfigType.BOOLEAN,
            True,
            _HIGH,
            "Whether the task fails at a file that cannot be read, or goes on with the next one.",
        )
        .define(
            "batch.size", ConfigType.INT, 1000, _LOW, "The most records of one poll.", validator=at_least(1)
        )
        .define(
            "empty.poll.wait.ms",
            ConfigType.LONG,
            500,
            _LOW,
            "How long to wait when there is nothing.",
            validator=at_least(1),
        )
        .define(
            "file.minimum.age.ms",
            ConfigType.LONG,
            0,
            _LOW,
            validator=at_least(0),
            documentation="How long a file has to be unchanged before it is read.",
        )
        .define(
            "files.sort.attributes",
            ConfigType.LIST,
            ["NameAsc"],
            _LOW,
            "The order of files.",
            validator=_each_of(*SORT_ATTRIBUTES),
        )
        .define(
            "input.path.walk.recursively",
            ConfigType.BOOLEAN,
            False,
            _LOW,
            "Whether to look into subdirectories.",
        )
        .define(
            "processing.file.extension",
            ConfigType.STRING,
            ".PROCESSING",
            _LOW,
            "Accepted, and not needed: offsets say what is read.",
        )
        .define(
            "timestamp.mode",
            ConfigType.STRING,
            "PROCESS_TIME",
            _MEDIUM,
            validator=one_of("FIELD", "FILE_TIME", "PROCESS_TIME"),
            documentation="Where the timestamp of a record comes from.",
        )
        .define(
            "metadata.location",
            ConfigType.STRING,
            "HEADERS",
            _LOW,
            "Where name and offset of the file go.",
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
            "Whether schemas are made from the files.",
        )
        .define("schema.generation.key.fields", ConfigType.LIST, [], _MEDIUM, "The fields that are the key.")
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
            "How dates and times are written, as for Java's SimpleDateFormat.",
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
            "How many lines to skip at the beginning.",
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
            "Whether blanks before a field are dropped.",
        )
        .define(
            "csv.ignore.quotations",
            ConfigType.BOOLEAN,
            False,
            _LOW,
            "Whether quotes are characters as others.",
        )
        .define(
            "csv.strict.quotes",
            ConfigType.BOOLEAN,
            False,
            _LOW,
            "Whether a quote in the wrong place is an error.",
        )
        .define(
            "csv.null.field.indicator",
            ConfigType.STRING,
            "NEITHER",
            _LOW,
            "Which empty fields are null.",
            validator=one_of("NEITHER", "EMPTY_SEPARATORS", "EMPTY_QUOTES", "BOTH"),
        )
        .define(
            "csv.first.row.as.header",
            ConfigType.BOOLEAN,
            False,
            _MEDIUM,
            "Whether the first row has the names of the fields.",
        )
        .define(
            "csv.case.sensitive.field.names",
            ConfigType.BOOLEAN,
            False,
            _LOW,
            "Whether names in the header count by case.",
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
