from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.cluster import TopicPartition
from ottla.spark.source.ranges import (
    OffsetRange,
    limit_offsets,
    offsets_from_json,
    offsets_to_json,
    split_ranges,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)

ranges_of_some_partitions = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 5000)), min_size=1, max_size=5
).map(
    lambda pairs: [
        OffsetRange(TopicPartition("t", n), start, start + size) for n, (start, size) in enumerate(pairs)
    ]
)


def test_every_partition_gets_its_share_of_a_limited_batch() -> None:
    assert limit_offsets({A: 0, B: 100}, {A: 300, B: 200}, 100) == {A: 75, B: 125}


def test_a_partition_with_little_to_read_still_moves() -> None:
    assert limit_offsets({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


def test_less_than_the_limit_is_read_at_once() -> None:
    assert limit_offsets({A: 0}, {A: 10}, 100) == {A: 10}


def test_a_large_partition_is_split_and_a_small_one_is_not() -> None:
    ranges = [OffsetRange(A, 0, 1000), OffsetRange(B, 0, 10)]
    assert split_ranges(ranges, 3, None) == [
        OffsetRange(A, 0, 500),
        OffsetRange(A, 500, 1000),
        OffsetRange(B, 0, 10),
    ]


def test_tasks_have_at_most_so_many_records() -> None:
    split = split_ranges([OffsetRange(A, 5, 30)], None, 10)
    assert [each.size for each in split] == [8, 8, 9]


@given(ranges_of_some_partitions, st.none() | st.integers(1, 40), st.none() | st.integers(1, 3000))
def test_splits_cover_all_and_nothing_twice(
    ranges: list[OffsetRange], least: int | None, most: int | None
) -> None:
    split = split_ranges(ranges, least, most)
    for whole in ranges:
        position = whole.start
        for part in (each for each in split if each.partition == whole.partition):
            assert part.start == position
            assert most is None or part.size <= most
            position = part.end
        assert position == whole.end


def test_offsets_are_written_in_one_order() -> None:
    offsets = {TopicPartition("b", 1): 1, TopicPartition("a", 10): 2, TopicPartition("a", 9): 3}
    written = offsets_to_json(offsets)
    assert str(written) == "{'a': {'9': 3, '10': 2}, 'b': {'1': 1}}"
    assert offsets_from_json(written) == offsets
