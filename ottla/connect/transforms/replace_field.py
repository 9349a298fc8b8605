"""ReplaceField: selects and renames fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, invalid
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import Struct
from ottla.connect.transforms.base import (
    KeyOrValueTransform,
    basics_of,
    numbered,
    replace_null_setting,
    require_map,
    require_struct,
)

_PURPOSE = "field replacement"


def _parse_renames(entries: list[str]) -> dict[str, str]:
    renames = {}
    for entry in entries:
        parts = entry.split(":")
        if len(parts) != 2 or not parts[1]:
            raise invalid("renames", f"[{', '.join(entries)}]", f"Invalid rename mapping: {entry}")
        renames[parts[0]] = parts[1]
    return renames


def _valid_renames(name: str, value: Any) -> None:
    _parse_renames(value)


class ReplaceField(KeyOrValueTransform):
    config_def = replace_null_setting(
        ConfigDef()
        .define(
            "exclude",
            ConfigType.LIST,
            [],
            Importance.MEDIUM,
            "Fields to remove, even if they are included.",
        )
        .define("include", ConfigType.LIST, [], Importance.MEDIUM, "Fields to keep. [default: all]")
        .define(
            "renames",
            ConfigType.LIST,
            [],
            Importance.MEDIUM,
            "New names, as old:new,old:new.",
            validator=_valid_renames,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._excluded = frozenset(self.settings["exclude"])
        self._included = frozenset(self.settings["include"])
        self._renames = _parse_renames(self.settings["renames"])

    def change(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, None
        if schema is None:
            renames = self._renames
            kept_map = {
                renames.get(name, name): each
                for name, each in require_map(value, _PURPOSE).items()
                if self._keeps(name)
            }
            return None, kept_map
        struct = require_struct(value, _PURPOSE, schema)
        kept = [each for each in struct.schema.fields if self._keeps(each.name)]
        updated = self.schemas.get(schema)
        if updated is None:
            named = [(self._renames.get(each.name, each.name), each.schema) for each in kept]
            updated = self.schemas.put(schema, basics_of(struct.schema, numbered(named)))
        return updated, self._filled(updated, struct, kept)

    def _filled(self, schema: Any, struct: Struct, kept: list[Any]) -> Struct:
        result = Struct(schema)
        for field, source in zip(schema.fields, kept, strict=True):
            result.put(field.name, self.field_value(struct, source))
        return result

    def _keeps(self, name: str) -> bool:
        return name not in self._excluded and (not self._included or name in self._included)


class ReplaceFieldKey(ReplaceField):
    of_key = True


class ReplaceFieldValue(ReplaceField): ...
