"""Apply configuration changes to the previous settings: replace, set, delete, append and subtract list members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.metadata.configs.config_defs import ConfigDef, ConfigType
from ottla.protocol.errors import ErrorCode, KafkaError

FindDefinition = Callable[[str], ConfigDef | None]


class Operation(IntEnum):
    """Operation codes of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    operation: int
    value: str | None


def replaced(configs: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """Return the settings after AlterConfigs: exactly those in the request."""
    _check_names(name for name, _ in configs)
    _check_values([(name, value) for name, value in configs])
    return {name: value for name, value in configs if value is not None}


def changed(
    before: Mapping[str, str], changes: Sequence[ConfigChange], definition_of: FindDefinition
) -> dict[str, str]:
    """Return the settings after IncrementalAlterConfigs, without validating them."""
    check_changes(changes)
    after = dict(before)
    for name, operation, value in changes:
        match operation:
            case Operation.SET:
                assert value is not None
                after[name] = value
            case Operation.DELETE:
                after.pop(name, None)
            case Operation.APPEND | Operation.SUBTRACT:
                assert value is not None
                definition = definition_of(name)
                if definition is None or definition.type is not ConfigType.LIST:
                    raise KafkaError(
                        ErrorCode.INVALID_CONFIG,
                        f"Can't {Operation(operation).name} to key {name} because its type is not LIST.",
                    )
                after[name] = _with_members(after.get(name, definition.default), operation, value)
            case _:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown configuration operation {operation}")
    return after


def check_changes(changes: Sequence[ConfigChange]) -> None:
    """Reject duplicate names and missing values."""
    _check_names(change.name for change in changes)
    _check_values([(c.name, c.value) for c in changes if c.operation != Operation.DELETE])


def _with_members(text: str | None, operation: int, value: str) -> str:
    members = _members(text or "")
    for member in _members(value):
        if operation == Operation.APPEND and member not in members:
            members.append(member)
        elif operation == Operation.SUBTRACT and member in members:
            members.remove(member)
    return ",".join(members)


def _members(text: str) -> list[str]:
    return [member for part in text.split(",") if (member := part.strip())]


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        seen.add(name)


def _check_values(configs: Sequence[tuple[str, str | None]]) -> None:
    if nulls := [name for name, value in configs if value is None]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
