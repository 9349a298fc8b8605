"""ValueToKey: builds a key from fields of the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance
from ottla.connect.config.validators import filled_list
from ottla.connect.data.columns import only_schema
from ottla.connect.data.record import ConnectRecord
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import (
    C,
    KeyOrValueTransform,
    numbered,
    replace_null_setting,
    require_map,
    require_struct,
)

_PURPOSE = "copying fields from value to key"


class ValueToKey(KeyOrValueTransform):
    config_def = replace_null_setting(
        ConfigDef().define(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="Fields of the value that form the key.",
            validator=filled_list,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._fields = list(dict.fromkeys(self.settings["fields"]))

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, key = self._key(record.value_schema, record.value)
        return record.replaced(key_schema=schema, key=key)

    def apply_columns(self, columns: C) -> C:
        schema = columns.value_schema
        schemas, keys = zip(*(self._key(schema, each) for each in columns.values), strict=True)
        return columns.replaced(key_schema=only_schema(schemas), keys=list(keys))

    def _key(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if schema is None:
            found = require_map(value, _PURPOSE)
            return None, {name: found.get(name) for name in self._fields}
        struct = require_struct(value, _PURPOSE, schema)
        updated = self.schemas.get(struct.schema)
        if updated is None:
            updated = self.schemas.put(struct.schema, self._key_schema(struct.schema))
        key = Struct(updated)
        for name in self._fields:
            field = struct.schema.field(name)
            assert field is not None
            key.put(name, self.field_value(struct, field))
        return updated, key

    def _key_schema(self, schema: Schema) -> Schema:
        fields = []
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            fields.append((name, field.schema))
        return Schema(SchemaType.STRUCT, fields=numbered(fields))
