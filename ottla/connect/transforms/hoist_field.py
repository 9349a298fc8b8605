"""HoistField: wraps the key or value in a struct or map with one field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.transforms.base import KeyOrValueTransform, numbered


class HoistField(KeyOrValueTransform):
    config_def = ConfigDef().define(
        "field",
        ConfigType.STRING,
        importance=Importance.MEDIUM,
        documentation="The name of the one field.",
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._field: str = self.settings["field"]

    def change(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if schema is None:
            return None, {self._field: value}
        updated = self._updated(schema)
        return updated, Struct(updated).put(self._field, value)

    def change_all(self, schema: Schema | None, values: list[Any]) -> tuple[Schema | None, list[Any]]:
        if schema is None or set(map(type, values)) != {schema.plain_type}:
            return super().change_all(schema, values)
        updated = self._updated(schema)
        return updated, Struct.all_of(updated, [[each] for each in values])

    def _updated(self, schema: Schema) -> Schema:
        updated = self.schemas.get(schema)
        if updated is None:
            updated = Schema(SchemaType.STRUCT, fields=numbered([(self._field, schema)]))
            self.schemas.put(schema, updated)
        return updated


class HoistFieldKey(HoistField):
    of_key = True


class HoistFieldValue(HoistField): ...
