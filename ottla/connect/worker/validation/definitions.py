"""Setting definitions and values as JSON, in the format of Kafka's REST API. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, parse_value

Json = dict[str, Any]

HIDDEN = "[hidden]"


def definition_of(key: ConfigKey) -> Json:
    return {
        "name": key.name,
        "type": key.type.value,
        "required": key.is_required,
        "default_value": None if key.is_required else as_text(key.default, key.type),
        "importance": key.importance.value,
        "documentation": key.documentation,
        "group": key.group,
        "order_in_group": key.order,
        "width": key.width,
        "display_name": key.display_name or key.name,
        "dependents": list(key.dependents),
    }


def value_of(key: ConfigKey, given: str | None, recommended: Sequence[Any], errors: Sequence[str]) -> Json:
    shown: Any
    if given is not None:
        shown = HIDDEN if key.type is ConfigType.PASSWORD else _parsable(key, given)
    else:
        shown = None if key.is_required else as_text(key.default, key.type)
    return {
        "name": key.name,
        "value": shown,
        "recommended_values": [as_text(each, key.type) for each in recommended],
        "errors": list(errors),
        "visible": True,
    }


def _parsable(key: ConfigKey, given: str) -> str | None:
    """Return None for unparsable values, like Kafka. The accompanying error quotes the value."""
    try:
        parse_value(key.name, given, key.type)
    except ConfigError:
        return None
    return given


def as_text(value: Any, type: ConfigType) -> Any:
    if value is None:
        return None
    if type is ConfigType.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(each) for each in value)
    return str(value)


def groups_of(definition: ConfigDef) -> list[str]:
    return list(dict.fromkeys(key.group for key in definition.keys.values() if key.group))
