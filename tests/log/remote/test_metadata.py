from __future__ import annotations

import uuid

import pytest

from ottla.log.remote.segment_cache import RemoteSegments
from ottla.log.remote.segment_metadata import (
    PartitionDeleteState,
    SegmentState,
    TopicIdPartition,
    from_record,
    may_follow,
    metadata_partition,
    to_partition_delete,
    to_record,
    to_update,
)
from ottla.protocol.codec import MalformedMessage
from ottla.protocol.remote_log_records import decode_record, encode_record

from .segments import T0, remote_segment

STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED
DELETING, DELETED = SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED


@pytest.mark.parametrize("before", SegmentState)
def test_states_only_advance(before):
    allowed = {after for after in SegmentState if may_follow(before, after)}
    expected = {
        STARTED: {STARTED, FINISHED, DELETING},
        FINISHED: {FINISHED, DELETING},
        DELETING: {DELETING, DELETED},
        DELETED: {DELETED},
    }
    assert allowed == expected[before]


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("custom", [None, b"", b"abc"])
def test_a_segment_survives_its_record(has_index, custom):
    segment = remote_segment(5, 90, {0: 5, 3: 50}, has_transaction_index=has_index, custom_metadata=custom)
    decoded = decode_record(encode_record(to_record(segment)))
    assert from_record(decoded) == segment


def test_the_frame_of_a_record_is_kafkas():
    value = encode_record(to_update(remote_segment(0, 1)))
    assert value[:3] == bytes([1, 1, 0])  # frame version, record type, version
    gone = encode_record(to_partition_delete(T0, PartitionDeleteState.DELETE_PARTITION_MARKED, 1, 2))
    assert gone[:3] == bytes([1, 2, 0])


def test_records_of_later_versions_are_skipped_and_damage_is_reported():
    assert decode_record(bytes([1, 3, 0])) is None
    assert decode_record(bytes([1, 0, 9])) is None
    for damaged in (b"", b"\x01", bytes([2, 0, 0]), encode_record(to_record(remote_segment(0, 1)))[:-9]):
        with pytest.raises(MalformedMessage):
            decode_record(damaged)


def test_metadata_partitions_are_kafkas():
    # tests/peers/test_tiered_storage.py compares them with Kafka's.
    spread = {
        metadata_partition(TopicIdPartition("t", uuid.UUID(int=n).bytes, n % 7), 50) for n in range(500)
    }
    assert spread == set(range(50))


def cache(*segments):
    made = RemoteSegments()
    for segment in segments:
        made.add(segment)
    return made


def test_a_late_change_of_state_is_dropped():
    segment = remote_segment(0, 9, state=STARTED)
    made = cache(segment)
    assert made.find(0, 5) is None  # nobody reads it yet
    assert made.update(segment.id, DELETING, 2, 10)
    assert not made.update(segment.id, FINISHED, 1, 11)  # by the leader that was replaced
    assert [each.state for each in made.unfinished] == [DELETING]
    assert made.update(segment.id, DELETED, 2, 12)
    assert not list(made)
    assert not made.update(segment.id, FINISHED, 1, 13)


def test_segments_are_found_by_epoch_and_offset():
    first, second = remote_segment(0, 9, {0: 0}), remote_segment(10, 29, {0: 10, 2: 20})
    made = cache(second, first)
    assert made.finished == [first, second]
    assert made.find(0, 0) is first
    assert made.find(0, 19) is second
    assert made.find(0, 20) is None  # epoch 0 ends there
    assert made.find(2, 20) is second
    assert made.find(2, 30) is None
    assert made.find(1, 20) is None


def test_the_lineage_decides_how_far_a_log_was_copied():
    made = cache(remote_segment(0, 9, {0: 0}), remote_segment(10, 29, {0: 10, 1: 20}))
    assert made.highest_offset([(0, 0), (1, 20)]) == 29
    # After an unclean election epoch 2 begins at 25: the rest of the segment belongs to another history.
    assert made.highest_offset([(0, 0), (1, 20), (2, 25)]) == 24
    assert made.highest_offset([(0, 0), (2, 15)]) == 14
    assert made.highest_offset([(5, 0)]) == -1


def test_overlapping_segments_of_two_leaders():
    long, short = remote_segment(0, 99, {0: 0}), remote_segment(50, 59, {0: 50})
    made = cache(long, short)
    assert made.find(0, 55) is short
    assert made.find(0, 80) is long


def test_the_next_segment_behind_a_gap():
    made = cache(remote_segment(0, 9, {0: 0}), remote_segment(20, 29, {0: 20}))
    assert made.find_at_or_after([(0, 0)], 12).start_offset == 20
    assert made.find_at_or_after([(0, 0)], 30) is None
    assert made.find_at_or_after([(0, 0), (1, 15)], 12) is None
