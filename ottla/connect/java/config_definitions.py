"""Converts Kafka's ConfigDef to ours."""

from __future__ import annotations

from typing import Any

from ottla.connect.config.config_def import NO_DEFAULT, ConfigDef, ConfigType, Importance
from ottla.connect.java.data import from_java


def definition_of(java: Any) -> ConfigDef:
    """Convert a definition without its validators. The plugin itself checks the values."""
    import jpype

    definition = ConfigDef()
    no_default = jpype.JClass("org.apache.kafka.common.config.ConfigDef").NO_DEFAULT_VALUE
    for entry in java.configKeys().entrySet():
        key = entry.getValue()
        default = _field(key, "defaultValue")
        name, group = str(_field(key, "name")), _field(key, "group")
        definition.define(
            name,
            ConfigType[str(_field(key, "type").name())],
            NO_DEFAULT if default is not None and no_default.equals(default) else _default(default),
            Importance[str(_field(key, "importance").name())],
            str(_field(key, "documentation") or ""),
            group=None if group is None else str(group),
            order=int(_field(key, "orderInGroup")),
            width=str(_field(key, "width").name()),
            display_name=str(_field(key, "displayName") or name),
            dependents=tuple(str(each) for each in _field(key, "dependents")),
        )
    return definition


def _field(key: Any, name: str) -> Any:
    """Read a public field. In some Kafka releases a method of the same name hides it."""
    return key.getClass().getField(name).get(key)


def _default(value: Any) -> Any:
    import jpype

    if value is None:
        return None
    if isinstance(value, jpype.java.util.Collection):
        return [str(each) for each in value]
    if isinstance(value, jpype.java.lang.Class):
        return str(value.getName())
    return from_java(value)
