"""What somebody may do: three levels, each for all topics or for those that match a pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase


class Level(IntEnum):
    """Each includes those before it."""

    VIEWER = 1  # sees everything and changes nothing
    OPERATOR = 2  # sends messages, creates and alters topics, moves offsets, restarts connectors
    ADMIN = 3  # deletes, moves partitions, and decides on users, ACLs and quotas


@dataclass(frozen=True, slots=True)
class Role:
    """`topics` are patterns with * and ?; a role that is not for all topics does nothing beside them."""

    name: str
    level: Level
    topics: tuple[str, ...] = ("*",)

    @property
    def is_everywhere(self) -> bool:
        return "*" in self.topics

    def covers(self, topic: str) -> bool:
        return any(fnmatchcase(topic, pattern) for pattern in self.topics)


BUILT_IN = {level.name.lower(): Role(level.name.lower(), level) for level in Level}


@dataclass(frozen=True, slots=True)
class User:
    name: str
    roles: tuple[Role, ...]

    def may(self, level: Level, topic: str | None = None) -> bool:
        """With this topic, or if none is named, with any."""
        return any(
            role.level >= level and (topic is None or role.covers(topic))
            for role in self.roles
            if role.topics
        )

    def may_everywhere(self, level: Level) -> bool:
        return any(role.level >= level and role.is_everywhere for role in self.roles)

    def sees(self, topic: str) -> bool:
        return self.may(Level.VIEWER, topic)

    def view(self) -> Callable[[str], bool]:
        """`sees` for many topics: who sees all of them is asked about once."""
        return (lambda _: True) if self.may_everywhere(Level.VIEWER) else self.sees

    @property
    def level(self) -> str:
        """The highest, for display."""
        return max((role.level for role in self.roles), default=Level.VIEWER).name.lower()


NOBODY = User("", ())  # before the login
ANYBODY = User("anonymous", (BUILT_IN["admin"],))


def resolve(names: Iterable[str], known: Mapping[str, Role]) -> tuple[Role, ...]:
    """The roles of these names; names that mean nothing here are left out."""
    return tuple(known[name] for name in names if name in known)
