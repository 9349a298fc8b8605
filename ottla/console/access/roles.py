"""Rights of visitors: three levels, each for topics, groups, schemas and connectors that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import translate
from functools import lru_cache
from typing import Literal

from ottla.protocol.internal_topics import is_internal

Kind = Literal["topic", "group", "schema", "connector", "sql"]
EVERYTHING = ("*",)
#: Topics with the state of Connect, MirrorMaker, the registry and ksqlDB. A writer there can act as these servers.
_STATE = (
    "_schemas",
    "*connect-configs*",
    "*connect-offsets*",
    "*connect-status*",
    "mm2-*.internal",
    "_confluent-*",
)


class Level(IntEnum):
    """Each includes the previous levels."""

    VIEWER = 1  # sees everything, changes nothing
    OPERATOR = 2  # sends messages, creates and alters topics, moves offsets, registers schemas
    ADMIN = 3  # deletes, moves partitions, and manages users, ACLs, quotas, connectors and SQL


@dataclass(frozen=True, slots=True)
class Role:
    """A level for names that match patterns with * and ?.

    A role for all topics includes all groups and schemas, unless it lists some. A role for some topics covers only the
    groups and schemas it lists. Connectors and SQL statements act with the rights of their server, so without being
    listed they require a role for admins.
    """

    name: str
    level: Level
    topics: tuple[str, ...] = EVERYTHING
    groups: tuple[str, ...] | None = None
    schemas: tuple[str, ...] | None = None
    connectors: tuple[str, ...] | None = None
    sql: bool | None = None

    def patterns(self, kind: Kind) -> tuple[str, ...]:
        match kind:
            case "topic":
                return self.topics
            case "group":
                return self._or_all(self.groups, "*" in self.topics)
            case "schema":
                return self._or_all(self.schemas, "*" in self.topics)
            case "connector":
                return self._or_all(self.connectors, self.level is Level.ADMIN and self.is_everywhere)
            case "sql":
                granted = self.level is Level.ADMIN and self.is_everywhere if self.sql is None else self.sql
                return EVERYTHING if granted else ()

    @staticmethod
    def _or_all(given: tuple[str, ...] | None, is_all: bool) -> tuple[str, ...]:
        return given if given is not None else EVERYTHING if is_all else ()

    @property
    def is_everywhere(self) -> bool:
        return all("*" in self.patterns(kind) for kind in ("topic", "group", "schema"))

    def covers(self, kind: Kind, name: str) -> bool:
        return matches(self.patterns(kind), name)


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)) or r"(?!)")


def matches(patterns: tuple[str, ...], name: str) -> bool:
    return "*" in patterns or _compiled(patterns).match(name) is not None


def keeps_state(topic: str) -> bool:
    """Return True for topics that servers write for themselves: a message there could be a connector or a statement."""
    return is_internal(topic) or matches(_STATE, topic)


BUILT_IN = {level.name.lower(): Role(level.name.lower(), level) for level in Level}


@dataclass(frozen=True, slots=True)
class User:
    """`connect_configs`: topics in which Connect workers store connector configs, including secrets."""

    name: str
    roles: tuple[Role, ...]
    connect_configs: tuple[str, ...] = ()

    def may(self, level: Level, kind: Kind = "topic", name: str | None = None) -> bool:
        """Return True if the user has this level for a name, or without a name for any."""
        if kind == "topic" and name is not None:
            if matches(self.connect_configs, name) and not self._covers(Level.ADMIN, "connector", None):
                return False
            if keeps_state(name) and level > Level.VIEWER:
                return self.may_everywhere(Level.ADMIN)
        return self._covers(level, kind, name) if name is not None else self._has(level, kind)

    def _has(self, level: Level, kind: Kind) -> bool:
        return any(role.level >= level and role.patterns(kind) for role in self.roles)

    def _covers(self, level: Level, kind: Kind, name: str | None) -> bool:
        return any(
            role.level >= level and ("*" in role.patterns(kind) if name is None else role.covers(kind, name))
            for role in self.roles
        )

    def may_anything(self, level: Level) -> bool:
        kinds: tuple[Kind, ...] = ("topic", "group", "schema", "connector", "sql")
        return any(self._has(level, kind) for kind in kinds)

    def may_everywhere(self, level: Level) -> bool:
        return any(role.level >= level and role.is_everywhere for role in self.roles)

    @property
    def sees_all(self) -> bool:
        return self.may_everywhere(Level.VIEWER) and self._covers(Level.ADMIN, "connector", None)

    def sees(self, topic: str) -> bool:
        return self.may(Level.VIEWER, "topic", topic)

    def view(self, kind: Kind = "topic") -> Callable[[str], bool]:
        """Return a function that tests whether the user sees a name, for many names."""
        if self.sees_all:
            return lambda _: True
        return lambda name: self.may(Level.VIEWER, kind, name)

    @property
    def level(self) -> str:
        return max((role.level for role in self.roles), default=Level.VIEWER).name.lower()


NOBODY = User("", ())  # before the login
ANYBODY = User("anonymous", (BUILT_IN["admin"],))


def resolve(names: Iterable[str], known: Mapping[str, Role]) -> tuple[Role, ...]:
    """Return the roles with these names, ignoring unknown names."""
    return tuple(known[name] for name in names if name in known)
