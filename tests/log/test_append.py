from __future__ import annotations

import pytest

from ottla.log.batch import header_at
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import Record, build_batch, check_crc, read_batch

from .batches import NOW, batch, headers, open_log, put, records_of


def refused(log, records, **options) -> ErrorCode:
    before = (log.log_end_offset, log.size)
    with pytest.raises(KafkaError) as error:
        log.append(records, leader_epoch=0, now_ms=NOW, **options)
    assert (log.log_end_offset, log.size) == before
    assert error.value.message
    return error.value.code


def patched(data: bytearray, at: int, new: bytes, *, seal: bool = True) -> bytearray:
    from crc32c import crc32c

    data[at : at + len(new)] = new
    if seal:
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return data


def test_batches_get_consecutive_offsets_and_the_leader_epoch(tmp_path):
    log = open_log(tmp_path)
    first, second = put(log, b"a", b"b", epoch=3), put(log, b"c", epoch=4)
    assert (first.first_offset, first.last_offset, first.duplicate) == (0, 1, False)
    assert (second.first_offset, second.last_offset) == (2, 2)
    assert log.log_end_offset == 3
    stored = headers((log.path / "00000000000000000000.log").read_bytes())
    assert [(h.base_offset, h.partition_leader_epoch) for h in stored] == [(0, 3), (2, 4)]
    assert records_of(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_the_batch_is_patched_in_place_and_a_read_only_one_is_copied(tmp_path):
    log = open_log(tmp_path)
    put(log)
    mine = batch(b"x")
    log.append(memoryview(mine), leader_epoch=7, now_ms=NOW)
    assert (header_at(mine).base_offset, header_at(mine).partition_leader_epoch) == (1, 7)
    log.append(memoryview(bytes(batch(b"y"))), leader_epoch=7, now_ms=NOW)
    assert [value for _, value in records_of(log)] == [b"v", b"x", b"y"]


def test_what_is_no_batch_is_corrupt(tmp_path):
    log = open_log(tmp_path)
    assert refused(log, b"\0" * 60) == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, patched(batch(), 30, b"\xff", seal=False)) == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, patched(batch(), 16, b"\x03")) == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, batch(b"abc")[:-1]) == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, patched(batch(), 8, b"\xff\xff\xff\xff")) == ErrorCode.CORRUPT_MESSAGE


def test_what_is_not_allowed_in_a_batch_is_an_invalid_record(tmp_path):
    log = open_log(tmp_path)
    invalid = {
        "nothing": b"",
        "two batches": batch() + batch(),
        "old format": patched(batch(), 16, b"\x01"),
        "no records": patched(patched(batch(), 57, b"\0\0\0\0"), 23, b"\xff\xff\xff\xff"),
        "count and offsets differ": patched(batch(), 23, b"\0\0\0\7"),
        "a codec that does not exist": patched(batch(), 21, b"\0\5"),
        "control records": build_batch([Record(0, NOW, b"k", b"v")], control=True, producer_id=1),
        "a base offset": batch(base_offset=5),
        "a producer without sequence": batch(producer_id=1, producer_epoch=0),
        "a transaction without producer": batch(transactional=True),
    }
    assert {name: refused(log, data) for name, data in invalid.items()} == dict.fromkeys(
        invalid, ErrorCode.INVALID_RECORD
    )


def test_the_coordinators_own_batches_may_have_a_base_offset(tmp_path):
    log = open_log(tmp_path)
    log.append(batch(base_offset=5), leader_epoch=0, now_ms=NOW, from_client=False)
    assert records_of(log) == [(0, b"v")]


def test_size_limits(tmp_path):
    log = open_log(tmp_path, max_message_bytes=500, segment_bytes=300)
    assert refused(log, batch(b"x" * 500)) == ErrorCode.MESSAGE_TOO_LARGE
    assert refused(log, batch(b"x" * 300)) == ErrorCode.RECORD_LIST_TOO_LARGE
    put(log, b"x" * 200)


def test_timestamps_too_far_from_now_are_refused(tmp_path):
    log = open_log(tmp_path, message_timestamp_after_max_ms=1000, message_timestamp_before_max_ms=5000)
    assert refused(log, batch(timestamp=NOW + 1001)) == ErrorCode.INVALID_TIMESTAMP
    assert refused(log, batch(timestamp=NOW - 5001)) == ErrorCode.INVALID_TIMESTAMP
    put(log, timestamp=NOW + 1000)
    put(log, timestamp=NOW - 5000)
    put(log, timestamp=-1)


def test_only_the_broker_says_log_append_time(tmp_path):
    data = build_batch([Record(0, NOW, b"k", b"v")], timestamp_type=1)
    assert refused(open_log(tmp_path), data) == ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_replaces_the_timestamps(tmp_path):
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    info = log.append(batch(b"a", b"b", timestamp=5), leader_epoch=0, now_ms=NOW)
    assert info.log_append_time == info.max_timestamp == NOW
    stored = log.read(0, 1000, upto=2, min_one=True).read()
    assert check_crc(stored, 0, header_at(stored))
    assert [record.timestamp for record in read_batch(stored)] == [NOW, NOW]
    assert open_log(tmp_path / "other").append(batch(), leader_epoch=0, now_ms=NOW).log_append_time == -1


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_with_its_own_compression_recompresses(tmp_path, codec):
    log = open_log(tmp_path, compression_type=codec)
    sent = Codec.GZIP if codec == "uncompressed" else Codec.NONE
    put(log, b"a" * 200, b"b" * 200, codec=sent, producer_id=9, producer_epoch=0, base_sequence=0)
    stored = log.read(0, 10_000, upto=2, min_one=True).read()
    assert header_at(stored).codec == Codec[codec.upper().replace("UNCOMPRESSED", "NONE")]
    assert check_crc(stored, 0, header_at(stored))
    assert (header_at(stored).producer_id, header_at(stored).base_sequence) == (9, 0)
    assert records_of(log) == [(0, b"a" * 200), (1, b"b" * 200)]


def test_compacted_topics_need_keys(tmp_path):
    log = open_log(tmp_path, cleanup_policy=frozenset({"compact"}))
    assert refused(log, batch(key=None)) == ErrorCode.INVALID_RECORD
    assert refused(log, patched(batch(codec=Codec.GZIP), 61, b"\0\0\0")) == ErrorCode.INVALID_RECORD
    put(log, key=b"k")


def test_a_new_configuration_holds_for_the_next_append(tmp_path):
    from ottla.log.config import LogConfig

    log = open_log(tmp_path)
    put(log, b"x" * 200)
    log.config = LogConfig(max_message_bytes=100)
    assert refused(log, batch(b"x" * 200)) == ErrorCode.MESSAGE_TOO_LARGE
    log.config = LogConfig(segment_bytes=300)
    put(log, b"x" * 200)
    assert len(log.segments) == 2
