from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.topic_regex import TopicRegex, topic_regex
from ottla.protocol.errors import KafkaError

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
    assert topic_regex("orders.*").matching(["orders", "orders-eu", "my-orders"]) == {"orders", "orders-eu"}
    assert topic_regex("^orders$").matches("orders")


@pytest.mark.parametrize("pattern", ["(a", "a(?=b)", r"(a)\1", "(?i)a", "(a{999}){999}", "a++", r"\ba"])
def test_what_re2_would_refuse_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION"):
        TopicRegex(pattern)


def test_a_pattern_that_needs_exponential_time_elsewhere_does_not_here() -> None:
    begun = time.perf_counter()
    assert not topic_regex("(a+)+b").matches("a" * 249)
    assert time.perf_counter() - begun < 1
