"""HeaderFrom: copies or moves fields to headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigType, Importance, one_of
from ottla.connect.config.validators import non_empty_list
from ottla.connect.data.record import ConnectRecord, Header
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import (
    KeyOrValueTransform,
    basics_of,
    numbered,
    replace_null_setting,
    require_map,
    require_struct,
)


class HeaderFrom(KeyOrValueTransform):
    config_def = replace_null_setting(
        ConfigDef()
        .define(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="The fields whose values become headers.",
            validator=non_empty_list,
        )
        .define(
            "headers",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="The names of the headers, one for each field, in the same order.",
            validator=non_empty_list,
        )
        .define(
            "operation",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="move: the fields are removed from the key or value. copy: they stay there as well.",
            validator=one_of("move", "copy"),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        fields, headers = self.settings["fields"], self.settings["headers"]
        if len(fields) != len(headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        self._pairs = list(zip(fields, headers, strict=True))
        self._moves = self.settings["operation"] == "move"
        self._moved = frozenset(fields) if self._moves else frozenset()
        self._purpose = f"header {self.settings['operation']}"

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        value = self.value_of(record)
        schema = self.schema_of(record)
        left: dict[Any, Any] | Struct
        if schema is None:
            headers, left = self._schemaless(require_map(value, self._purpose))
            updated = None
        else:
            struct = require_struct(value, self._purpose, schema)
            headers = self._headers(struct)
            updated, left = self._without_moved(schema, struct) if self._moves else (schema, struct)
        changed = self.changed(record, updated, left)
        changed.headers = [*record.headers, *headers]
        return changed

    def _schemaless(self, value: dict[Any, Any]) -> tuple[list[Header], dict[Any, Any]]:
        headers = [Header(header, value.get(field)) for field, header in self._pairs]
        return headers, {name: each for name, each in value.items() if name not in self._moved}

    def _headers(self, struct: Struct) -> list[Header]:
        headers = []
        for name, header in self._pairs:
            field = struct.schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            headers.append(Header(header, self.field_value(struct, field), field.schema))
        return headers

    def _without_moved(self, schema: Schema, struct: Struct) -> tuple[Schema, Struct]:
        updated = self.schemas.get(schema)
        if updated is None:
            kept = [(each.name, each.schema) for each in schema.fields if each.name not in self._moved]
            updated = self.schemas.put(schema, basics_of(schema, numbered(kept)))
        left = Struct(updated)
        for field in struct.schema.fields:
            if field.name not in self._moved:
                left.put(field.name, self.field_value(struct, field))
        return updated, left


class HeaderFromKey(HeaderFrom):
    of_key = True


class HeaderFromValue(HeaderFrom): ...
