"""What keys and values are decoded to at the source, and what becomes of those that cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ottla.spark.formats.json_times import time_zone
from ottla.spark.formats.json_types import check_type
from ottla.spark.formats.value_format import Format, json, raw, text
from ottla.spark.source.option_names import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_FORMATS = {"raw": raw, "text": text}
KEEP, FAIL = "keep", "fail"


@dataclass(frozen=True)
class TypedOptions:
    key: Format = raw
    value: Format = raw
    bad_rows: str = KEEP
    dead_letter_topic: str | None = None
    time_zone: str = "UTC"
    #: Spark's types of the columns, as soon as Spark has parsed the schemas.
    key_type: Any = None
    value_type: Any = None

    @property
    def is_needed(self) -> bool:
        return self.key != raw or self.value != raw

    @property
    def bad_columns(self) -> list[str]:
        """The columns that keep the bytes of what could not be decoded."""
        if self.bad_rows == FAIL or self.dead_letter_topic is not None:
            return []
        columns = [("badKey", self.key), ("badValue", self.value)]
        return [name for name, kind in columns if kind.schema is not None]

    def with_types(self, schema: StructType) -> TypedOptions:
        types = {}
        for name, kind in (("key", self.key), ("value", self.value)):
            found = schema[name].dataType
            if kind.schema is not None:
                check_type(found, name)
            types[f"{name}_type"] = found
        return replace(self, **types)


def parse_typed_options(options: Mapping[str, str]) -> TypedOptions:
    """`options` have their names in lower case."""
    key, value = _format(options, "key"), _format(options, "value")
    bad_rows = options.get("badrows", KEEP).strip().lower()
    if bad_rows not in (KEEP, FAIL):
        raise OptionError(f"badRows must be keep or fail, not '{bad_rows}'.")
    dead_letters = options.get("deadlettertopic")
    if dead_letters is not None and not dead_letters.strip():
        raise OptionError(
            "deadLetterTopic is empty: name the topic that takes the records that cannot be read."
        )
    if dead_letters is not None and "badrows" in options:
        raise OptionError("badRows and deadLetterTopic contradict each other: leave one of them away.")
    if key.schema is None and value.schema is None:
        for name, found in (("badRows", options.get("badrows")), ("deadLetterTopic", dead_letters)):
            if found is not None:
                raise OptionError(f"{name} says nothing without valueFormat=json or keyFormat=json.")
    zone = options.get("timezone", "UTC")
    try:
        time_zone(zone)
    except ValueError:
        raise OptionError(
            f"timeZone must be a time zone such as UTC or Europe/Berlin, not '{zone}'."
        ) from None
    return TypedOptions(key, value, bad_rows, dead_letters, zone)


def _format(options: Mapping[str, str], which: str) -> Format:
    name = options.get(f"{which}format", "raw").strip().lower()
    schema = options.get(f"{which}schema")
    if name == "json":
        if schema is None:
            raise OptionError(f"{which}Format=json needs {which}Schema, such as 'user STRING, likes INT'.")
        return json(schema)
    if name not in _FORMATS:
        raise OptionError(f"{which}Format must be json, text or raw, not '{name}'.")
    if schema is not None:
        raise OptionError(f"{which}Schema says nothing without {which}Format=json.")
    return _FORMATS[name]
