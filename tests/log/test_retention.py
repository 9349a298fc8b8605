from __future__ import annotations

import os

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError

from .batches import NOW, batch, open_log, put, records_of

HOUR = 3_600_000


def aged(path, **config):
    """Ten segments of two records each, one hour apart."""
    log = open_log(path, segment_ms=HOUR // 2, **config)
    for hour in range(10):
        put(log, b"a", b"b", timestamp=NOW + hour * HOUR, now=NOW + hour * HOUR, epoch=hour // 5)
    assert len(log.segments) == 10
    return log


def test_segments_older_than_the_retention_time_go(tmp_path):
    log = aged(tmp_path, retention_ms=5 * HOUR)
    assert log.delete_old_segments(NOW + 9 * HOUR, 20) == 4
    assert log.log_start_offset == 8
    assert [o for o, _ in records_of(log)] == list(range(8, 20))
    assert log.epochs.entries == [(0, 8), (1, 10)]
    assert min(int(path.stem) for path in log.path.glob("*.snapshot")) >= 8


def test_the_active_segment_goes_too_when_it_is_old(tmp_path):
    log = aged(tmp_path, retention_ms=5 * HOUR)
    assert log.delete_old_segments(NOW + 100 * HOUR, 20) == 10
    assert (log.log_start_offset, log.log_end_offset, log.size) == (20, 20, 0)
    assert put(log, epoch=1).first_offset == 20
    log.close()
    assert open_log(tmp_path, clean=True, recovery_point=21).log_start_offset == 20


def test_segments_beyond_the_retention_size_go(tmp_path):
    log = aged(tmp_path)
    size = log.active.size
    for retention, left in ((10 * size, 10), (7 * size, 7), (3 * size + 1, 4), (0, 1)):
        log.config = type(log.config)(retention_bytes=retention, retention_ms=-1)
        log.delete_old_segments(NOW, 20)
        assert len(log.segments) == left


def test_nothing_that_is_not_committed_is_deleted(tmp_path):
    log = aged(tmp_path, retention_ms=1)
    assert log.delete_old_segments(NOW + 100 * HOUR, 7) == 3
    assert log.log_start_offset == 6


def test_compacted_topics_are_not_deleted_by_age(tmp_path):
    log = aged(tmp_path, retention_ms=1, cleanup_policy=frozenset({"compact"}))
    assert log.delete_old_segments(NOW + 100 * HOUR, 20) == 0


def test_segments_without_timestamps_have_the_age_of_their_file(tmp_path):
    log = open_log(tmp_path, retention_ms=HOUR)
    put(log, timestamp=-1)
    log.roll()
    put(log, timestamp=-1)
    os.utime(log.path / "00000000000000000000.log", (NOW / 1000, NOW / 1000))
    assert log.delete_old_segments(NOW + HOUR // 2, 2) == 0
    assert log.delete_old_segments(NOW + 2 * HOUR, 2) == 1


def test_deleted_segments_are_renamed_and_unlinked_later(tmp_path):
    log = aged(tmp_path, retention_ms=5 * HOUR, file_delete_delay_ms=1000)
    log.delete_old_segments(NOW + 9 * HOUR, 20)
    assert len(list(log.path.glob("*.log.deleted"))) == 4
    assert len(list(log.path.glob("*.log"))) == 6
    log.unlink_deleted(NOW + 9 * HOUR + 999)
    assert len(list(log.path.glob("*.deleted"))) == 12
    log.unlink_deleted(NOW + 9 * HOUR + 1000)
    assert not list(log.path.glob("*.deleted"))


def test_delete_records_moves_the_start_into_a_segment(tmp_path):
    log = aged(tmp_path)
    log.advance_log_start_offset(7)
    assert (log.log_start_offset, len(log.segments)) == (7, 7)
    assert [o for o, _ in records_of(log)] == list(range(7, 20))
    with pytest.raises(KafkaError) as error:
        log.read(6, 100, upto=20, min_one=True)
    assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    log.advance_log_start_offset(3)
    assert log.log_start_offset == 7
    log.advance_log_start_offset(20)
    assert (log.log_start_offset, len(log.segments), records_of(log)) == (20, 1, [])
    with pytest.raises(KafkaError) as error:
        log.advance_log_start_offset(21)
    assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_segment_rolls_by_size(tmp_path):
    log = open_log(tmp_path, segment_bytes=2 * len(batch(b"x" * 100)))
    for _ in range(5):
        put(log, b"x" * 100)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_a_segment_rolls_by_the_age_of_its_records(tmp_path):
    log = open_log(tmp_path, segment_ms=1000)
    for timestamp in (NOW, NOW + 1000, NOW + 1001, NOW + 1500):
        put(log, timestamp=timestamp)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_without_timestamps_rolls_by_its_own_age(tmp_path):
    log = open_log(tmp_path, segment_ms=1000)
    put(log, timestamp=-1, now=log.active.created_ms)
    put(log, timestamp=-1, now=log.active.created_ms + 1000)
    put(log, timestamp=-1, now=log.active.created_ms + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_the_age_counts_on_after_a_restart(tmp_path):
    log = open_log(tmp_path, segment_ms=1000)
    put(log)
    log.close()
    log = open_log(tmp_path, clean=True, recovery_point=1, segment_ms=1000)
    put(log, timestamp=NOW + 1001)
    assert len(log.segments) == 2


def test_a_segment_rolls_when_its_index_is_full(tmp_path):
    log = open_log(tmp_path, index_interval_bytes=0, segment_index_bytes=8 * 10)
    for number in range(30):
        put(log, timestamp=NOW + number)
    assert len(log.segments) > 2
    assert [o for o, _ in records_of(log)] == list(range(30))
    log.close()
    assert all(path.stat().st_size <= 80 for path in log.path.glob("*index"))


def test_a_segment_rolls_before_offsets_outgrow_its_index(tmp_path):
    log = open_log(tmp_path)
    log.append_as_follower(bytes(batch(base_offset=2**31 - 2)))
    put(log)
    put(log)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]


def test_rolling_an_empty_segment_does_nothing(tmp_path):
    log = open_log(tmp_path)
    log.roll()
    assert len(log.segments) == 1
