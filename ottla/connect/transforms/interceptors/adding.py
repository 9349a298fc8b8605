"""Interceptors that add a host, a time, a fixed text or a UUID, as a header or as a field of the value."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from ottla.connect.config.config_def import (
    NO_DEFAULT,
    ConfigDef,
    ConfigError,
    ConfigType,
    Importance,
)
from ottla.connect.data.java_values import java_class
from ottla.connect.data.record import ConnectRecord, Header
from ottla.connect.data.schema import INT64, STRING
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import SchemaCache, Transform, basics_of, numbered

_STRING, _BOOLEAN, _LIST = ConfigType.STRING, ConfigType.BOOLEAN, ConfigType.LIST
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _where() -> ConfigDef:
    return (
        ConfigDef()
        .define("header", _STRING, None, _HIGH, "Header to write.")
        .define("field", _STRING, None, _HIGH, "Field of the value to write.")
        .define(
            "preserve.existing",
            _BOOLEAN,
            False,
            _MEDIUM,
            "Keep an existing header or field.",
        )
    )


class _Adding(Transform):
    schema = STRING

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._header: str | None = self.settings["header"]
        self._field: str | None = self.settings["field"]
        self._preserves: bool = self.settings["preserve.existing"]
        self._schemas = SchemaCache()
        if not self._header and not self._field:
            raise ConfigError("Where is it written? Set header or field.")

    def added(self, record: ConnectRecord) -> Any:
        raise NotImplementedError

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        changed = record
        if self._header and not (
            self._preserves and any(each.key == self._header for each in record.headers)
        ):
            kept = [each for each in record.headers if each.key != self._header]
            changed = record.replaced(headers=[*kept, Header(self._header, self.added(record), self.schema)])
        if self._field and record.value is not None:
            changed = self._with_field(changed, self._field)
        return changed

    def _with_field(self, record: ConnectRecord, name: str) -> ConnectRecord:
        value = record.value
        if isinstance(value, dict):
            if self._preserves and value.get(name) is not None:
                return record
            return record.replaced(value={**value, name: self.added(record)})
        if not isinstance(value, Struct):
            raise DataError(
                f"Only a struct or a map has fields, not {java_class(value, record.value_schema)}."
            )
        if self._preserves and value.schema.field(name) is not None and value.get(name) is not None:
            return record
        schema = self._schemas.get(value.schema)
        if schema is None:
            fields = [(each.name, each.schema) for each in value.schema.fields if each.name != name]
            schema = basics_of(value.schema, numbered([*fields, (name, self.schema)]))
            self._schemas.put(value.schema, schema)
        kept = [
            each for field, each in zip(value.schema.fields, value.values, strict=True) if field.name != name
        ]
        return record.replaced(value_schema=schema, value=Struct.of(schema, [*kept, self.added(record)]))


class AddHost(_Adding):
    """Adds the name or address of the machine that runs the task."""

    config_def = _where().define(
        "use.ip",
        _BOOLEAN,
        True,
        _MEDIUM,
        "Use the machine's address (Flume's default) instead of its name.",
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._host = _address() if self.settings["use.ip"] else socket.gethostname()

    def added(self, record: ConnectRecord) -> str:
        return self._host


def _address() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


class AddTime(_Adding):
    """Adds the processing time, in milliseconds since 1970."""

    schema = INT64
    config_def = _where()
    clock: Callable[[], float] = staticmethod(time.time)

    def added(self, record: ConnectRecord) -> int:
        return int(self.clock() * 1000)


class AddStatic(_Adding):
    """Adds a fixed text."""

    config_def = _where().define("value", _STRING, NO_DEFAULT, _HIGH, "The text.")

    def added(self, record: ConnectRecord) -> str:
        return str(self.settings["value"])


class AddUuid(_Adding):
    """Adds a random UUID to each record."""

    config_def = _where().define("prefix", _STRING, "", _LOW, "Prefix of the UUID.")

    def added(self, record: ConnectRecord) -> str:
        return f"{self.settings['prefix']}{uuid.uuid4()}"
