"""The notation of regular expressions that RE2 reads, as a tree: what Kafka's consumers may subscribe with.

There are no look-around, no back references and no possessive repetition, so that matching can be linear. Of the
classes `\\p{…}` those of general categories are known (`\\pL`, `\\p{Lu}`), not those of scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from ottla.coordinator.groups.consumer.re2_characters import (
    CATEGORIES,
    CONTROLS,
    PERL_CLASSES,
    POSIX,
    Test,
    anything,
    category,
    folded,
    is_word,
    negated,
    not_newline,
    variants,
)

_MOST_REPEATS = 1000
_DEEPEST = 100
_LONGEST = 32_768


class RegexError(Exception):
    """The text is RE2's."""


class Beside(Enum):
    """What is before or after a place in the text."""

    NOTHING = "nothing"
    NEWLINE = "newline"
    WORD = "word"
    OTHER = "other"


class One(NamedTuple):
    """One character that passes the test."""

    test: Callable[[str], bool]


class Place(NamedTuple):
    """No character, but a place between two that passes the test."""

    test: Callable[[Beside, Beside], bool]


class Several(NamedTuple):
    parts: Sequence[Tree]


class Either(NamedTuple):
    branches: Sequence[Tree]


class Repeated(NamedTuple):
    part: Tree
    least: int
    most: int | None  # None: without end


Tree = One | Place | Several | Either | Repeated


def beside(character: str) -> Beside:
    if character == "\n":
        return Beside.NEWLINE
    return Beside.WORD if is_word(character) else Beside.OTHER


def parse(pattern: str) -> Tree:
    """RegexError if it is no regular expression."""
    if len(pattern) > _LONGEST:
        raise RegexError("expression too large")
    parser = _Parser(pattern)
    tree = parser.alternatives(0)
    if not parser.is_at_end:
        raise RegexError("unexpected )")
    return tree


