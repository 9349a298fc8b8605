"""Field paths, like Kafka's SingleFieldPath (KIP-821).

V1 is a plain field name. V2 is a dotted path (`address.city`), with backticks around names that contain dots.
"""

from __future__ import annotations

from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigType, Importance
from ottla.connect.config.validators import one_of_any_case
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import require_map, require_struct

_PURPOSE = "nested field access"


def syntax_setting(definition: ConfigDef) -> ConfigDef:
    return definition.define(
        "field.syntax.version",
        ConfigType.STRING,
        "V1",
        Importance.HIGH,
        "V1: the field is one of the record's own. V2: dots lead into structs and maps (`address.city`); a name that"
        " has dots itself is put between backticks.",
        validator=one_of_any_case("V1", "V2"),
    )


class FieldPath:
    def __init__(self, path: str, version: str) -> None:
        self._text = path
        self._version = version.upper()
        self.steps = [path] if self._version == "V1" else _steps(path)

    def __str__(self) -> str:
        return f"SingleFieldPath{{version={self._version}, path={'.'.join(self.steps)}}}"

    def field_in(self, schema: Schema) -> Field | None:
        current: Schema | None = schema
        found = None
        for step in self.steps:
            if current is None or current.type is not SchemaType.STRUCT:
                raise DataError("Cannot look up fields on non-struct type")
            found = current.field(step)
            if found is None:
                return None
            current = found.schema
        return found

    def in_struct(self, value: Struct, *, replace_null: bool) -> Any:
        current: Any = value
        for index, step in enumerate(self.steps):
            if index:
                if current is None:
                    return None
                current = require_struct(current, _PURPOSE)
            current = current.get(step) if replace_null else current.get_without_default(step)
        return current

    def in_map(self, value: dict[Any, Any]) -> Any:
        current: Any = value
        for index, step in enumerate(self.steps):
            if index:
                if current is None:
                    return None
                current = require_map(current, _PURPOSE)
            current = current.get(step)
        return current


def _steps(path: str) -> list[str]:
    steps: list[str] = []
    at = 0
    while at <= len(path):
        if path.startswith("`", at):
            name, at = _backticked(path, at)
        else:
            end = path.find(".", at)
            end = len(path) if end < 0 else end
            name, at = path[at:end], end + 1
        steps.append(name)
    return steps


def _backticked(path: str, begin: int) -> tuple[str, int]:
    """Read a quoted name. A backtick ends the name before a dot or the end, unless a backslash precedes it."""
    at = begin + 1
    name: list[str] = []
    while True:
        end = path.find("`", at)
        if end < 0:
            raise ConfigError(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick "
                f"at position {begin} to escape it"
            )
        ends_here = end + 1 == len(path) or path[end + 1] == "."
        if path[end - 1] == "\\" and ends_here:
            name.append(path[at : end - 1] + "`")
        elif ends_here:
            name.append(path[at:end])
            return "".join(name), end + 2
        else:
            name.append(path[at : end + 1])
        at = end + 1
