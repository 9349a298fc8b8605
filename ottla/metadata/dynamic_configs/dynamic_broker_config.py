"""Dynamic broker configs: current values, and checks of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from ottla.metadata.configs.broker_config import BrokerConfig, broken_requirements
from ottla.metadata.configs.broker_config_table import broker_config_def
from ottla.metadata.configs.config_defs import (
    ConfigDef,
    ConfigType,
    InvalidValue,
    UpdateMode,
    parse_value,
    wrong_rate,
)
from ottla.metadata.dynamic_configs.dynamic_passwords import DynamicPasswords
from ottla.protocol.errors import ErrorCode, KafkaError

# Apply configuration changes to the previous settings: replace, set, delete, append and subtract list members.

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


# Dynamic broker configs (Kafka's DynamicBrokerConfig): settings of one broker or of all that change at run time.
#
# They are stored under /config/brokers, for one broker by its id and for all under <default>. A broker's own settings
# precede those of all brokers, and both precede server.properties.

_NOTHING: Mapping[str, str] = MappingProxyType({})


class DynamicBrokerConfig:
    """The dynamic layers of this broker's config. Owner: the event loop."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.passwords = DynamicPasswords(config)

    def apply(self, stored: Mapping[int | None, Mapping[str, str]]) -> None:
        """Apply the stored settings by broker id; None means all brokers."""
        self._config.set_dynamic(
            broker=self.passwords.reveal(stored.get(self._config.broker_id, {})),
            cluster_default=stored.get(None, {}),
        )

    def validate(
        self, changed: Mapping[str, str], before: Mapping[str, str] = _NOTHING, *, cluster_default: bool
    ) -> None:
        """Reject changes that Kafka rejects for one broker or for all. Raises KafkaError(INVALID_REQUEST).

        `changed` is the layer after the change, `before` the current one. Unchanged values are not checked again, since
        they may come from Kafka 3.9. Unknown names pass, as Kafka allows for plugins.
        """
        known = {
            name: definition
            for name in changed
            if changed[name] != before.get(name) and (definition := broker_config_def(name)) is not None
        }
        if fixed := [name for name, each in known.items() if each.update_mode is UpdateMode.READ_ONLY]:
            raise _refused(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
        if bare := [name for name in known if name.startswith("ssl.")]:
            raise _refused(
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                f"[{', '.join(bare)}]"
            )
        if (wrong := wrong_rate(changed)) is not None:
            raise _refused(wrong)
        values = dict(self._config.values)
        try:
            values |= {name: parse_value(definition, changed[name]) for name, definition in known.items()}
        except InvalidValue as error:
            raise _refused(str(error)) from None
        if cluster_default:
            per_broker = [name for name, each in known.items() if each.update_mode is UpdateMode.PER_BROKER]
            if per_broker:
                raise _refused(
                    "Cannot update these configs at default cluster level, broker id must be specified: "
                    f"[{', '.join(per_broker)}]"
                )
        for name, reason in broken_requirements(values):
            raise _refused(f"requirement failed: {name} {reason}")


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
