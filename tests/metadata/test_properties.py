"""server.properties follows Java's rules."""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.properties import PropertiesError, Property, decode_properties, parse_properties


def pairs(text: str) -> list[tuple[str, str]]:
    return [(key, value) for key, value, _ in parse_properties(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("  a  =  b c  ", [("a", "b c  ")]),
        ("a = = b", [("a", "= b")]),
        ("a\t:\fb", [("a", "b")]),
        ("a", [("a", "")]),
        ("=b", [("", "b")]),
        ("# one\n  ! two\n\n \t\f\na=b", [("a", "b")]),
        ("a=b # no comment", [("a", "b # no comment")]),
        ("a=1\ra=2\r\na=3\n", [("a", "1"), ("a", "2"), ("a", "3")]),
        ("a=b,\\\n    c", [("a", "b,c")]),
        ("a=b,\\\r\n    c", [("a", "b,c")]),
        ("a=b\\\n# not a comment", [("a", "b# not a comment")]),
        ("a=b\\\n\nc=d", [("a", "b"), ("c", "d")]),
        ("# a comment does not go on \\\na=b", [("a", "b")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\", [("a", "b")]),
        (r"a\ b\=c\:d=e", [("a b=c:d", "e")]),
        (r"a=\t\n\r\f\u00fc\q\\", [("a", "\t\n\r\füq\\")]),
        (r"a=\ud83d\ude00", [("a", "😀")]),
        ("a=C:\\\\temp", [("a", "C:\\temp")]),
    ],
)
def test_java_rules(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_a_property_knows_the_line_it_starts_at() -> None:
    text = "# comment\n\na=1,\\\n  2\nb=3\n"
    assert parse_properties(text) == [Property("a", "1,2", 3), Property("b", "3", 5)]


def test_a_broken_escape_names_its_line() -> None:
    with pytest.raises(PropertiesError, match="line 2"):
        parse_properties("a=1\nb=\\u12g4\n")


def test_files_are_utf_8_or_latin_1() -> None:
    assert decode_properties("a=ü".encode()) == "a=ü"
    assert decode_properties("a=ü".encode("latin-1")) == "a=ü"
    assert decode_properties(b"\xef\xbb\xbfa=b") == "a=b"


# Everything that Java could have written is read back.

text_without_surrogates = st.text(st.characters(exclude_categories=["Cs"]))
choices = st.randoms(use_true_random=False)


def written(key: str, value: str, random: Random) -> str:
    """Return one property in one of its many notations."""
    choose = random.choice

    def escaped(text: str, specials: str) -> str:
        parts = []
        for index, character in enumerate(text):
            named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
            if character in named:
                parts.append(named[character])
            elif character in specials or (character == " " and index == 0):
                parts.append("\\" + character)
            elif ord(character) < 0x10000 and choose([True, False, False]):
                parts.append(f"\\u{ord(character):04x}")
            else:
                parts.append(character)
            if choose([True] + [False] * 6):
                # A line may break anywhere, but the next one must not start with a significant blank.
                following = text[index + 1 : index + 2]
                if following and following not in " \t\f":
                    parts.append("\\" + choose(["\n", "\r\n", "\r"]) + choose(["", "  ", "\t"]))
        return "".join(parts)

    separator = choose(["=", ":", " ", " = ", "\t:\t", " =", "= "])
    return choose(["", "  "]) + escaped(key, "\\=: #!") + separator + escaped(value, "\\=:#!")


@given(
    st.lists(st.tuples(text_without_surrogates.filter(bool), text_without_surrogates), max_size=5), choices
)
def test_what_was_written_is_read(properties: list[tuple[str, str]], random: Random) -> None:
    lines = []
    for key, value in properties:
        lines += [written(key, value, random), "# comment", ""]
    assert pairs("\n".join(lines)) == properties


@given(st.text(st.sampled_from("ab\\=: \t\f\n\r#!u0041")))
def test_no_text_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(PropertiesError):
        assert all(line >= 1 for _, _, line in parse_properties(text))
