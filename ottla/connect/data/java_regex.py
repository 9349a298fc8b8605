"""Java's regular expressions and replacements, on top of Python's `re`."""

from __future__ import annotations

import re
from functools import lru_cache

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_CLASSES = (r"\d", r"\D", r"\w", r"\W", r"\s", r"\S")
_HORIZONTAL = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL = r"\n\x0b\f\r\x85\u2028\u2029"


_REPETITION = re.compile(r"\{[0-9]+(,[0-9]*)?\}")


class InvalidPattern(ValueError):
    """Describes the error in one sentence."""


@lru_cache(maxsize=256)
def compile_java(pattern: str) -> re.Pattern[str]:
    """Compile like `Pattern.compile`, with ASCII character classes. Raises InvalidPattern."""
    try:
        translator = _Translator(pattern)
        return re.compile(translator.translated(), re.ASCII)
    except (re.error, OverflowError, RecursionError, IndexError) as error:
        raise InvalidPattern(f"{error} in {pattern}") from None


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def _error(self, what: str, index: int) -> InvalidPattern:
        """Build an error with a mark below the position, like Java's PatternSyntaxException."""
        mark = "\n" + " " * index + "^" if 0 <= index < len(self._pattern) else ""
        return InvalidPattern(f"{what} near index {index}\n{self._pattern}{mark}")

    def translated(self) -> str:
        written = self._group()
        if self._at < len(self._pattern):
            raise self._error("Unmatched closing ')'", self._at - 1)
        return written

    def _group(self) -> str:
        """Translate up to the closing parenthesis. Inline flags apply until there, so they become a Python group."""
        written: list[str] = []
        opened = 0
        while self._at < len(self._pattern):
            letter = self._pattern[self._at]
            if letter == ")":
                break
            if letter == "(":
                flags = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?\)").match(self._pattern, self._at)
                if flags is not None:
                    self._at = flags.end()
                    written.append(f"(?{_flags(flags[1], flags[2])}:")
                    opened += 1
                    continue
                written.append(self._parenthesis())
            elif letter == "[":
                self._at += 1
                written.append(self._class())
            elif letter == "\\":
                written.append(self._escape())
            elif letter == "{" and not _REPETITION.match(self._pattern, self._at):
                raise self._error("Illegal repetition", self._at + 1)
            elif letter in "*+?" and not "".join(written):
                raise self._error(f"Dangling meta character '{letter}'", self._at)
            else:
                written.append(letter)
                self._at += 1
        return "".join(written) + ")" * opened

    def _parenthesis(self) -> str:
        head = re.compile(
            r"\((?:\?(?:<([a-zA-Z][a-zA-Z0-9]*)>|([:=!>]|<[=!]|([a-zA-Z]*)(?:-([a-zA-Z]+))?:)))?"
        )
        found = head.match(self._pattern, self._at)
        assert found is not None
        begin = found[0]
        if self._pattern[found.end() - 1 : found.end() + 1] == "(?" and begin == "(":
            raise self._error("Unknown inline modifier", found.end() + 1)
        self._at = found.end()
        if found[1] is not None:
            begin = f"(?P<{found[1]}>"
        elif found[3] is not None and found[2] not in (":",):
            begin = f"(?{_flags(found[3], found[4])}:"
        inside = self._group()
        if self._at >= len(self._pattern):
            raise self._error("Unclosed group", len(self._pattern))
        self._at += 1
        return f"{begin}{inside})"

    def _escape(self) -> str:
        rest = self._pattern[self._at + 1 :]
        if not rest:
            raise self._error("Unexpected internal error", self._at + 1)
        letter = rest[0]
        self._at += 2
        if letter == "Q":
            end = self._pattern.find("\\E", self._at)
            quoted = self._pattern[self._at : end if end >= 0 else None]
            self._at = len(self._pattern) if end < 0 else end + 2
            return re.escape(quoted)
        simple = {
            "z": r"\Z",
            "Z": r"(?=\n?\Z)",
            "h": f"[{_HORIZONTAL}]",
            "H": f"[^{_HORIZONTAL}]",
            "v": f"[{_VERTICAL}]",
            "V": f"[^{_VERTICAL}]",
            "R": rf"(?:\r\n|[{_VERTICAL}])",
            "e": r"\x1b",
            "G": r"(?:)",
            "E": "",
        }
        if letter in simple:
            return simple[letter]
        if letter == "k":
            named = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>").match(self._pattern, self._at)
            if named is None:
                raise InvalidPattern(
                    f"\\k is not followed by '<' for named capturing group in {self._pattern}"
                )
            self._at = named.end()
            return f"(?P={named[1]})"
        if letter in "pP":
            return f"[{'^' if letter == 'P' else ''}{self._property()}]"
        return self._character(letter)

    def _character(self, letter: str) -> str:
        if letter == "x" and self._pattern[self._at : self._at + 1] == "{":
            end = self._pattern.index("}", self._at)
            code = int(self._pattern[self._at + 1 : end], 16)
            self._at = end + 1
            return re.escape(chr(code))
        if letter == "c" and self._at < len(self._pattern):
            self._at += 1
            return re.escape(chr(ord(self._pattern[self._at - 1]) ^ 64))
        if letter == "0":
            digits = re.compile(r"[0-3]?[0-7]{1,2}").match(self._pattern, self._at)
            if digits is None:
                raise InvalidPattern(f"Illegal octal escape sequence in {self._pattern}")
            self._at = digits.end()
            return re.escape(chr(int(digits[0], 8)))
        if letter.isascii() and letter.isalpha() and letter not in "dDwWsSbBAtnrfaxu":
            raise self._error("Illegal/unsupported escape sequence", self._at - 1)
        return f"\\{letter}"

    def _property(self) -> str:
        found = re.compile(r"\{(?:Is|java|general_category=|gc=)?(\w+)\}|(\w)").match(self._pattern, self._at)
        if found is None:
            raise InvalidPattern(f"Unknown character property name in {self._pattern}")
        self._at = found.end()
        name = found[1] or found[2]
        known = _POSIX | {
            "L": "a-zA-ZÀ-ÖØ-öø-ʯͰ-ҁҊ-\uffff",
            "Lu": "A-ZÀ-ÖØ-ÞΑ-ΩА-Я",
            "Ll": "a-zß-öø-ÿα-ωа-я",
            "N": "0-9",
            "Nd": "0-9",
            "P": r"!-#%-*,-/:;?@\[-\]_{}",
            "Alphabetic": "a-zA-ZÀ-ÖØ-öø-ʯͰ-ҁҊ-\uffff",
            "LowerCase": "a-z",
            "UpperCase": "A-Z",
            "Lowercase": "a-z",
            "Uppercase": "A-Z",
            "Whitespace": _POSIX["Space"],
        }
        if name not in known:
            raise InvalidPattern(f"Unknown character property name {{{name}}} in {self._pattern}")
        return known[name]

    def _class(self) -> str:
        """Translate a class after its `[`. Nested classes form a union, `&&` an intersection."""
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        parts: list[str] = []
        members: list[str] = []
        nested: list[str] = []
        first = True
        while True:
            if self._at >= len(self._pattern):
                raise self._error("Unclosed character class", self._at - 1)
            letter = self._pattern[self._at]
            if letter == "]" and not first:
                self._at += 1
                break
            first = False
            if self._pattern.startswith("&&", self._at):
                self._at += 2
                parts.append(_union(members, nested))
                members, nested = [], []
            elif letter == "[":
                self._at += 1
                nested.append(self._class())
            elif letter == "\\":
                members.append(self._class_escape())
            elif letter == "-" and members and members[-1] in _CLASSES:
                members.append("\\-")  # no range starts with a class
                self._at += 1
            else:
                members.append("\\" + letter if letter in "]^[&~|" else letter)
                self._at += 1
        parts.append(_union(members, nested))
        if len(parts) == 1 and not nested:
            return f"[{'^' if negated else ''}{''.join(members)}]"
        whole = "".join(f"(?={each})" for each in parts[:-1]) + parts[-1]
        return f"(?:(?!{whole})[\\s\\S])" if negated else f"(?:{whole})"

    def _class_escape(self) -> str:
        written = self._escape()
        if written.startswith("[^"):
            raise InvalidPattern(f"A negated property inside a class is not supported: {self._pattern}")
        return written[1:-1] if written.startswith("[") and len(written) > 2 else written


