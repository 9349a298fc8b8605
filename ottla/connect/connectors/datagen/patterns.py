"""Random text that matches a regular expression: literals, classes, groups, alternatives and counts."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

from ottla.connect.errors import ConnectError

Maker = Callable[[random.Random], str]

# Maximum repetitions of `*` and `+`.
_MANY = 10
_CLASSES = {"d": string.digits, "w": string.ascii_letters + string.digits + "_", "s": " \t"}
_ANY = string.ascii_letters + string.digits


def maker(pattern: str) -> Maker:
    return _Parser(pattern).whole()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def whole(self) -> Maker:
        made = self._alternatives()
        if self._at < len(self._pattern):
            raise self._wrong(f"unexpected {self._pattern[self._at]!r}")
        return made

    def _wrong(self, why: str) -> ConnectError:
        return ConnectError(
            f"The pattern {self._pattern!r} cannot be used to make up text: {why} at position {self._at}."
        )

    def _peek(self) -> str:
        return self._pattern[self._at] if self._at < len(self._pattern) else ""

    def _next(self) -> str:
        found = self._peek()
        if not found:
            raise self._wrong("it ends too early")
        self._at += 1
        return found

    def _alternatives(self) -> Maker:
        choices = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else lambda chance: chance.choice(choices)(chance)

    def _sequence(self) -> Maker:
        parts: list[Maker] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._counted(self._atom()))
        return lambda chance: "".join(part(chance) for part in parts)

    def _atom(self) -> Maker:
        found = self._next()
        if found == "(":
            if self._pattern.startswith("?:", self._at):
                self._at += 2
            inner = self._alternatives()
            if self._next() != ")":
                raise self._wrong("')' is missing")
            return inner
        if found == "[":
            return _one_of(self._class())
        if found == "\\":
            return _one_of(self._escape())
        if found == ".":
            return _one_of(_ANY)
        if found in "^$":
            return lambda _: ""
        if found in "*+?{":
            raise self._wrong(f"nothing to repeat before {found!r}")
        return lambda _: found

    def _escape(self) -> str:
        found = self._next()
        return _CLASSES.get(found, found)

    def _class(self) -> str:
        negated = self._peek() == "^"
        if negated:
            self._at += 1
        members = ""
        while (found := self._next()) != "]":
            if found == "\\":
                members += self._escape()
            elif self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("", "]"):
                self._at += 1
                members += "".join(map(chr, range(ord(found), ord(self._next()) + 1)))
            else:
                members += found
        if negated:
            members = "".join(each for each in _ANY if each not in members)
        if not members:
            raise self._wrong("the class is empty")
        return members

    def _counted(self, atom: Maker) -> Maker:
        found = self._peek()
        if found == "?":
            least, most = 0, 1
        elif found == "*":
            least, most = 0, _MANY
        elif found == "+":
            least, most = 1, _MANY
        elif found == "{":
            return self._braces(atom)
        else:
            return atom
        self._at += 1
        return _repeated(atom, least, most)

    def _braces(self, atom: Maker) -> Maker:
        end = self._pattern.find("}", self._at)
        least, comma, most = self._pattern[self._at + 1 : max(end, 0)].partition(",")
        if end < 0 or not least.isdigit() or not (most == "" or most.isdigit()):
            raise self._wrong("a count has to be {n}, {n,} or {n,m}")
        self._at = end + 1
        low = int(least)
        high = int(most) if most else low + _MANY if comma else low
        return _repeated(atom, low, high)


def _one_of(members: str) -> Maker:
    return lambda chance: chance.choice(members)


def _repeated(atom: Maker, least: int, most: int) -> Maker:
    return lambda chance: "".join(atom(chance) for _ in range(chance.randint(least, most)))
