"""Python functions as transforms: `transforms.NAME.type=my.module:function`.

A function takes a record and returns it, changed or not, or None to drop it. Keyword-only parameters are settings:

    def drop_small(record, *, least: int = 10):
        return record if record.value["amount"] >= least else None

`transforms.NAME.least=100` sets one. Its type is that of the default, or text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance
from ottla.connect.data.record import ConnectRecord
from ottla.connect.errors import ConnectError, DataError
from ottla.connect.transforms.base import Transform

_TYPES: dict[type, ConfigType] = {
    bool: ConfigType.BOOLEAN,
    int: ConfigType.LONG,
    float: ConfigType.DOUBLE,
    list: ConfigType.LIST,
}


class FunctionTransform(Transform):
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._name = getattr(function, "__name__", "function")
        self._definition, self._parameters = _settings_of(function)

    @property
    def definition(self) -> ConfigDef:
        return self._definition

    def configure(self, config: Mapping[str, str]) -> None:
        parsed = self._definition.parse(config)
        self._arguments = {name: parsed[setting] for setting, name in self._parameters.items()}

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        try:
            result = self._function(record, **self._arguments)
        except ConnectError:
            raise
        except Exception as error:  # any exception of a user's function concerns this record
            said = " ".join(str(error).split())
            raise DataError(f"The function {self._name} failed: {type(error).__name__}: {said}") from error
        if result is not None and not isinstance(result, ConnectRecord):
            raise DataError(
                f"The function {self._name} must return a record or None, not {type(result).__name__}."
            )
        return result


def _settings_of(function: Callable[..., Any]) -> tuple[ConfigDef, dict[str, str]]:
    """Return the settings, and the parameter of each. Underscores in names are dots in configs."""
    definition, parameters = ConfigDef(), {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        setting = parameter.name.replace("_", ".")
        parameters[setting] = parameter.name
        about: dict[str, Any] = {}
        kind = ConfigType.STRING
        if parameter.default is not inspect.Parameter.empty:
            about["default"] = parameter.default
            kind = _TYPES.get(type(parameter.default), ConfigType.STRING)
        definition.define(setting, kind, importance=Importance.MEDIUM, **about)
    return definition, parameters
