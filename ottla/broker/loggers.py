"""Loggers and finalized features of this process."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from ottla.metadata.configs.config_defs import ConfigSource, ConfigType
from ottla.metadata.dynamic_configs.dynamic_broker_config import ConfigChange, Operation, check_changes
from ottla.metadata.dynamic_configs.effective_config import ConfigEntry
from ottla.protocol.errors import ErrorCode, KafkaError

# Finalized features of this broker, by Kafka's names. They are part of the software and cannot be changed.
#
# `transaction.version` 2 lets clients use transactions v2 (KIP-890). `group.version`, `share.version` and
# `streams.version` announce the groups of KIP-848, KIP-932 and KIP-1071; level 2 of `share.version` adds dead letters
# (KIP-1191).

# `metadata.version` 33 is 4.4-IV2, the newest of Kafka 4.4; 7 is the lowest that Kafka supports.

FEATURES = {
    "group.version": 1,
    "metadata.version": 33,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
LOWEST_LEVELS = {"metadata.version": 7}

# Loggers of this process, for DescribeConfigs and IncrementalAlterConfigs.
#
# Loggers have Python's names: `ottla.coordinator` and below for groups, `kazoo` for the ZooKeeper client; all others
# inherit from `root`. A change lasts until the broker stops. It does not affect compaction, which runs in another
# process.

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
    return {name: _level_name(logger.level) for name in _names() if (logger := logging.getLogger(name)).level}


def changed_levels(before: Mapping[str, str], changes: Sequence[ConfigChange]) -> dict[str, str]:
    """Return the levels after these changes. Raises KafkaError with Kafka's message for an invalid change."""
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
    before = own_levels()
    for name in before.keys() - levels.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in levels.items():
        if before.get(name) != level:
            logging.getLogger(name).setLevel(_LEVELS[level])


def _names() -> Iterator[str]:
    yield ROOT
    for name, found in logging.root.manager.loggerDict.items():
        # A package with loggers only in its modules has no logger yet, but operators want to name the package.
        if isinstance(found, logging.Logger) or name == _OURS or name.startswith(f"{_OURS}."):
            yield name


def _level_name(level: int) -> str:
    return next((name for name, least in _LEVELS.items() if level >= least), "TRACE")
