"""When books balance, and what is found when they do not."""

from __future__ import annotations

import json

import pytest

from ottla.audit.books import DUPLICATION, LOSS, SUBSTITUTION, Books, Page, fingerprint

BUCKET = 1000
LATER = 1_000_000


def page(
    tier: str, values: list[tuple[int, bytes]], first: int = 0, partition: int = 0, time_ms: int = LATER
) -> Page:
    made = Page("orders", tier, partition, first, first + len(values), time_ms, "here", BUCKET)
    for at, value in values:
        made.note(at, None, value)
    return made


def books(*pages: Page) -> Books:
    found = Books()
    for each in pages:
        found.add(each)
    return found


SENT = [(0, b"a"), (500, b"b"), (1000, b"c"), (2000, b"d")]


def kinds(*pages: Page, grace_ms: int = 0, counts_only: bool = False) -> list[tuple[int, str, int]]:
    found = books(*pages).balance("orders", ("source", "mirror"), grace_ms=grace_ms, counts_only=counts_only)
    assert all((each.tier, each.before) == ("mirror", "source") for each in found)
    return [(each.bucket_ms, each.kind, each.missing) for each in found]


def test_the_same_in_another_order_and_other_partitions_balances() -> None:
    assert (
        kinds(page("source", SENT), page("mirror", SENT[:1:-1]), page("mirror", SENT[:2], partition=1)) == []
    )


@pytest.mark.parametrize(
    ("arrived", "expected"),
    [
        ([SENT[0], *SENT[2:]], (0, LOSS, 1)),
        ([*SENT, SENT[2]], (1000, DUPLICATION, -1)),
        ([*SENT[:3], (2000, b"D")], (2000, SUBSTITUTION, 0)),
        (
            [SENT[0], SENT[0], *SENT[2:]],
            (0, SUBSTITUTION, 0),
        ),  # a loss that a duplicate hides from a mere count
    ],
)
def test_what_is_wrong_is_found_in_its_bucket(
    arrived: list[tuple[int, bytes]], expected: tuple[int, str, int]
) -> None:
    assert kinds(page("source", SENT), page("mirror", arrived)) == [expected]


def test_a_tier_that_changes_records_is_compared_by_count() -> None:
    changed = [(at, value.upper()) for at, value in SENT]
    assert kinds(page("source", SENT), page("mirror", changed), counts_only=True) == []
    assert len(kinds(page("source", SENT), page("mirror", changed))) == 3


def test_what_a_tier_has_not_counted_yet_is_not_lost() -> None:
    late = page("mirror", SENT[:2], time_ms=1500)
    assert kinds(page("source", SENT), late) == []
    assert kinds(page("source", SENT), late, page("mirror", [], first=2, time_ms=5000)) == [
        (1000, LOSS, 1),
        (2000, LOSS, 1),
    ]
    assert kinds(page("source", SENT), page("mirror", [], time_ms=5000), grace_ms=10_000) == []


def test_a_page_that_was_written_twice_counts_once() -> None:
    first, second = page("source", SENT[:2]), page("source", SENT[2:], first=2)
    found = books(first, first, second, second)
    assert sum(each.count for each in found.counts["orders", "source"].values()) == 4
    assert found.positions["orders", "source", 0] == 4


def test_pages_survive_json() -> None:
    made = page("source", SENT)
    assert Page.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_fingerprints_tell_apart_what_looks_alike() -> None:
    pairs = [(None, b"ab"), (b"a", b"b"), (b"ab", None), (b"", b"ab"), (b"ab", b""), (None, None), (b"", b"")]
    assert len({fingerprint(*pair) for pair in pairs}) == len(pairs)


def test_tiers_are_in_the_order_in_which_they_began() -> None:
    found = books(page("b", [], time_ms=5), page("a", [], time_ms=7), page("b", [], time_ms=9))
    assert found.tiers("orders") == ["b", "a"]
