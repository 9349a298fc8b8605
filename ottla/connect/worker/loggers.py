"""Log levels of the worker's loggers, with Kafka's level names."""

from __future__ import annotations

import logging
import time
from typing import Any

_LEVELS = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
    "ALL": logging.NOTSET + 1,
}
_NAMES = {number: name for name, number in _LEVELS.items()}
ROOT = "root"


class UnknownLevel(ValueError):
    pass


class UnknownLogger(LookupError):
    pass


class Loggers:
    def __init__(self) -> None:
        self._modified: dict[str, int] = {}

    def all(self) -> dict[str, Any]:
        """Return the root and all loggers with an explicit level."""
        return {name: self.get(name) for name in [*sorted(_with_level()), ROOT]}

    def get(self, name: str) -> dict[str, Any]:
        """Raises UnknownLogger. Python's getLogger would create the logger."""
        name = _plain(name)
        if name != ROOT and not isinstance(logging.root.manager.loggerDict.get(name), logging.Logger):
            raise UnknownLogger(name)
        level = _logger(name).getEffectiveLevel()
        return {
            "level": _NAMES.get(level, logging.getLevelName(level)),
            "last_modified": self._modified.get(name),
        }

    def set(self, namespace: str, level: str) -> list[str]:
        """Set the level of a logger and its descendants. Return their names. Raises UnknownLevel."""
        number = _LEVELS.get(level.strip().upper())
        if number is None:
            raise UnknownLevel(level)
        namespace = _plain(namespace)
        names = [namespace]
        if namespace == ROOT:
            names += _with_level()
        else:
            names += [
                name for name in list(logging.root.manager.loggerDict) if name.startswith(namespace + ".")
            ]
        now = time.time_ns() // 1_000_000
        for name in names:
            _logger(name).setLevel(number)
            self._modified[name] = now
        return sorted(names)


def _with_level() -> list[str]:
    return [
        name
        for name, logger in list(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET
    ]


def _plain(name: str) -> str:
    """Normalize the root's name, which Kafka accepts in any case."""
    return ROOT if name.lower() == ROOT else name


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
