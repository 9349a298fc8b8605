"""Typed configuration values by name."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.metadata.configs.config_defs import Value


class TypedValues:
    """Typed access with one dict lookup. Asking for the wrong type is a bug and raises TypeError."""

    values: Mapping[str, Value]

    def get(self, name: str) -> Value:
        return self.values[name]

    def get_int(self, name: str) -> int:
        value = self.values[name]
        if type(value) is not int:
            raise TypeError(f"{name} is {value!r}, not a whole number")
        return value

    def get_optional_int(self, name: str) -> int | None:
        return None if self.values[name] is None else self.get_int(name)

    def get_float(self, name: str) -> float:
        value = self.values[name]
        if not isinstance(value, float):
            raise TypeError(f"{name} is {value!r}, not a number")
        return value

    def get_bool(self, name: str) -> bool:
        value = self.values[name]
        if not isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}, not a boolean")
        return value

    def get_str(self, name: str) -> str:
        value = self.values[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, not a text")
        return value

    def get_optional_str(self, name: str) -> str | None:
        return None if self.values[name] is None else self.get_str(name)

    def get_list(self, name: str) -> list[str]:
        value = self.values[name]
        if not isinstance(value, list):
            raise TypeError(f"{name} is {value!r}, not a list")
        return list(value)
