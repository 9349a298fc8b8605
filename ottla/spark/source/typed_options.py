"""Decoding of keys and values at the source, and handling of undecodable records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ottla.spark.formats.encryption_options import Decryption, parse_decryption
from ottla.spark.formats.json_times import time_zone
from ottla.spark.formats.json_types import check_type
from ottla.spark.formats.registered.registry_options import parse_source
from ottla.spark.formats.value_format import REGISTERED, Format, json, raw, text
from ottla.spark.options import OptionError, Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ottla.client.schema_registry import Schema

KEEP, FAIL = "keep", "fail"


@dataclass(frozen=True)
class TypedOptions:
    key: Format = raw
    value: Format = raw
    bad_rows: str = KEEP
    dead_letter_topic: str | None = None
    time_zone: str = "UTC"
    #: Whether JSON accepts numbers in strings, and fractions for integers.
    lax_numbers: bool = False
    #: Decryption of values before decoding.
    decryption: Decryption | None = None
    #: Spark types of the columns, once Spark has parsed the schemas.
    key_type: Any = None
    value_type: Any = None
    #: Schemas of the columns, unless columns were given.
    key_reader: Schema | None = None
    value_reader: Schema | None = None

    @property
    def is_registered(self) -> bool:
        return self.key.source is not None or self.value.source is not None

    @property
    def is_needed(self) -> bool:
        return self.key != raw or self.value != raw or self.decryption is not None

    @property
    def bad_columns(self) -> list[str]:
        """Return the columns that keep the bytes of undecodable keys and values."""
        if self.bad_rows == FAIL or self.dead_letter_topic is not None:
            return []
        may_be_bad = {
            "badKey": self.key.may_be_bad,
            "badValue": self.value.may_be_bad or self.decryption is not None,
        }
        return [name for name, wanted in may_be_bad.items() if wanted]

    def with_types(self, schema: StructType) -> TypedOptions:
        types: dict[str, Any] = {}
        for name, kind in (("key", self.key), ("value", self.value)):
            found = schema[name].dataType
            if kind.name == "json":
                check_type(found, name)
            elif kind.source is not None and kind.schema is None:
                from ottla.spark.formats.registered.planning import planned_schema

                types[f"{name}_reader"] = planned_schema(kind.name, kind.source, found)
            types[f"{name}_type"] = found
        return replace(self, **types)


def parse_typed_options(given: Options) -> TypedOptions:
    key, value = _format(given, "key"), _format(given, "value")
    bad_rows = given.choice("badRows", {KEEP: KEEP, FAIL: FAIL}, KEEP)
    dead_letters = given.text("deadLetterTopic")
    if dead_letters is not None and not dead_letters.strip():
        raise OptionError("deadLetterTopic is empty: name the topic for the records that cannot be read.")
    if dead_letters is not None and given.text("badRows") is not None:
        raise OptionError("badRows and deadLetterTopic contradict each other: omit one of them.")
    decryption = parse_decryption(given)
    if not key.may_be_bad and not value.may_be_bad and decryption is None:
        for name in ("badRows", "deadLetterTopic"):
            if given.text(name) is not None:
                raise OptionError(f"{name} has no meaning without valueFormat=json or keyFormat=json.")
    zone = given.text("timeZone") or "UTC"
    try:
        time_zone(zone)
    except ValueError:
        raise OptionError(
            f"timeZone must be a time zone such as UTC or Europe/Berlin, not '{zone}'."
        ) from None
    lax = given.choice("jsonNumbers", {"exact": False, "lax": True}, False)
    return TypedOptions(key, value, bad_rows, dead_letters, zone, lax, decryption)


def _format(given: Options, which: str) -> Format:
    schema = given.text(f"{which}Schema")
    formats = {name: name for name in ("json", *REGISTERED, "text", "raw")}
    name = given.choice(f"{which}Format", formats, "raw")
    if name in REGISTERED:
        return parse_source(given, which, name, schema)
    if name == "json":
        if schema is None:
            raise OptionError(f"{which}Format=json needs {which}Schema, such as 'user STRING, likes INT'.")
        return json(schema)
    if schema is not None:
        raise OptionError(f"{which}Schema has no meaning without {which}Format=json.")
    for option in ("Subject", "SchemaVersion", "SchemaId", "Message"):
        if given.text(f"{which}{option}") is not None:
            raise OptionError(
                f"{which}{option} has no meaning without {which}Format=avro, protobuf or jsonschema."
            )
    return text if name == "text" else raw
