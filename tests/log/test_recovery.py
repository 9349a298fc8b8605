"""Crash recovery: the torn tail is cut, all other records stay, and damage is reported instead of served."""

from __future__ import annotations

import logging
import os
import shutil
import struct
from itertools import accumulate
from zlib import crc32

import pytest

from ottla.log.config import CorruptSegmentError
from ottla.protocol.errors import ErrorCode, KafkaError

from .batches import NOW, batch, headers, open_log, put, records_of

SEGMENT = "00000000000000000000.log"


def written(path, count=6, **config):
    log = open_log(path, **config)
    for number in range(count):
        put(
            log, b"value %d" % number, b"x" * 20, epoch=number // 2, timestamp=NOW + number,
            producer_id=3, producer_epoch=0, base_sequence=2 * number,
        )  # fmt: skip
    log.abandon()
    return log


def index_files(directory):
    return {p.name: p.read_bytes() for p in directory.iterdir() if p.suffix in (".index", ".timeindex")}


def test_a_file_cut_at_any_byte_loses_only_the_batch_that_was_cut(tmp_path):
    log = written(tmp_path)
    whole = (log.path / SEGMENT).read_bytes()
    ends = [0]
    for header in headers(whole):
        ends.append(ends[-1] + header.size)
    for cut in range(ends[3], len(whole) + 1):
        shutil.rmtree(log.path)
        log.path.mkdir()
        (log.path / SEGMENT).write_bytes(whole[:cut])
        recovered = open_log(tmp_path)
        batches = sum(end <= cut for end in ends) - 1
        assert recovered.log_end_offset == 2 * batches
        assert recovered.size == ends[batches] == os.path.getsize(log.path / SEGMENT)
        assert recovered.epochs.entries == [(e, 4 * e) for e in range((batches + 1) // 2)]
        assert recovered.describe_producers()[0].last_sequence == 2 * batches - 1
        again = put(recovered, b"next", producer_id=3, producer_epoch=0, base_sequence=2 * batches)
        assert again.first_offset == 2 * batches
        recovered.abandon()


@pytest.mark.parametrize("garbage", [b"\0" * 500, b"\2" * 500, os.urandom(300), b"\xff" * 61])
def test_garbage_at_the_end_is_a_torn_tail(tmp_path, garbage, caplog):
    log = written(tmp_path)
    with open(log.path / SEGMENT, "ab") as file:
        file.write(garbage)
    recovered = open_log(tmp_path)
    assert len(records_of(recovered)) == 12
    assert f"cut {len(garbage)} bytes" in caplog.text
    assert SEGMENT in caplog.text


def test_a_torn_batch_that_carries_batches_as_values_is_still_torn(tmp_path):
    log = written(tmp_path)
    carrier = batch(bytes(batch(b"inner")), bytes(batch(b"inner")), base_offset=12)
    with open(log.path / SEGMENT, "ab") as file:
        file.write(carrier[:-1])
    assert open_log(tmp_path).log_end_offset == 12


def test_a_bit_flip_with_valid_data_behind_it_takes_the_log_offline_and_keeps_the_bytes(tmp_path):
    log = written(tmp_path)
    whole = (log.path / SEGMENT).read_bytes()
    sizes = [header.size for header in headers(whole)]
    third = sum(sizes[:2])
    for at in [0, 8, 11, *range(16, sizes[2], 7)]:
        damaged = bytearray(whole)
        damaged[third + at] ^= 0x80 if at < 16 else 0x10
        (log.path / SEGMENT).write_bytes(damaged)
        with pytest.raises(CorruptSegmentError) as error:
            open_log(tmp_path)
        assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert error.value.file == str(log.path / SEGMENT)
        assert error.value.position == third
        assert SEGMENT in str(error.value)
        assert (log.path / SEGMENT).read_bytes() == damaged


def test_any_bit_that_flips_where_no_checksum_covers_it_takes_the_log_offline(tmp_path):
    """Base offset, length and leader epoch: the neighbouring batches reveal an error."""
    log = open_log(tmp_path)
    for number in range(8):
        put(log, b"%02d" % number, b"x", epoch=5)
    whole = (log.path / SEGMENT).read_bytes()
    third = sum(header.size for header in headers(whole)[:2])
    for bit in range(16 * 8):
        damaged = bytearray(whole)
        damaged[third + bit // 8] ^= 1 << bit % 8
        (log.path / SEGMENT).write_bytes(damaged)
        with pytest.raises(CorruptSegmentError):
            open_log(tmp_path)
        assert (log.path / SEGMENT).read_bytes() == damaged


def test_any_bit_that_flips_where_no_checksum_covers_it_is_not_served(tmp_path):
    log = open_log(tmp_path)
    for number in range(8):
        put(log, b"%02d" % number, b"x", epoch=5)
    log.close()
    whole = (log.path / SEGMENT).read_bytes()
    bounds = [0, *accumulate(header.size for header in headers(whole))]
    for which in (1, 6):
        for bit in range(16 * 8):
            damaged = bytearray(whole)
            damaged[bounds[which] + bit // 8] ^= 1 << bit % 8
            (log.path / SEGMENT).write_bytes(damaged)
            for max_bytes in (bounds[1], 10_000):
                good = served(tmp_path, max_bytes)
                assert len(good) <= bounds[which], "what is damaged is served"
                assert good == whole[: len(good)]


def served(path, max_bytes):
    """Return the records that a reader gets from the beginning, after a clean start, up to the first error."""
    got, position = b"", 0
    try:
        log = open_log(path, clean=True, recovery_point=16)
        while position < 16:
            got += log.read(position, max_bytes, upto=16, min_one=True).read()
            position = headers(got)[-1].last_offset + 1
    except CorruptSegmentError:
        return got
    pytest.fail("all of it was read")


def test_a_bit_flip_in_a_segment_before_the_last_is_never_cut(tmp_path):
    log = written(tmp_path, 30, segment_bytes=500)
    segments = sorted(log.path.glob("*.log"))
    damaged = bytearray(segments[2].read_bytes())
    damaged[-1] ^= 1
    segments[2].write_bytes(damaged)
    with pytest.raises(CorruptSegmentError, match=segments[2].name):
        open_log(tmp_path, segment_bytes=500)
    assert segments[2].read_bytes() == damaged


def test_damage_found_after_a_clean_start_is_not_served(tmp_path, caplog):
    log = open_log(tmp_path, segment_bytes=500)
    for number in range(30):
        put(log, b"%02d" % number, b"x" * 50)
    log.close()
    segments = sorted(log.path.glob("*.log"))
    content = segments[1].read_bytes()
    base, size = headers(content)[0].base_offset, headers(content)[0].size
    segments[1].write_bytes(content[: size + 70] + bytes([content[size + 70] ^ 4]) + content[size + 71 :])
    log = open_log(tmp_path, clean=True, recovery_point=60, segment_bytes=500)
    assert log.read(base, 10_000, upto=60, min_one=True).size == size
    with pytest.raises(KafkaError) as error:
        log.read(base + 2, 10_000, upto=60, min_one=True)
    assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert segments[1].name in str(error.value)
    assert segments[1].name in caplog.text
    following = int(segments[2].stem)
    assert records_of(log, following)[0][0] == following
    assert put(log).first_offset == 60


def test_what_was_checked_once_is_not_checked_again(tmp_path, monkeypatch):
    log = open_log(tmp_path)
    for _ in range(30):
        put(log, b"x" * 50)
    log.close()
    log = open_log(tmp_path, clean=True, recovery_point=30)
    for offset in (10, 20, 0, 5, 29):
        log.read(offset, 500, upto=30, min_one=True)
    records_of(log)
    assert log.active.unverified_end == 0


def test_a_clean_shutdown_skips_recovery(tmp_path, monkeypatch):
    log = open_log(tmp_path, segment_bytes=500)
    for number in range(30):
        put(log, b"%d" % number, b"x" * 50, epoch=number // 10)
    before = records_of(log), log.epochs.entries, log.size
    log.close()
    monkeypatch.setattr("ottla.log.recovery._recover", lambda *_: pytest.fail("recovered"))
    log = open_log(tmp_path, clean=True, recovery_point=60, segment_bytes=500)
    assert (records_of(log), log.epochs.entries, log.size) == before
    assert log.recovery_point == 60


def test_only_segments_from_the_recovery_point_on_are_scanned(tmp_path, monkeypatch):
    from ottla.log import recovery

    log = written(tmp_path, 30, segment_bytes=500)
    scanned = []
    scan = recovery._scan
    monkeypatch.setattr(recovery, "_scan", lambda s, *rest: scanned.append(s.base_offset) or scan(s, *rest))
    bases = [int(path.stem) for path in sorted(log.path.glob("*.log"))]
    recovered = open_log(tmp_path, segment_bytes=500, recovery_point=bases[3] + 1)
    assert scanned == bases[3:]
    assert recovered.log_end_offset == 60
    assert recovered.describe_producers()[0].last_sequence == 59


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_missing_indexes_are_built_again(tmp_path, clean, suffix):
    config = {"segment_bytes": 2000, "index_interval_bytes": 300}
    log = open_log(tmp_path, **config)
    for number in range(60):
        put(log, b"x" * 60, timestamp=NOW + number)
    log.close()
    before = index_files(log.path)
    for path in log.path.glob(f"*.{suffix}"):
        path.unlink()
    log = open_log(tmp_path, clean=clean, recovery_point=60, **config)
    assert [offset for offset, _ in records_of(log)] == list(range(60))
    log.close()
    assert index_files(log.path) == before


def test_an_unclean_stop_leaves_the_same_indexes_as_a_clean_one(tmp_path):
    config = {"segment_bytes": 2000, "index_interval_bytes": 300}
    for name in ("clean", "unclean"):
        log = open_log(tmp_path / name, **config)
        for number in range(60):
            put(log, b"x" * 60, timestamp=NOW + number)
        log.close() if name == "clean" else log.abandon()
    open_log(tmp_path / "unclean", **config).close()
    clean, unclean = index_files(tmp_path / "clean/t-0"), index_files(tmp_path / "unclean/t-0")
    assert clean == unclean


def test_a_log_that_was_not_closed_is_recovered_despite_the_mark_of_its_directory(tmp_path):
    log = written(tmp_path)
    with open(log.path / SEGMENT, "ab") as file:
        file.write(bytes(100))
    with pytest.raises(CorruptSegmentError, match=SEGMENT):
        open_log(tmp_path, clean=True, recovery_point=12)


def test_snapshots_behind_the_end_of_the_log_are_removed(tmp_path):
    log = open_log(tmp_path)
    put(log, producer_id=1, producer_epoch=0, base_sequence=0)
    end = log.size
    put(log, producer_id=1, producer_epoch=0, base_sequence=1)
    log.producers.take_snapshot(2)
    log.abandon()
    os.truncate(log.path / SEGMENT, end + 30)
    log = open_log(tmp_path)
    assert log.describe_producers()[0].last_sequence == 0
    assert not list(log.path.glob("*.snapshot"))


def test_leftovers_are_removed_and_other_files_left_alone(tmp_path):
    log = written(tmp_path)
    for name in ("00000000000000000009.log.deleted", "leader-epoch-checkpoint.tmp", "notes.txt"):
        (log.path / name).write_text("x")
    open_log(tmp_path)
    assert (log.path / "notes.txt").exists()
    assert not list(log.path.glob("*.deleted"))
    assert not list(log.path.glob("*.tmp"))


def test_a_damaged_epoch_checkpoint_is_replaced_by_reading_the_log(tmp_path, caplog):
    log = written(tmp_path)
    (log.path / "leader-epoch-checkpoint").write_text("0\n7\nnonsense\n")
    log = open_log(tmp_path, clean=True, recovery_point=12)
    assert log.epochs.entries == [(0, 0), (1, 4), (2, 8)]


def test_old_message_formats_are_named(tmp_path):
    path = tmp_path / "t-0"
    path.mkdir()
    body = struct.pack(">bbqii", 1, 0, NOW, -1, 3) + b"old"
    (path / SEGMENT).write_bytes(struct.pack(">qiI", 0, len(body) + 4, crc32(body)) + body)
    with pytest.raises(CorruptSegmentError, match="message format from before"):
        open_log(tmp_path)


def test_an_empty_last_segment_is_what_a_crash_after_a_roll_leaves(tmp_path):
    log = open_log(tmp_path)
    put(log)
    log.roll()
    log.abandon()
    for recovery_point in (0, 1):
        log = open_log(tmp_path, recovery_point=recovery_point)
        assert (log.log_end_offset, len(log.segments)) == (1, 2)
        log.abandon()


def test_a_log_start_behind_the_end_means_that_all_was_deleted(tmp_path):
    written(tmp_path)
    log = open_log(tmp_path, log_start_offset=40)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (40, 40, 0)
    assert put(log).first_offset == 40


@pytest.fixture(autouse=True)
def _log_level(caplog):
    caplog.set_level(logging.WARNING)


def test_indexes_whose_segment_is_gone_are_removed(tmp_path):
    log = written(tmp_path)
    (log.path / "00000000000000000777.index").write_bytes(bytes(8))
    open_log(tmp_path)
    assert not (log.path / "00000000000000000777.index").exists()


def test_epochs_from_before_the_recovery_point_keep_their_beginning(tmp_path):
    log = open_log(tmp_path, segment_bytes=300)
    for number in range(20):
        put(log, b"x" * 50, epoch=number // 12)
    base = log.segments[2].base_offset
    log.epochs.write()
    log.abandon()
    assert open_log(tmp_path, segment_bytes=300, recovery_point=base).epochs.entries == [(0, 0), (1, 12)]
