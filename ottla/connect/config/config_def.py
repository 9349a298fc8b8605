"""Setting definitions that parse, validate and describe configs, like Kafka's ConfigDef."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.connect.errors import ConnectError


class ConfigError(ConnectError):
    """An unusable config. Kafka's ConfigException."""


class ConfigType(enum.Enum):
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(enum.Enum):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


#: Marks a required setting.
NO_DEFAULT = _NoDefault()

#: A validator raises `invalid(name, value, why)`.
Validator = Callable[[str, Any], None]


@dataclass(frozen=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: Any = NO_DEFAULT
    importance: Importance = Importance.MEDIUM
    documentation: str = ""
    validator: Validator | None = None
    group: str | None = None
    order: int = -1
    width: str = "NONE"
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    #: Returns possible values for forms, given the other settings.
    recommender: Callable[[str, Mapping[str, Any]], Sequence[Any]] | None = None

    @property
    def is_required(self) -> bool:
        return self.default is NO_DEFAULT


def invalid(name: str, value: object, why: str = "") -> ConfigError:
    """Build an error with the wording of Kafka's ConfigException."""
    return ConfigError(f"Invalid value {_java(value)} for configuration {name}" + (f": {why}" if why else ""))


def _java(value: object) -> str:
    return "null" if value is None else str(value)


class ConfigDef:
    """An ordered set of settings. `define` returns the definition so that calls can be chained."""

    def __init__(self) -> None:
        self.keys: dict[str, ConfigKey] = {}

    def define(
        self,
        name: str,
        type: ConfigType,
        default: Any = NO_DEFAULT,
        importance: Importance = Importance.MEDIUM,
        documentation: str = "",
        **more: Any,
    ) -> ConfigDef:
        if name in self.keys:
            raise ConfigError(f"Configuration {name} is defined twice.")
        key = ConfigKey(name, type, default, importance, documentation, **more)
        self.keys[name] = key
        return self

    def parse(self, config: Mapping[str, str]) -> dict[str, Any]:
        """Parse all defined settings. Raises ConfigError for the first invalid one."""
        return {key.name: self._value(key, config) for key in self.keys.values()}

    def errors(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """Return Kafka's error messages by setting name. Valid settings are absent."""
        found = {}
        for key in self.keys.values():
            try:
                self._value(key, config)
            except ConfigError as error:
                found[key.name] = [error.message]
        return found

    def _value(self, key: ConfigKey, config: Mapping[str, str]) -> Any:
        if key.name in config:
            value = parse_value(key.name, config[key.name], key.type)
        elif key.is_required:
            raise ConfigError(f'Missing required configuration "{key.name}" which has no default value.')
        else:
            value = key.default
        if key.validator is not None:
            key.validator(key.name, value)
        return value


_WHOLE_NUMBERS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


def parse_value(name: str, text: str | None, type: ConfigType) -> Any:
    if text is None:
        return None
    trimmed = text.strip()
    if type is ConfigType.BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise invalid(name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if type in _WHOLE_NUMBERS:
        bits = _WHOLE_NUMBERS[type]
        try:
            number = int(trimmed)
        except ValueError:
            raise invalid(name, text, f"Not a number of type {type.value}") from None
        if not -(1 << bits) <= number < 1 << bits:
            raise invalid(name, text, f"Not a number of type {type.value}")
        return number
    if type is ConfigType.DOUBLE:
        try:
            return float(trimmed)
        except ValueError:
            raise invalid(name, text, f"Not a number of type {type.value}") from None
    if type is ConfigType.LIST:
        return [each.strip() for each in trimmed.split(",")] if trimmed else []
    return trimmed if type is not ConfigType.PASSWORD else text


def one_of(*values: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value not in values:
            raise invalid(name, value, f"String must be one of: {', '.join(values)}")

    return check


def at_least(least: float) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None or value < least:
            raise invalid(name, value, f"Value must be at least {least}")

    return check


def between(least: float, most: float) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None or value < least:
            raise invalid(name, value, f"Value must be at least {least}")
        if value > most:
            raise invalid(name, value, f"Value must be no more than {most}")

    return check


def not_empty(name: str, value: Any) -> None:
    if value is not None and not value:
        raise invalid(name, value, "String must be non-empty")
