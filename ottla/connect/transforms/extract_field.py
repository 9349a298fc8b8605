"""ExtractField: replaces the key or value with one of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import (
    KeyOrValueTransform,
    replace_null_setting,
    require_map,
    require_struct,
)
from ottla.connect.transforms.field_path import FieldPath, syntax_setting

_PURPOSE = "field extraction"


class ExtractField(KeyOrValueTransform):
    config_def = syntax_setting(
        replace_null_setting(
            ConfigDef().define(
                "field",
                ConfigType.STRING,
                importance=Importance.MEDIUM,
                documentation="Field to keep.",
            )
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._path = FieldPath(self.settings["field"], self.settings["field.syntax.version"])
        self._replaces: bool = self.settings["replace.null.with.default"]

    def change(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if schema is None:
            if value is None:
                return None, None
            return None, self._path.in_map(require_map(value, _PURPOSE))
        struct = None if value is None else require_struct(value, _PURPOSE, schema)
        field = self._path.field_in(schema)
        if field is None:
            raise DataError(f"Unknown field: {self.settings['field']}")
        found = None if struct is None else self._path.in_struct(struct, replace_null=self._replaces)
        return field.schema, found


class ExtractFieldKey(ExtractField):
    of_key = True


class ExtractFieldValue(ExtractField): ...
