"""Interceptors that change or remove texts."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import (
    NO_DEFAULT,
    ConfigDef,
    ConfigType,
    Importance,
    one_of,
)
from ottla.connect.config.validators import filled_list, regex
from ottla.connect.data.java_regex import InvalidPattern, compile_java, replace_all
from ottla.connect.data.java_values import java_class
from ottla.connect.data.record import ConnectRecord
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import SchemaCache, Transform, basics_of, numbered

_STRING, _BOOLEAN, _LIST = ConfigType.STRING, ConfigType.BOOLEAN, ConfigType.LIST
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


class _ChangingTexts(Transform):
    """Changes the named fields, or the whole value. Missing and null fields are skipped."""

    def changed(self, text: str) -> str:
        raise NotImplementedError

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._fields: list[str] = self.settings["fields"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        value = record.value
        if value is None:
            return record
        if not self._fields:
            return record.replaced(value=self._of(value, "the value"))
        if isinstance(value, dict):
            updated = dict(value)
            for name in self._fields:
                if updated.get(name) is not None:
                    updated[name] = self._of(updated[name], f"field {name}")
            return record.replaced(value=updated)
        if not isinstance(value, Struct):
            raise DataError(
                f"Only a struct or a map has fields, not {java_class(value, record.value_schema)}."
            )
        values = list(value.values)
        for name in self._fields:
            field = value.schema.field(name)
            if field is not None and values[field.index] is not None:
                values[field.index] = self._of(values[field.index], f"field {name}")
        return record.replaced(value=Struct.of(value.schema, values))

    def _of(self, value: Any, what: str) -> Any:
        if isinstance(value, bytes):
            return self.changed(value.decode("utf-8", "replace")).encode()
        if not isinstance(value, str):
            raise DataError(
                f"Only texts can be changed, and {what} is {java_class(value)}. Cast it to a string first."
            )
        return self.changed(value)


def _fields() -> ConfigDef:
    return ConfigDef().define("fields", _LIST, [], _HIGH, "Fields of the value. [default: the whole value]")


class Mask(_ChangingTexts):
    """Replaces matches of a regular expression, like Flume's search and replace."""

    config_def = (
        _fields()
        .define(
            "regex", _STRING, ".", _HIGH, "Java regular expression for the text to mask.", validator=regex
        )
        .define("replacement", _STRING, "*", _HIGH, "Replacement; $1 is the first group.")
        .define("keep.last", ConfigType.INT, 0, _LOW, "Number of characters at the end to keep.")
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._pattern = compile_java(self.settings["regex"])
        self._replacement: str = self.settings["replacement"]
        self._kept: int = max(0, self.settings["keep.last"])

    def changed(self, text: str) -> str:
        masked, kept = (text[: -self._kept], text[-self._kept :]) if self._kept else (text, "")
        try:
            return replace_all(self._pattern, self._replacement, masked) + kept
        except InvalidPattern as error:
            raise DataError(f"The replacement {self._replacement} cannot be used: {error}.") from None


class Hash(_ChangingTexts):
    """Replaces a text with its digest. Equal texts stay equal, but unreadable."""

    config_def = (
        _fields()
        .define(
            "algorithm",
            _STRING,
            "SHA-256",
            _MEDIUM,
            "Digest algorithm. The result has hexadecimal digits.",
            validator=one_of("SHA-256", "SHA-512", "SHA-1", "MD5"),
        )
        .define(
            "salt",
            ConfigType.PASSWORD,
            "",
            _MEDIUM,
            "Secret key of the digest (HMAC), which prevents guessing texts.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._algorithm: str = self.settings["algorithm"].replace("-", "").lower()
        self._salt: bytes = self.settings["salt"].encode()

    def changed(self, text: str) -> str:
        if self._salt:
            return hmac.new(self._salt, text.encode(), self._algorithm).hexdigest()
        return hashlib.new(self._algorithm, text.encode(), usedforsecurity=False).hexdigest()


class DropFields(Transform):
    """Removes fields from the value."""

    config_def = ConfigDef().define(
        "fields", _LIST, NO_DEFAULT, _HIGH, "The fields to remove.", validator=filled_list
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._dropped = frozenset(self.settings["fields"])
        self._schemas = SchemaCache()

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        value = record.value
        if isinstance(value, dict):
            return record.replaced(
                value={name: each for name, each in value.items() if name not in self._dropped}
            )
        if not isinstance(value, Struct):
            return record
        schema = self._schemas.get(value.schema) or self._schemas.put(
            value.schema, self._without(value.schema)
        )
        kept = [
            each
            for field, each in zip(value.schema.fields, value.values, strict=True)
            if field.name not in self._dropped
        ]
        return record.replaced(value_schema=schema, value=Struct.of(schema, kept))

    def _without(self, schema: Schema) -> Schema:
        kept = [(each.name, each.schema) for each in schema.fields if each.name not in self._dropped]
        return basics_of(schema, numbered(kept))
