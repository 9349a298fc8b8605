"""SetSchemaMetadata: sets the name and version of the schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigType, Importance
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import KeyOrValueTransform, replace_null_setting

_PURPOSE = "updating schema metadata"


class SetSchemaMetadata(KeyOrValueTransform):
    config_def = replace_null_setting(
        ConfigDef()
        .define("schema.name", ConfigType.STRING, None, Importance.HIGH, "New schema name.")
        .define("schema.version", ConfigType.INT, None, Importance.HIGH, "New schema version.")
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._name, self._version = self.settings["schema.name"], self.settings["schema.version"]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")

    def change(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if schema is None:
            if value is None:
                return None, None
            raise DataError(f"Schema required for [{_PURPOSE}]")
        if schema.type is not SchemaType.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        updated = self.schemas.get(schema)
        if updated is None:
            updated = replace(
                schema,
                name=schema.name if self._name is None else self._name,
                version=schema.version if self._version is None else self._version,
            )
            self.schemas.put(schema, updated)
        if isinstance(value, Struct):
            value = self._moved(value, updated)
        return updated, value

    def _moved(self, struct: Struct, schema: Schema) -> Struct:
        result = Struct(schema)
        for field in struct.schema.fields:
            result.put(field.name, self.field_value(struct, field))
        return result


class SetSchemaMetadataKey(SetSchemaMetadata):
    of_key = True


class SetSchemaMetadataValue(SetSchemaMetadata): ...