def _union(members: list[str], nested: list[str]) -> str:
    choices = ([f"[{''.join(members)}]"] if members else []) + nested
    if not choices:
        return r"[\s\S]"
    return choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"


def _flags(on: str, off: str | None) -> str:
    """Return the flags that Python shares with Java. u, U and d do not matter for ASCII."""
    for letter in on + (off or ""):
        if letter not in "idmsuxU":
            raise InvalidPattern(f"Unknown inline modifier {letter}")
    kept_on = "".join(each for each in on if each in "imsx")
    kept_off = "".join(each for each in (off or "") if each in "imsx")
    return f"{kept_on}-{kept_off}" if kept_off else kept_on


def replacement(template: str, found: re.Match[str]) -> str:
    """Expand like `Matcher.appendReplacement`: $1, ${name}, and backslash escapes."""
    written: list[str] = []
    at = 0
    while at < len(template):
        letter = template[at]
        at += 1
        if letter == "\\":
            if at == len(template):
                raise InvalidPattern("character to be escaped is missing")
            written.append(template[at])
            at += 1
        elif letter == "$":
            text, at = _group_reference(template, at, found)
            written.append(text)
        else:
            written.append(letter)
    return "".join(written)


def _group_reference(template: str, at: int, found: re.Match[str]) -> tuple[str, int]:
    if at == len(template):
        raise InvalidPattern("Illegal group reference: group index is missing")
    if template[at] == "{":
        named = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(template, at)
        if named is None:
            raise InvalidPattern("named capturing group is missing trailing '}'")
        if named[1] not in found.re.groupindex:
            raise InvalidPattern(f"No group with name {{{named[1]}}}")
        return found[named[1]] or "", named.end()
    if not ("0" <= template[at] <= "9"):
        raise InvalidPattern("Illegal group reference")
    number = int(template[at])
    at += 1
    if number > found.re.groups:
        raise InvalidPattern(f"No group {number}")
    while at < len(template) and "0" <= template[at] <= "9":
        longer = number * 10 + int(template[at])
        if longer > found.re.groups:
            break
        number = longer
        at += 1
    return found[number] or "", at


def replace_first(pattern: re.Pattern[str], template: str, text: str) -> str:
    found = pattern.search(text)
    if found is None:
        return text
    return text[: found.start()] + replacement(template, found) + text[found.end() :]


def replace_all(pattern: re.Pattern[str], template: str, text: str) -> str:
    return pattern.sub(lambda found: replacement(template, found), text)
