"""Balanced tier_counts, and the findings when they do not balance."""

from __future__ import annotations

import json

import pytest

from ottla.monitoring.audit.count_reports import NO_PARTITION, CountReport, Round, entry_of, fingerprint
from ottla.monitoring.audit.tier_counts import DUPLICATION, LOSS, SUBSTITUTION, TierCounts

BUCKET = 1000
LATER = 1_000_000


def report(
    tier: str, values: list[tuple[int, bytes]], first: int = 0, partition: int = 0, time_ms: int = LATER
) -> CountReport:
    made = CountReport("orders", tier, partition, first, first + len(values), time_ms, "here", BUCKET)
    for at, value in values:
        made.note(at, None, value)
    return made


def tier_counts(*reports: CountReport) -> TierCounts:
    found = TierCounts()
    for each in reports:
        found.add(each)
    return found


SENT = [(0, b"a"), (500, b"b"), (1000, b"c"), (2000, b"d")]


def kinds(*reports: CountReport, grace_ms: int = 0, counts_only: bool = False) -> list[tuple[int, str, int]]:
    found = tier_counts(*reports).balance(
        "orders", ("source", "mirror"), grace_ms=grace_ms, counts_only=counts_only
    )
    assert all((each.tier, each.before) == ("mirror", "source") for each in found)
    return [(each.bucket_ms, each.kind, each.missing) for each in found]


def test_the_same_in_another_order_and_other_partitions_balances() -> None:
    assert (
        kinds(report("source", SENT), report("mirror", SENT[:1:-1]), report("mirror", SENT[:2], partition=1))
        == []
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
        ),  # a loss that a duplicate hides from a plain count
    ],
)
def test_what_is_wrong_is_found_in_its_bucket(
    arrived: list[tuple[int, bytes]], expected: tuple[int, str, int]
) -> None:
    assert kinds(report("source", SENT), report("mirror", arrived)) == [expected]


def test_a_tier_that_changes_records_is_compared_by_count() -> None:
    changed = [(at, value.upper()) for at, value in SENT]
    assert kinds(report("source", SENT), report("mirror", changed), counts_only=True) == []
    assert len(kinds(report("source", SENT), report("mirror", changed))) == 3


def test_what_a_tier_has_not_counted_yet_is_not_lost() -> None:
    late = report("mirror", SENT[:2], time_ms=1500)
    assert kinds(report("source", SENT), late) == []
    assert kinds(report("source", SENT), late, report("mirror", [], first=2, time_ms=5000)) == [
        (1000, LOSS, 1),
        (2000, LOSS, 1),
    ]
    assert kinds(report("source", SENT), report("mirror", [], time_ms=5000), grace_ms=10_000) == []


def test_a_tier_that_is_silent_can_be_compared_all_the_same() -> None:
    found = tier_counts(report("source", SENT), report("mirror", SENT[:2], time_ms=100))
    assert found.balance("orders", ("source", "mirror"), grace_ms=0) == []
    late = found.balance("orders", ("source", "mirror"), grace_ms=500, now_ms=2600)
    assert [(each.bucket_ms, each.kind, each.missing) for each in late] == [(1000, LOSS, 1)]
    nobody = found.balance("orders", ("source", "nobody"), grace_ms=0, now_ms=LATER)
    assert sum(each.missing for each in nobody) == 4


def test_a_page_that_was_written_twice_counts_once() -> None:
    first, second = report("source", SENT[:2]), report("source", SENT[2:], first=2)
    found = tier_counts(first, first, second, second)
    assert sum(each.count for each in found.counts["orders", "source"].values()) == 4
    assert found.position("orders", "source", 0) == (-1, 4)


def test_pages_survive_json() -> None:
    made = report("source", SENT)
    assert CountReport.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_fingerprints_tell_apart_what_looks_alike() -> None:
    pairs = [(None, b"ab"), (b"a", b"b"), (b"ab", None), (b"", b"ab"), (b"ab", b""), (None, None), (b"", b"")]
    assert len({fingerprint(*pair) for pair in pairs}) == len(pairs)


