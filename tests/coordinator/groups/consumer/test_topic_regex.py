from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.groups.consumer.reconciliation import TopicRegex
from ottla.protocol.errors import ErrorCode, KafkaError

PARTS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "1", "-"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)


@given(PARTS, st.lists(st.text("ab1-", max_size=8), max_size=5))
def test_it_matches_what_re_matches_as_a_whole(pattern: str, names: list[str]) -> None:
    found = TopicRegex(pattern)
    for name in names:
        assert found.matches(name) == bool(re.fullmatch(pattern, name))


def test_the_whole_name_has_to_match() -> None:
    assert TopicRegex("orders.*").matching(["orders", "orders-eu", "my-orders"]) == {"orders", "orders-eu"}
    assert TopicRegex("^orders$").matches("orders")


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("(?i)orders", ["orders", "Orders", "ORDERS"], ["order"]),
        ("or(?i)ders|x", ["orDERS", "X"], ["ORders"]),
        ("(?i:a)b", ["Ab", "ab"], ["aB"]),
        ("(?i)a(?-i)b", ["Ab"], ["aB"]),
        ("((?i)a)b", ["Ab"], ["aB"]),
        ("(?i)[a-c][^x]", ["Ba", "cB"], ["ax", "aX", "da"]),
        ("(?is-m:A.)", ["ab"], ["a"]),
        ("(?U)a+", ["aa"], [""]),
        ("[[:alpha:]]+", ["aZ"], ["a1", "a.b"]),
        ("[[:^digit:]-]x[_[:upper:]]", ["ax_", "-xB"], ["1x_", "axb"]),
        (r"\pL+\PL", ["ab1", "ab."], ["abc", "1"]),
        (r"\p{Lu}\p{^Lu}[\p{Nd}_]", ["Aa1", "A._"], ["AA1", "aa1"]),
        (r"\p{Any}", ["x", "."], ["xx"]),
        (r"\Qa.b\E.*", ["a.b", "a.bc"], ["axb"]),
        (r"a\Q\C\E", ["a\\C"], ["ab"]),
        ("[(?P<n>](?P<n>a)", ["(a", "na"], ["aa"]),
        (r"\p{Greek}+", ["αβ"], ["ab"]),
        (r"\x61\x{62}\101\.", ["abA."], ["abAx"]),
        (r"\Aa\z", ["a"], ["aa"]),
        (r"a\b.b", ["a.b", "a-b"], ["a_b", "aab"]),
        (r"a\Bb", ["ab"], ["a"]),
        ("a^b|a$b|ab", ["ab"], ["aab"]),
        ("a^b", [], ["ab"]),
        ("(?P<n>a)(?<m>b)", ["ab"], ["a"]),
        ("a{,2}b{x}", ["a{,2}b{x}"], ["aab"]),
        ("[]a]", ["]", "a"], ["[]"]),
        (r"[\w.-]+", ["a.b-c_1"], ["a b"]),
        ("", [""], ["a"]),
        ("()*|(){3}a?", ["", "a"], ["aa"]),
    ],
)
def test_what_re2_reads_is_read(pattern: str, matching: list[str], others: list[str]) -> None:
    """The expected values come from com.google.re2j 1.8, which Apache Kafka 4.3 uses."""
    assert TopicRegex(pattern).matching([*matching, *others]) == set(matching)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "missing closing )"),
        ("[a", "missing closing ]"),
        ("a)", "unexpected )"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        ("(?<!a)b", "invalid named capture"),
        (r"\C", "invalid escape sequence"),
        ("(?P<n>a)(?<n>b)", "duplicate capture group name"),
        ("(?z)a", "invalid or unsupported Perl syntax"),
        (r"(a)\1", "invalid escape sequence"),
        (r"a\Z", "invalid escape sequence"),
        (r"\x{110000}", "invalid escape sequence"),
        ("a++", "invalid nested repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("|*", "missing argument to repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{3,2}", "invalid repeat count"),
        ("[z-a]", "invalid character class range"),
        ("[[:foo:]]", "invalid character class range"),
        (r"\p{Nonsense}", "invalid character class range"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("a\\", "trailing backslash at end of expression"),
    ],
)
def test_what_re2_refuses_is_refused_in_its_words(pattern: str, reason: str) -> None:
    with pytest.raises(KafkaError) as refused:
        TopicRegex(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == (
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
    )


@pytest.mark.parametrize(
    "pattern",
    [
        "(a{999}){999}",
        "(((){1000}){1000}){1000}",
        "(" * 5000 + ")" * 5000,
        "((((((((((a?){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}" * 50,
        "[" + "a" * 1_000_000 + "]",
        "a" * 1_000_000,
    ],
    ids=["nested", "nothing-repeated", "deep", "doubled", "long-class", "long"],
)
def test_what_would_be_too_large_is_refused_at_once(pattern: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION"):
        TopicRegex(pattern)
    assert time.perf_counter() - begun < 5


def test_nothing_is_loaded_before_a_pattern_is_used() -> None:
    code = "import sys, ottla.testing, ottla.broker.broker; assert 're2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_pattern_that_needs_exponential_time_elsewhere_does_not_here() -> None:
    begun = time.perf_counter()
    assert not TopicRegex("(a+)+b").matches("a" * 249)
    assert time.perf_counter() - begun < 1
