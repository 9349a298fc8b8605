"""Records that compaction keeps, drops and ignores."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from ottla.log.cleaner.cleanable import cleanable, job_for
from ottla.log.cleaner.job import SourceSegment, group_segments
from ottla.log.cleaner.walk.compiled import CompiledWalk
from ottla.log.cleaner.walk.walk import ReferenceWalk
from ottla.log.cleaner.worker.main import run as worker_run
from ottla.log.cleaner.worker.main import walk_for
from ottla.log.cleaner.worker.record_filter import ChunkReader, Throttle
from ottla.log.config import CleanerConfig, CorruptSegmentError
from ottla.log.segments.partition_segments import complete_swaps
from ottla.protocol.records import Record, build_batch, read_records

from .batches import NOW, open_log, records_of
from .cleaning import clean

COMPACT = {"cleanup_policy": frozenset({"compact"}), "file_delete_delay_ms": 0}
DAY = 24 * 60 * 60 * 1000


def put(log, *records, timestamp=NOW, **fields):
    """Append one batch of (key, value) pairs."""
    data = build_batch([Record(at, timestamp, *record) for at, record in enumerate(records)], **fields)
    return log.append(data, leader_epoch=0, now_ms=timestamp)


def batches(log):
    return [entry for segment in log.segments for entry in read_records(Path(segment.path).read_bytes())]


def marker(log, producer_id, *, commit, timestamp=NOW):
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0)
    offset = log.log_end_offset
    log.append_as_follower(
        build_batch(
            [Record(0, timestamp, key, value)],
            base_offset=offset,
            partition_leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
    )
    return offset


@pytest.fixture
def log(tmp_path):
    log = open_log(tmp_path, **COMPACT)
    yield log
    log.abandon()


def test_only_the_last_record_of_a_key_stays_at_its_offset(log):
    for key, value in [(b"A", b"1"), (b"B", b"1"), (b"C", b"1"), (b"A", b"2"), (b"B", b"2")]:
        put(log, (key, value))
    log.roll()
    put(log, (b"C", b"2"))  # in the active segment, which compaction skips
    status = clean(log, NOW)
    assert records_of(log) == [(2, b"1"), (3, b"2"), (4, b"2"), (5, b"2")]
    assert (status.last.records_read, status.last.records_kept) == (5, 3)
    assert log.first_dirty_offset == 5


@pytest.mark.parametrize("codec", range(5))
def test_batches_keep_their_codec_offsets_and_sequences(log, codec):
    put(
        log,
        (b"a", b"1"),
        (b"b", b"1" * 100),
        (b"c", b"1"),
        codec=codec,
        producer_id=3,
        producer_epoch=1,
        base_sequence=0,
    )
    put(log, (b"b", b"2"))
    log.roll()
    clean(log, NOW)
    header, records = batches(log)[0]
    assert (header.codec, header.base_offset, header.last_offset, header.base_sequence) == (codec, 0, 2, 0)
    assert [(r.offset, r.key) for r in records] == [(0, b"a"), (2, b"c")]


def test_log_append_time_is_kept(tmp_path):
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime", **COMPACT)
    data = build_batch([Record(0, 5, b"a", b"1"), Record(1, 6, b"b", None)])
    log.append(data, leader_epoch=0, now_ms=NOW)
    put(log, (b"a", b"2"))
    log.roll()
    clean(log, NOW)
    header, records = batches(log)[0]
    assert header.timestamp_type == 1
    assert [(r.key, r.timestamp) for r in records] == [(b"b", NOW)]


def test_tombstones_stay_for_delete_retention_and_then_go(log):
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"b", b"2"))
    log.roll()
    clean(log, NOW)
    header, records = batches(log)[0]
    assert header.attributes & 0x40
    assert header.base_timestamp == NOW + DAY  # the delete horizon
    assert [(r.offset, r.value, r.timestamp) for r in records] == [(2, None, NOW), (3, b"2", NOW)]
    for now, left in [(NOW + DAY - 1, [2, 3]), (NOW + DAY, [3])]:
        put(log, (b"z", b"%d" % now))
        log.roll()
        clean(log, now)
        assert [o for o, _ in records_of(log) if o < 4] == left
    assert log.offset_for_timestamp(NOW, log.log_end_offset)[:2] == (3, NOW)


def test_a_lookup_by_time_is_not_misled_by_a_delete_horizon(log):
    put(log, (b"a", b"1"))
    put(log, (b"a", None), (b"b", b"2"))
    log.roll()
    clean(log, NOW)
    assert log.offset_for_timestamp(NOW, log.log_end_offset)[:2] == (1, NOW)
    assert log.offset_for_timestamp(NOW + 1, log.log_end_offset) is None


def test_the_last_batch_of_a_producer_stays_as_a_header(log):
    put(log, (b"a", b"1"), (b"b", b"1"), producer_id=9, producer_epoch=2, base_sequence=10)
    put(log, (b"a", b"2"), (b"b", b"2"))
    log.roll()
    clean(log, NOW)
    header, records = batches(log)[0]
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (9, 2, 11)
    assert records == []
    log.remove_expired_producers(NOW + DAY, 1)
    put(log, (b"c", b"1"))
    log.roll()
    clean(log, NOW + DAY)
    assert [h.producer_id for h, _ in batches(log)] == [-1, -1]


def test_aborted_records_go_and_do_not_count(log):
    put(log, (b"a", b"committed"))
    put(log, (b"a", b"aborted"), transactional=True, producer_id=4, producer_epoch=0, base_sequence=0)
    marker(log, 4, commit=False)
    put(log, (b"x", b"1"), transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)
    marker(log, 5, commit=True)
    put(log, (b"z", b"1"))
    log.roll()
    clean(log, NOW)
    data = [(r.offset, r.value) for h, records in batches(log) if not h.is_control for r in records]
    assert data == [(0, b"committed"), (3, b"1"), (5, b"1")]
    assert [h.base_offset for h, _ in batches(log) if h.is_control] == [2, 4]
    assert os.path.getsize(log.segments[0].path.replace(".log", ".txnindex")) == 34


def test_an_aborted_transaction_of_the_clean_section_says_nothing_about_the_dirty_one(log):
    put(log, (b"a", b"1"), transactional=True, producer_id=4, producer_epoch=0, base_sequence=0)
    marker(log, 4, commit=False)
    log.roll()
    clean(log, NOW)
    put(log, (b"b", b"1"), transactional=True, producer_id=4, producer_epoch=0, base_sequence=1)
    put(log, (b"b", b"2"), transactional=True, producer_id=4, producer_epoch=0, base_sequence=2)
    marker(log, 4, commit=True)
    log.roll()
    clean(log, NOW)
    assert [r.value for h, records in batches(log) if not h.is_control for r in records] == [b"2"]


def test_a_marker_goes_when_its_data_is_gone_and_its_time_has_passed(log):
    put(log, (b"a", b"1"), transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)
    marker(log, 5, commit=True)
    put(log, (b"a", b"2"), producer_id=5, producer_epoch=0, base_sequence=1)
    seen = []
    for now in (NOW, NOW + 1, NOW + DAY, NOW + 1 + DAY):
        put(log, (b"z", b"1"))
        log.roll()
        clean(log, now)
        markers = [h for h, records in batches(log) if h.is_control and records]
        seen.append([bool(h.attributes & 0x40) for h in markers])
    # With its data; without data, when its horizon is set; still present; gone.
    assert seen == [[False], [True], [True], []]


def test_what_is_not_stable_or_too_young_is_left_alone(tmp_path):
    log = open_log(tmp_path, min_compaction_lag_ms=1000, **COMPACT)
    for at in range(4):
        put(log, (b"a", b"%d" % at), timestamp=NOW + at * 500)
        log.roll()
    assert cleanable(log, log.log_end_offset, NOW + 999) is None
    assert cleanable(log, log.log_end_offset, NOW + 1600).first_uncleanable_offset == 2
    assert cleanable(log, 1, NOW + 1600).first_uncleanable_offset == 1
    assert cleanable(log, log.log_end_offset, NOW + 9999).first_uncleanable_offset == 4


def test_the_dirty_ratio_and_the_longest_lag_decide_when(tmp_path):
    log = open_log(tmp_path, max_compaction_lag_ms=10_000, min_cleanable_dirty_ratio=0.6, **COMPACT)
    put(log, (b"a", b"1"))
    log.roll()
    clean(log, NOW)
    put(log, (b"b", b"1"))
    log.roll()
    found = cleanable(log, 2, NOW)
    assert found.dirty_ratio == 0.5
    assert not found.is_due
    assert cleanable(log, 2, NOW + 10_001).is_due


def test_the_active_segment_of_a_compacted_topic_is_rolled_in_time(tmp_path):
    log = open_log(tmp_path, max_compaction_lag_ms=5000, **COMPACT)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), timestamp=NOW + 5001)
    assert len(log.segments) == 2


def test_small_segments_become_one(tmp_path):
    log = open_log(tmp_path, **COMPACT)
    for at in range(10):
        put(log, (b"%d" % (at % 3), b"v"))
        log.roll()
    clean(log, NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert [offset for offset, _ in records_of(log)] == [7, 8, 9]
    assert sorted(p.name for p in log.path.glob("*.snapshot")) == ["00000000000000000010.snapshot"]


def test_groups_are_limited_by_size_index_and_span():
    sizes = [SourceSegment(at * 10, 40, 8, 12) for at in range(6)]
    assert [len(g) for g in group_segments(sizes, 100, 1000, 60)] == [2, 2, 2]
    assert [len(g) for g in group_segments(sizes, 1000, 24, 60)] == [2, 2, 2]
    far = [SourceSegment(0, 10), SourceSegment(2**31 - 5, 10), SourceSegment(2**31 + 5, 10)]
    assert [len(g) for g in group_segments(far, 1000, 1000, 2**31 + 9)] == [1, 2]


def test_a_small_map_takes_several_rounds(log):
    for at in range(30):
        put(log, (b"%d" % (at % 20), b"%d" % at))
    log.roll()
    for expected in (7, 14):
        clean(log, NOW, walk=ReferenceWalk(7))
        assert log.first_dirty_offset == expected
    while log.first_dirty_offset < 30:
        clean(log, NOW, walk=ReferenceWalk(7))
    assert [offset for offset, _ in records_of(log)] == list(range(10, 30))


def test_a_log_that_is_cut_meanwhile_is_left_as_it_is(log):
    for at in range(4):
        put(log, (b"a", b"%d" % at))
        log.roll()
    status = clean(log, NOW, meanwhile=lambda: log.truncate_to(2))
    assert (status.cancelled, status.cleaned_logs) == (1, 0)
    assert records_of(log) == [(0, b"0"), (1, b"1")]
    assert not list(log.path.glob("*.cleaned"))


@pytest.mark.parametrize("cut", [0, 1, 61])
def test_a_file_that_is_shorter_than_it_was_does_not_keep_the_worker_busy_for_ever(tmp_path, cut):
    batch = build_batch([Record(0, NOW, b"k", b"v")])
    path = tmp_path / "0.log"
    path.write_bytes(batch + batch[: len(batch) - cut] if cut else batch)
    reader = ChunkReader(ReferenceWalk(100), 4096, Throttle(float("inf")))
    with pytest.raises(CorruptSegmentError, match="cut short"):
        list(reader.chunks(str(path), 2 * len(batch)))


def test_segments_that_are_deleted_meanwhile_are_not_brought_back(log):
    for at in range(4):
        put(log, (b"%d" % at, b"v"))
        log.roll()
    status = clean(log, NOW, meanwhile=lambda: log.advance_log_start_offset(3))
    assert status.cancelled == 1
    assert records_of(log) == [(3, b"v")]
    assert clean(log, NOW).cleaned_logs == 1


def test_a_region_that_is_being_sent_survives_the_swap(log):
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    region = log.read(0, 1000, upto=2, min_one=True)
    clean(log, NOW)
    log.unlink_deleted(NOW + 1)
    assert [r.value for _, records in read_records(region.read()) for r in records] == [b"1", b"2"]


def test_what_kafka_left_unfinished_is_finished(tmp_path):
    log = open_log(tmp_path, **COMPACT)
    for at in range(3):
        put(log, (b"a", b"%d" % at))
        log.roll()
    log.close()
    directory = str(log.path)
    data = (log.path / "00000000000000000002.log").read_bytes()
    (log.path / "00000000000000000000.log.swap").write_bytes(data)
    (log.path / "ottla-segments").unlink()
    assert complete_swaps(directory, os.listdir(directory))
    log = open_log(tmp_path, **COMPACT)
    assert records_of(log) == [(2, b"2")]


def test_the_throttle_lets_only_so_much_through():
    now, waits = [0.0], []

    def pause(seconds):
        waits.append(round(seconds, 3))
        now[0] += seconds

    throttle = Throttle(1000, pause, lambda: now[0])
    for _ in range(3):
        throttle.took(500)
    assert waits == [0.5, 0.5, 0.5]
    now[0] += 10
    throttle.took(100)
    assert waits[-1] == 0.1


def test_without_numba_the_plain_walk_does_it(tmp_path, monkeypatch):
    log = open_log(tmp_path, **COMPACT)
    put(log, (b"a", b"1"))
    log.roll()
    job = job_for(cleanable(log, 1, NOW), CleanerConfig(), NOW)
    job.segments = [segment._replace(size=1 << 30) for segment in job.segments]
    reasons = []
    assert isinstance(walk_for(job, reasons.append), CompiledWalk)
    assert not reasons
    monkeypatch.setitem(sys.modules, "ottla.log.cleaner.walk.compiled", None)
    assert isinstance(walk_for(job, reasons.append), ReferenceWalk)
    assert len(reasons) == 1


def test_the_broker_does_not_load_compiled_code():
    script = "import sys, ottla.broker.lifecycle.server, ottla.testing; print({'numba', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_worker_reports_which_error_of_a_disk_it_met(log, monkeypatch):
    put(log, (b"a", b"1"))
    log.roll()
    job = job_for(cleanable(log, log.log_end_offset, NOW), CleanerConfig(), NOW)
    for code, passing in ((errno.EIO, False), (errno.ENOSPC, True), (errno.EMFILE, True)):
        failing = mock.Mock(side_effect=OSError(code, os.strerror(code)))
        monkeypatch.setattr("ottla.log.cleaner.worker.main.Compaction", failing)
        said = worker_run(job, mock.Mock())
        assert (said["event"], said["errno"], said["temporary"]) == ("failed", code, passing)
