from __future__ import annotations

import os

import pytest

from ottla.log.segments import open_files
from ottla.protocol.errors import ErrorCode, KafkaError

from .batches import headers, open_log, put, records_of


def filled(path, count=100, **config):
    log = open_log(path, index_interval_bytes=200, **config)
    for number in range(count):
        put(log, b"%03d" % number, b"x" * 50)
    return log


def test_reading_starts_at_the_batch_that_holds_the_offset(tmp_path):
    log = filled(tmp_path)
    for offset in range(200):
        first = headers(log.read(offset, 10_000, upto=200, min_one=True).read())[0]
        assert first.base_offset == offset // 2 * 2


def test_the_end_of_the_log_is_empty_and_beyond_is_out_of_range(tmp_path):
    log = filled(tmp_path, 3)
    assert log.read(6, 1000, upto=6, min_one=True).size == 0
    assert log.read(6, 1000, upto=6, min_one=True).read() == b""
    for offset in (-1, 7):
        with pytest.raises(KafkaError) as error:
            log.read(offset, 1000, upto=6, min_one=True)
        assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_nothing_at_or_above_the_bound_is_read(tmp_path):
    log = filled(tmp_path)
    for upto in range(201):
        for offset in (0, 50, upto - 1, upto):
            if offset >= 0:
                region = log.read(offset, 1 << 20, upto=upto, min_one=True)
                assert all(header.last_offset < upto for header in headers(region.read()))
                if offset < upto // 2 * 2:
                    assert headers(region.read())[-1].next_offset == upto // 2 * 2


def test_max_bytes_bounds_a_read_except_for_the_first_batch(tmp_path):
    log = filled(tmp_path)
    size = headers(log.read(0, 10_000, upto=200, min_one=True).read())[0].size
    assert log.read(0, size * 3 + 5, upto=200, min_one=True).size == size * 3 + 5
    assert log.read(0, 10, upto=200, min_one=True).size == size
    assert log.read(0, 10, upto=200, min_one=False).size == 0
    assert log.read(198, 0, upto=200, min_one=True).size == size


def test_a_read_stays_within_a_segment_and_the_next_one_follows(tmp_path):
    log = filled(tmp_path, segment_bytes=1000)
    assert len(log.segments) > 5
    assert [offset for offset, _ in records_of(log)] == list(range(200))
    assert [offset for offset, _ in records_of(log, 57)] == list(range(57, 200))


def test_a_region_outlives_its_segment(tmp_path):
    log = filled(tmp_path, segment_bytes=1000)
    region = log.read(0, 500, upto=200, min_one=True)
    before = region.read()
    log.advance_log_start_offset(150)
    log.unlink_deleted(2**62)
    assert region.read() == before
    log.abandon()
    assert region.read() == before
    fd = region.fd
    del region
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_few_sealed_segments_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr(open_files.sealed_files, "capacity", 3)
    before = len(os.listdir("/proc/self/fd"))
    log = filled(tmp_path, segment_bytes=1000)
    assert len(records_of(log)) == 200
    assert len(os.listdir("/proc/self/fd")) <= before + 4


def test_tail_reads_need_no_disk(tmp_path, monkeypatch):
    log = filled(tmp_path)
    monkeypatch.setattr(os, "pread", lambda *_: pytest.fail("the disk was read"))
    assert log.read(198, 1000, upto=200, min_one=True).size > 0
    assert log.read(150, 100_000, upto=200, min_one=True).size > 0


def test_an_index_of_another_file_is_noticed_and_built_again(tmp_path):
    log = filled(tmp_path, segment_bytes=4000)
    log.close()
    indexes = sorted(log.path.glob("*.index"))
    wrong = bytearray(indexes[0].read_bytes())
    for at in range(4, len(wrong), 8):
        wrong[at : at + 4] = (int.from_bytes(wrong[at : at + 4], "big") + 7).to_bytes(4, "big")
    indexes[0].write_bytes(wrong)
    log = open_log(tmp_path, clean=True, recovery_point=200, segment_bytes=4000, index_interval_bytes=200)
    assert [offset for offset, _ in records_of(log, 20)] == list(range(20, 200))
    assert indexes[0].read_bytes() != wrong


def test_a_closed_log_does_not_read_the_files_of_its_successor(tmp_path):
    log = filled(tmp_path, 3)
    log.delete()
    filled(tmp_path, 3)
    for ask in (
        lambda: log.read(0, 1000, upto=6, min_one=True),
        lambda: log.offset_for_timestamp(0, 6),
        log.max_timestamp_offset,
    ):
        with pytest.raises(KafkaError) as error:
            ask()
        assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
