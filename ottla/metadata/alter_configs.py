"""What overrides become of IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.metadata.config_defs import LIST, ConfigDef
from ottla.protocol.errors import ErrorCode, KafkaError


class AlterOperation(IntEnum):
    """The codes of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    name: str
    operation: int
    value: str | None


def alter_configs(
    overrides: Mapping[str, str],
    alterations: Sequence[Alteration],
    definition_of: Callable[[str], ConfigDef | None],
) -> dict[str, str]:
    """The overrides afterwards; whether their values are valid is for the caller to check.

    `definition_of` is TOPIC_CONFIGS.get or broker_config_def. A list that is not set starts from its default.
    """
    if len({each.name for each in alterations}) != len(alterations):
        raise _refused("Error due to duplicate config keys")
    nulls = [
        each.name for each in alterations if each.value is None and each.operation != AlterOperation.DELETE
    ]
    if nulls:
        raise _refused(f"Null value not supported for : {','.join(nulls)}")
    altered = dict(overrides)
    for name, operation, value in alterations:
        match operation:
            case AlterOperation.DELETE:
                altered.pop(name, None)
            case AlterOperation.SET:
                altered[name] = value or ""
            case AlterOperation.APPEND | AlterOperation.SUBTRACT:
                definition = definition_of(name)
                if definition is None or definition.type is not LIST:
                    raise KafkaError(
                        ErrorCode.INVALID_CONFIG,
                        f"Can't {AlterOperation(operation).name} to key {name} because its type is not LIST.",
                    )
                members = dict.fromkeys(_split(altered.get(name, definition.default)))
                for member in _split(value):
                    if operation == AlterOperation.APPEND:
                        members[member] = None
                    else:
                        members.pop(member, None)
                altered[name] = ",".join(members)
            case _:
                raise _refused(f"Unknown alter operation {operation} for {name}")
    return altered


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