def test_tiers_are_in_the_order_in_which_they_began() -> None:
    found = tier_counts(report("b", [], time_ms=5), report("a", [], time_ms=7), report("b", [], time_ms=9))
    assert found.tiers("orders") == ["b", "a"]


def led(first: int, end: int, *, epoch: int = 0, counted_in: int = 0, topic_id: str = "") -> CountReport:
    """Return a broker's report with one record per offset."""
    made = CountReport("orders", "broker", 0, first, end, LATER, "here", BUCKET)
    made.epoch, made.counted_in, made.topic_id = epoch, counted_in, topic_id
    for offset in range(first, end):
        made.note(0, None, b"%d in %d" % (offset, epoch))
    return made


def total(*reports: CountReport) -> int:
    return sum(each.count for each in tier_counts(*reports).counts.get(("orders", "broker"), {}).values())


def test_offsets_that_come_again_after_an_unclean_election_count_again() -> None:
    found = tier_counts(led(0, 100), led(60, 80, epoch=1, counted_in=1))
    assert total(led(0, 100), led(60, 80, epoch=1, counted_in=1)) == 120
    assert found.position("orders", "broker", 0) == (1, 80)


def test_a_new_leader_counts_what_the_old_one_did_not_write_any_more() -> None:
    assert total(led(0, 80), led(80, 100, counted_in=1), led(100, 110, epoch=1, counted_in=1)) == 110


def test_a_leader_that_was_replaced_and_does_not_know_it_changes_nothing() -> None:
    reports = [led(0, 80), led(80, 100, counted_in=1), led(80, 120), led(100, 105, epoch=1, counted_in=1)]
    assert total(*reports) == 105


def test_the_later_leader_is_right_about_what_both_counted() -> None:
    # It started at the end of the tier_counts, before the first one wrote its last report.
    reports = [led(0, 80), led(80, 105), led(80, 100, counted_in=1), led(100, 130, counted_in=1)]
    assert total(*reports) == 130
    assert tier_counts(*reports).position("orders", "broker", 0) == (0, 130)


def test_records_that_an_operator_has_delivered_again_are_a_duplication() -> None:
    assert total(led(0, 10), led(5, 12, counted_in=1)) == 17
    assert total(led(0, 10), led(0, 12, counted_in=1)) == 12


def test_a_topic_that_was_created_again_counts_from_its_beginning() -> None:
    assert total(led(0, 100, counted_in=3), led(0, 10, topic_id="other")) == 110


def test_a_page_without_offsets_counts_each_time() -> None:
    passed = CountReport("orders", "sink", NO_PARTITION, -1, -1, LATER, "here", BUCKET)
    passed.note(0, None, b"v")
    found = tier_counts(passed, passed)
    assert found.counts["orders", "sink"][0].count == 2
    assert found.position("orders", "sink", NO_PARTITION) is None


def test_a_tier_is_as_far_as_its_slowest_partition() -> None:
    found = tier_counts(report("source", SENT), report("source", [], partition=1, time_ms=100))
    assert found.times["orders", "source"] == 100
    found.add(Round("source", "here", 5000, {"orders": [0, 1]}))
    assert found.times["orders", "source"] == 5000


def test_without_checksums_a_tier_is_compared_by_count() -> None:
    bare = report("mirror", [(at, b"?") for at, _ in SENT])
    bare.has_checksums = False
    assert kinds(report("source", SENT), bare) == []
    bare.note(0, None, b"?")
    assert kinds(report("source", SENT), bare) == [(0, DUPLICATION, -1)]


def test_rounds_survive_json() -> None:
    made = Round("broker", "here/1", 5, {"orders": [0, 2]})
    assert entry_of(json.loads(json.dumps(made.to_json()))) == made
    made_page = led(0, 3, epoch=4, counted_in=5, topic_id="ab")
    assert entry_of(json.loads(json.dumps(made_page.to_json()))) == made_page
