"""A group that moves to the target neither rereads nor misses a record."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.cluster import TopicPartition
from ottla.mirror.formats import Run
from ottla.mirror.translation import Translation

P = TopicPartition("t", 0)


def of(*runs: Run) -> Translation:
    translation = Translation()
    for run in runs:
        translation.add(P, run)
    return translation


def test_within_a_run_offsets_are_shifted() -> None:
    assert of(Run(100, 0, 10)).translate(P, 104) == 4


def test_a_group_that_has_read_everything_stands_at_the_end() -> None:
    assert of(Run(0, 0, 10)).translate(P, 10) == 10
    assert of(Run(0, 0, 10)).translate(P, 12) == 10


def test_in_a_gap_of_the_source_the_next_record_is_meant() -> None:
    assert of(Run(0, 0, 10), Run(15, 11, 5)).translate(P, 12) == 11


def test_before_what_was_copied_the_first_record_is_meant() -> None:
    assert of(Run(50, 3, 10)).translate(P, 7) == 3


def test_nothing_is_known_of_what_was_never_copied() -> None:
    assert of().translate(P, 0) is None


def test_runs_of_deleted_records_are_forgotten_but_for_the_last() -> None:
    translation = of(Run(0, 0, 10), Run(10, 11, 10), Run(20, 22, 5))
    assert translation.forget_before(P, 15) == [Run(0, 0, 10)]
    assert translation.translate(P, 3) == 11
    assert translation.forget_before(P, 1000) == [Run(10, 11, 10)]
    assert translation.translate(P, 25) == 27


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 5)), min_size=1), st.randoms())
def test_each_position_leads_to_the_same_next_record(
    shape: list[tuple[int, int, int]], random: object
) -> None:
    """`shape` lists each run as (gap in the source, gap in the target, length)."""
    runs, source, target = [], 0, 0
    pairs: dict[int, int] = {}
    for gap, marker, length in shape:
        source, target = source + gap, target + marker
        runs.append(Run(source, target, length))
        pairs |= {source + each: target + each for each in range(length)}
        source, target = source + length, target + length
    shuffled = list(runs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for order in (runs, shuffled):
        translation = of(*order)
        for position in range(source + 1):
            following = [offset for offset in pairs if offset >= position]
            expected = pairs[min(following)] if following else target
            found = translation.translate(P, position)
            # Between runs, any offset without a target record before it is equivalent.
            assert found is not None
            assert [each for each in pairs.values() if each >= found] == [
                each for each in pairs.values() if each >= expected
            ]
