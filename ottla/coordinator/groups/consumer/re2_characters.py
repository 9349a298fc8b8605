"""Which characters the classes of a regular expression mean, in RE2's notation."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

Test = Callable[[str], bool]


def folded(character: str) -> str:
    return character.upper().lower()


def variants(character: str) -> set[str]:
    small = folded(character)
    return {character, small, small.upper()}


def negated(test: Test) -> Test:
    return lambda character: not test(character)


def category(name: str) -> Test:
    return lambda character: unicodedata.category(character).startswith(name)


def anything(character: str) -> bool:
    return True


def not_newline(character: str) -> bool:
    return character != "\n"


def of(characters: str) -> Test:
    found = frozenset(characters)
    return lambda character: character in found


_DIGITS = "0123456789"
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
is_word = of(_DIGITS + _LOWER + _UPPER + "_")
CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
# General categories by their first letter, and the second ones that it has.
CATEGORIES = frozenset(
    first + second
    for first, seconds in (
        ("C", "cfos"),
        ("L", "lmotu"),
        ("M", "cen"),
        ("N", "dlo"),
        ("P", "cdefios"),
        ("S", "ckmo"),
        ("Z", "lps"),
    )
    for second in ("", *seconds)
)
PERL_CLASSES = {"d": of(_DIGITS), "s": of("\t\n\f\r "), "w": is_word}
PERL_CLASSES |= {name.upper(): negated(test) for name, test in PERL_CLASSES.items()}
POSIX = {
    "alnum": of(_DIGITS + _LOWER + _UPPER),
    "alpha": of(_LOWER + _UPPER),
    "ascii": of("".join(map(chr, range(128)))),
    "blank": of("\t "),
    "cntrl": of("".join(map(chr, (*range(32), 127)))),
    "digit": of(_DIGITS),
    "graph": of(_DIGITS + _LOWER + _UPPER + _PUNCTUATION),
    "lower": of(_LOWER),
    "print": of(_DIGITS + _LOWER + _UPPER + _PUNCTUATION + " "),
    "punct": of(_PUNCTUATION),
    "space": of("\t\n\v\f\r "),
    "upper": of(_UPPER),
    "word": is_word,
    "xdigit": of(_DIGITS + "abcdefABCDEF"),
}
