"""Flatten: moves nested fields to the top level, with names joined by a delimiter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance
from ottla.connect.data.java_values import java_class
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import (
    KeyOrValueTransform,
    basics_of,
    numbered,
    require_map,
    require_struct,
)
from ottla.connect.transforms.cast import type_of

_PURPOSE = "flattening"


class Flatten(KeyOrValueTransform):
    config_def = ConfigDef().define(
        "delimiter",
        ConfigType.STRING,
        ".",
        Importance.MEDIUM,
        "Separator between the names of the outer and the inner field.",
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._delimiter: str = self.settings["delimiter"]

    def change(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, None
        if schema is None:
            flat: dict[str, Any] = {}
            self._add(require_map(value, _PURPOSE), "", flat)
            return None, flat
        struct = require_struct(value, _PURPOSE, schema)
        updated = self.schemas.get(schema) or self.schemas.put(schema, self._updated(schema))
        result = Struct(updated)
        self._fill(struct, "", result)
        return updated, result

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _add(self, value: dict[Any, Any], prefix: str, flat: dict[str, Any]) -> None:
        for key, each in value.items():
            name = self._name(prefix, key)
            if isinstance(each, dict):
                self._add(each, name, flat)
                continue
            kind = type_of(each)
            if each is not None and kind is None:
                raise DataError(
                    f"Flatten transformation was passed a value of type {java_class(each)} which is not"
                    " supported by Connect's data API"
                )
            if kind is SchemaType.STRUCT:
                raise DataError(
                    f"Flatten transformation does not support {java_class(each)} for record without schemas"
                    f" (for field {name})."
                )
            flat[name] = each

    def _updated(self, schema: Schema) -> Schema:
        if schema.type is not SchemaType.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        fields: list[tuple[str, Schema]] = []
        self._add_fields(schema, "", fields, schema.optional, schema.default)
        return basics_of(schema, numbered(fields))

    def _add_fields(
        self,
        schema: Schema,
        prefix: str,
        fields: list[tuple[str, Schema]],
        optional: bool,
        parent_default: Struct | None,
    ) -> None:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            is_optional = optional or field.schema.optional
            default = field.schema.default
            if default is None and parent_default is not None:
                default = parent_default.get(field.name)
            if field.schema.type is SchemaType.STRUCT:
                self._add_fields(field.schema, name, fields, is_optional, default)
            elif field.schema.type is SchemaType.MAP:
                raise DataError(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            else:
                parameters = field.schema.parameters or None
                fields.append(
                    (
                        name,
                        replace(field.schema, optional=is_optional, default=default, parameters=parameters),
                    )
                )

    def _fill(self, struct: Struct | None, prefix: str, result: Struct) -> None:
        if struct is None:
            return
        for field in struct.schema.fields:
            name = self._name(prefix, field.name)
            if field.schema.type is SchemaType.STRUCT:
                self._fill(struct.values[field.index], name, result)
            else:
                result.put(name, struct.get(field.name))


class FlattenKey(Flatten):
    of_key = True


class FlattenValue(Flatten): ...