class _Parser:
    """Reads from left to right. `fold`, `dot_all` and `multi_line` are the flags at the place that is being read."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._names: set[str] = set()
        self.fold = self.dot_all = self.multi_line = False

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._pattern)

    def _next(self, ahead: int = 0) -> str:
        """A character, or nothing after the last one."""
        return self._pattern[self._position + ahead : self._position + ahead + 1]

    def _take(self, text: str) -> bool:
        found = self._pattern.startswith(text, self._position)
        if found:
            self._position += len(text)
        return found

    def _until(self, end: str) -> str | None:
        """What comes before `end`, which is taken as well; None if it does not come."""
        at = self._pattern.find(end, self._position)
        if at < 0:
            return None
        text, self._position = self._pattern[self._position : at], at + len(end)
        return text

    # Structure

    def alternatives(self, depth: int) -> Tree:
        if depth > _DEEPEST:
            raise RegexError("expression nests too deeply")
        branches = [self._sequence(depth)]
        while self._take("|"):
            branches.append(self._sequence(depth))
        return branches[0] if len(branches) == 1 else Either(branches)

    def _sequence(self, depth: int) -> Tree:
        parts: list[Tree] = []
        while (character := self._next()) and character not in "|)":
            bounds = self._bounds()
            if bounds is None:
                parts += self._atom(depth)
                continue
            if not parts:
                raise RegexError("missing argument to repetition operator")
            parts.append(_repeated(parts.pop(), *bounds))
            self._take("?")  # lazy or not, what matches as a whole is the same
            if self._bounds() is not None:
                raise RegexError("invalid nested repetition operator")
        return Several(parts)

    def _bounds(self) -> tuple[int, int | None] | None:
        """A repetition, if that is what comes."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        before = self._position
        inside = self._until("}") if self._take("{") else None
        least, comma, most = (inside or "").partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            self._position = before
            return None  # a brace like any other character
        if len(least) > 4 or len(most) > 4:
            raise RegexError("invalid repeat count")
        low, high = int(least), (int(most) if most else None if comma else int(least))
        if low > _MOST_REPEATS or (high is not None and not low <= high <= _MOST_REPEATS):
            raise RegexError("invalid repeat count")
        return low, high

    def _atom(self, depth: int) -> list[Tree]:
        if self._take("("):
            return self._group(depth)
        if self._take("["):
            return [One(self._class())]
        if self._take("\\"):
            return self._escape()
        character = self._next()
        self._position += 1
        match character:
            case ".":
                return [One(anything if self.dot_all else not_newline)]
            case "^":
                return [Place(_line_begin if self.multi_line else _text_begin)]
            case "$":
                return [Place(_line_end if self.multi_line else _text_end)]
            case _:
                return [One(self._literal(character))]

    def _group(self, depth: int) -> list[Tree]:
        flags = (self.fold, self.dot_all, self.multi_line)
        if self._take("?") and not self._named() and self._flags():
            return []  # in force up to the end of the group around
        tree = self.alternatives(depth + 1)
        if not self._take(")"):
            raise RegexError("missing closing )")
        self.fold, self.dot_all, self.multi_line = flags
        return [tree]

    def _named(self) -> bool:
        if self._next() == "<" and self._next(1) in ("=", "!"):
            return False  # what comes before is looked at
        if not self._take("P<") and not self._take("<"):
            return False
        name = self._until(">")
        if not name or not all(map(is_word, name)):
            raise RegexError("invalid named capture")
        if name in self._names:
            raise RegexError("duplicate capture group name")
        self._names.add(name)
        return True

    def _flags(self) -> bool:
        """Up to the closing bracket, or to the colon before what they are for: then False."""
        value, seen = True, False
        while True:
            character = self._next()
            self._position += 1
            match character:
                case "i":
                    self.fold = value
                case "s":
                    self.dot_all = value
                case "m":
                    self.multi_line = value
                case "U":
                    pass  # greedy or not, what matches as a whole is the same
                case "-" if value:
                    value, seen = False, False
                    continue
                case ")" | ":" if seen or value:
                    return character == ")"
                case _:
                    raise RegexError("invalid or unsupported Perl syntax")
            seen = True

    # Characters

    def _literal(self, character: str) -> Test:
        if self.fold:
            wanted = folded(character)
            return lambda found: folded(found) == wanted
        return lambda found: found == character

    def _escape(self) -> list[Tree]:
        character = self._next()
        match character:
            case "":
                raise RegexError("trailing backslash at end of expression")
            case "A" | "z" | "b" | "B":
                self._position += 1
                return [Place(_PLACES[character])]
            case "Q":
                self._position += 1
                text = self._until("\\E")
                if text is None:
                    text, self._position = self._pattern[self._position :], len(self._pattern)
                return [One(self._literal(each)) for each in text]
        test = self._named_class()
        return [One(test if test is not None else self._literal(self._escaped_character()))]

    def _named_class(self) -> Test | None:
        """After a backslash: \\d, \\pL and the like."""
        character = self._next()
        if character in PERL_CLASSES:
            self._position += 1
            return self._folding(PERL_CLASSES[character])
        if character not in ("p", "P"):
            return None
        self._position += 1
        if self._take("{"):
            name = self._until("}")
        else:
            name = self._next()
            self._position += 1
        others = character == "P"
        name = name or ""
        if name.startswith("^"):
            others, name = not others, name[1:]
        if name == "Any":
            test: Test = anything
        elif name in CATEGORIES:
            test = category(name)
        else:
            raise RegexError("invalid character class range")
        return negated(self._folding(test)) if others else self._folding(test)

    def _escaped_character(self) -> str:
        character = self._next()
        self._position += 1
        if character in CONTROLS:
            return CONTROLS[character]
        if character == "x":
            return self._hexadecimal()
        if character == "0" or (character in "1234567" and self._next() in tuple("01234567")):
            digits = character
            while len(digits) < 3 and self._next() in tuple("01234567"):
                digits += self._next()
                self._position += 1
            return chr(int(digits, 8))
        if character.isascii() and not character.isalnum():
            return character
        raise RegexError("invalid escape sequence")

    def _hexadecimal(self) -> str:
        if self._take("{"):
            digits = self._until("}") or ""
        else:
            digits = self._pattern[self._position : self._position + 2].rjust(2)
            self._position += 2
        if not 0 < len(digits) <= 8 or not all(each in "0123456789abcdefABCDEF" for each in digits):
            raise RegexError("invalid escape sequence")
        if int(digits, 16) > 0x10FFFF:
            raise RegexError("invalid escape sequence")
        return chr(int(digits, 16))

    def _class(self) -> Test:
        others = self._take("^")
        tests: list[Test] = []
        first = True
        while first or self._next() != "]":
            first = False
            if not self._next():
                raise RegexError("missing closing ]")
            tests.append(self._member())
        self._position += 1

        def among(character: str) -> bool:
            return any(test(character) for test in tests)

        return negated(among) if others else among

    def _member(self) -> Test:
        if self._take("[:"):
            name = self._until(":]")
            if name is None:
                self._position -= 2
            else:
                test = POSIX.get(name.removeprefix("^"))
                if test is None:
                    raise RegexError("invalid character class range")
                test = self._folding(test)
                return negated(test) if name.startswith("^") else test
        before = self._position
        if self._take("\\"):
            named = self._named_class()
            if named is not None:
                return named
            self._position = before
        low = high = self._class_character()
        if self._next() == "-" and self._next(1) not in ("]", ""):
            self._position += 1
            high = self._class_character()
            if high < low:
                raise RegexError("invalid character class range")
        return self._folding(lambda character: low <= character <= high)

    def _class_character(self) -> str:
        if self._take("\\"):
            if not self._next():
                raise RegexError("trailing backslash at end of expression")
            return self._escaped_character()
        character = self._next()
        self._position += 1
        return character

    def _folding(self, test: Test) -> Test:
        if not self.fold:
            return test
        return lambda character: any(map(test, variants(character)))


def _repeated(part: Tree, least: int, most: int | None) -> Tree:
    tree = Repeated(part, least, most)
    # Repetitions are written out: inside of each other they multiply.
    if _times(tree) > _MOST_REPEATS:
        raise RegexError("invalid repeat count")
    return tree


def _times(tree: Tree) -> int:
    """How often something in it is written out at most."""
    match tree:
        case Repeated(part, least, most):
            return max(least, most or 0, 1) * _times(part)
        case Several(parts) | Either(parts):
            return max(map(_times, parts), default=1)
        case _:
            return 1


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _text_begin(before: Beside, after: Beside) -> bool:
    return before is Beside.NOTHING


def _text_end(before: Beside, after: Beside) -> bool:
    return after is Beside.NOTHING


def _line_begin(before: Beside, after: Beside) -> bool:
    return before in (Beside.NOTHING, Beside.NEWLINE)


def _line_end(before: Beside, after: Beside) -> bool:
    return after in (Beside.NOTHING, Beside.NEWLINE)


def _word_boundary(before: Beside, after: Beside) -> bool:
    return (before is Beside.WORD) != (after is Beside.WORD)


_PLACES = {
    "A": _text_begin,
    "z": _text_end,
    "b": _word_boundary,
    "B": lambda before, after: not _word_boundary(before, after),
}
