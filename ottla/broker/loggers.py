"""The loggers of this process, as DescribeConfigs shows them and IncrementalAlterConfigs changes them.

They have Python's names: `ottla.coordinator` and those below it log what groups do, `kazoo` what the ZooKeeper client
does, and all others inherit from `root`. A change lasts until the broker stops. It does not reach compaction, which
runs in a process of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from ottla.cluster.topics.config_changes import ConfigChange, Operation, check_changes
from ottla.metadata.configs.config_defs import ConfigSource, ConfigType
from ottla.metadata.configs.effective_config import ConfigEntry
from ottla.protocol.errors import ErrorCode, KafkaError

ROOT = "root"
_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG // 2,
}
_OURS = "ottla"


def logger_configs() -> dict[str, ConfigEntry]:
    """Every logger with the level in force."""
    return {
        name: ConfigEntry(
            name,
            _level_name(logging.getLogger(name).getEffectiveLevel()),
            ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            ConfigType.UNKNOWN,
            read_only=False,
            sensitive=False,
            documentation="",
            synonyms=(),
        )
        for name in sorted(set(_names()))
    }


def own_levels() -> dict[str, str]:
    """The levels of the loggers that do not inherit theirs."""
    return {name: _level_name(logger.level) for name in _names() if (logger := logging.getLogger(name)).level}


def changed_levels(before: Mapping[str, str], changes: Sequence[ConfigChange]) -> dict[str, str]:
    """The levels after these changes; KafkaError with Kafka's message for a change that is not possible."""
    check_changes(changes)
    known = set(_names())
    after = dict(before)
    for name, operation, level in changes:
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{Operation(operation).name} operation is not allowed for the BROKER_LOGGER resource",
            )
        if operation not in (Operation.SET, Operation.DELETE):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown configuration operation {operation}")
        if name not in known:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if operation == Operation.DELETE:
            if name == ROOT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
                )
            after.pop(name, None)
            continue
        if level not in _LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(_LEVELS))}",
            )
        after[name] = level
    return after


def set_levels(levels: Mapping[str, str]) -> None:
    """Make these the levels that `own_levels` returns."""
    before = own_levels()
    for name in before.keys() - levels.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in levels.items():
        if before.get(name) != level:
            logging.getLogger(name).setLevel(_LEVELS[level])


def _names() -> Iterator[str]:
    yield ROOT
    for name, found in logging.root.manager.loggerDict.items():
        # A package of which only modules have loggers has none yet, but people want to name the package.
        if isinstance(found, logging.Logger) or name == _OURS or name.startswith(f"{_OURS}."):
            yield name


def _level_name(level: int) -> str:
    return next((name for name, least in _LEVELS.items() if level >= least), "TRACE")
