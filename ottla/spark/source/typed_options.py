"""What keys and values are decoded to at the source, and what becomes of those that cannot be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ottla.spark.formats.encryption_options import Decryption, parse_decryption
from ottla.spark.formats.json_times import time_zone
from ottla.spark.formats.json_types import check_type
from ottla.spark.formats.value_format import Format, json, raw, text
from ottla.spark.options import OptionError, Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KEEP, FAIL = "keep", "fail"


@dataclass(frozen=True)
class TypedOptions:
    key: Format = raw
    value: Format = raw
    bad_rows: str = KEEP
    dead_letter_topic: str | None = None
    time_zone: str = "UTC"
    #: How values are decrypted, before they are decoded.
    decryption: Decryption | None = None
    #: Spark's types of the columns, as soon as Spark has parsed the schemas.
    key_type: Any = None
    value_type: Any = None

    @property
    def is_needed(self) -> bool:
        return self.key != raw or self.value != raw or self.decryption is not None

    @property
    def bad_columns(self) -> list[str]:
        """The columns that keep the bytes of what could not be decoded."""
        if self.bad_rows == FAIL or self.dead_letter_topic is not None:
            return []
        may_be_bad = {
            "badKey": self.key.schema is not None,
            "badValue": self.value.schema is not None or self.decryption is not None,
        }
        return [name for name, wanted in may_be_bad.items() if wanted]

    def with_types(self, schema: StructType) -> TypedOptions:
        types = {}
        for name, kind in (("key", self.key), ("value", self.value)):
            found = schema[name].dataType
            if kind.schema is not None:
                check_type(found, name)
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
    if key.schema is None and value.schema is None and decryption is None:
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
    return TypedOptions(key, value, bad_rows, dead_letters, zone, decryption)


def _format(given: Options, which: str) -> Format:
    """The format of the key or of the value."""
    schema = given.text(f"{which}Schema")
    name = given.choice(f"{which}Format", {name: name for name in ("json", "text", "raw")}, "raw")
    if name == "json":
        if schema is None:
            raise OptionError(f"{which}Format=json needs {which}Schema, such as 'user STRING, likes INT'.")
        return json(schema)
    if schema is not None:
        raise OptionError(f"{which}Schema has no meaning without {which}Format=json.")
    return text if name == "text" else raw
