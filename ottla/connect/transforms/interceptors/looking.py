"""Interceptors that inspect texts, to filter records or to extract headers."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.config.config_def import (
    NO_DEFAULT,
    ConfigDef,
    ConfigType,
    Importance,
    invalid,
)
from ottla.connect.config.validators import filled_list, regex
from ottla.connect.data.java_regex import compile_java
from ottla.connect.data.java_values import java_class, java_text
from ottla.connect.data.record import ConnectRecord, Header
from ottla.connect.data.schema import STRING
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import Transform

_STRING, _BOOLEAN, _LIST = ConfigType.STRING, ConfigType.BOOLEAN, ConfigType.LIST
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _texts() -> ConfigDef:
    return ConfigDef().define(
        "field",
        _STRING,
        None,
        _HIGH,
        "Field of the value to match. [default: the whole value as text]",
    )


def _text_of(record: ConnectRecord, field: str | None) -> str | None:
    value = record.value
    if field is not None:
        if isinstance(value, dict):
            value = value.get(field)
        elif isinstance(value, Struct):
            found = value.schema.field(field)
            value = None if found is None else value.get(field)
        elif value is not None:
            raise DataError(
                f"Only a struct or a map has fields, not {java_class(value, record.value_schema)}."
            )
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else java_text(value)


class FilterByPattern(Transform):
    """Keeps or drops the records that match a regular expression."""

    config_def = (
        _texts()
        .define(
            "regex",
            _STRING,
            ".*",
            _HIGH,
            "Java regular expression; it may match a part of the text.",
            validator=regex,
        )
        .define("exclude.events", _BOOLEAN, False, _HIGH, ("Drop matching records instead of keeping them."))
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._pattern = compile_java(self.settings["regex"])
        self._drops: bool = self.settings["exclude.events"]

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        text = _text_of(record, self.settings["field"])
        matches = text is not None and self._pattern.search(text) is not None
        return None if matches == self._drops else record


class RegexExtractor(Transform):
    """Copies the groups of a regular expression to headers."""

    config_def = (
        _texts()
        .define("regex", _STRING, NO_DEFAULT, _HIGH, "Java regular expression with groups.", validator=regex)
        .define(
            "headers",
            _LIST,
            NO_DEFAULT,
            _HIGH,
            "The names of the headers, one for each group, in their order.",
            validator=filled_list,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._pattern = compile_java(self.settings["regex"])
        self._headers: list[str] = self.settings["headers"]
        if len(self._headers) > self._pattern.groups:
            count = self._pattern.groups
            raise invalid(
                "headers", ", ".join(self._headers), f"The regular expression has {count} groups only."
            )

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        text = _text_of(record, self.settings["field"])
        found = None if text is None else self._pattern.search(text)
        if found is None:
            return record
        groups = zip(self._headers, found.groups(), strict=False)
        added = [Header(name, group, STRING) for name, group in groups if group is not None]
        return record.replaced(headers=[*record.headers, *added])
