"""The files match Kafka's byte for byte."""

from __future__ import annotations

import struct

import pytest

from ottla.log.files.checkpoint import CheckpointError, read_offsets, write_offsets
from ottla.log.files.meta_properties import read_partition_metadata, write_partition_metadata
from ottla.log.leader_epoch import LeaderEpochCache
from ottla.log.segments.index import OffsetIndex, TimeIndex

from .batches import NOW, headers, open_log, put


def test_a_partition_has_kafkas_files(tmp_path):
    log = open_log(tmp_path, segment_bytes=250)
    for number in range(3):
        put(log, b"x" * 100, timestamp=NOW + number)
    log.close()
    assert sorted(path.name for path in log.path.iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.index",
        "00000000000000000001.log",
        "00000000000000000001.snapshot",
        "00000000000000000001.timeindex",
        "00000000000000000002.index",
        "00000000000000000002.log",
        "00000000000000000002.snapshot",
        "00000000000000000002.timeindex",
        "00000000000000000003.snapshot",
        "leader-epoch-checkpoint",
        "ottla-segments",
    ]
    assert (log.path / "00000000000000000001.timeindex").read_bytes() == struct.pack(">qi", NOW + 1, 0)


def test_index_entries_are_sparse_and_relative(tmp_path):
    log = open_log(tmp_path, index_interval_bytes=300, log_start_offset=1000)
    for number in range(20):
        put(log, b"x" * 30, b"y" * 30, timestamp=NOW + number)
    log.close()
    stored = headers((log.path / "00000000000000001000.log").read_bytes())
    expected_index, expected_times, position, since, last = b"", b"", 0, 0, 0
    for header in stored:
        if since > 300:
            expected_index += struct.pack(">ii", header.last_offset - 1000, position)
            expected_times += struct.pack(">qi", header.max_timestamp, header.last_offset - 1000)
            since, last = 0, header.max_timestamp
        position, since = position + header.size, since + header.size
    if stored[-1].max_timestamp > last:
        expected_times += struct.pack(">qi", stored[-1].max_timestamp, stored[-1].last_offset - 1000)
    assert len(expected_index) > 40
    assert (log.path / "00000000000000001000.index").read_bytes() == expected_index
    assert (log.path / "00000000000000001000.timeindex").read_bytes() == expected_times


def test_the_time_index_takes_only_rising_timestamps(tmp_path):
    log = open_log(tmp_path, index_interval_bytes=0)
    for timestamp in (5, 9, 7, 9, 8, 12, 11):
        put(log, timestamp=timestamp)
    log.close()
    entries = struct.iter_unpack(">qi", (log.path / "00000000000000000000.timeindex").read_bytes())
    assert list(entries) == [(9, 1), (12, 5)]


def test_preallocated_zeros_behind_the_entries_are_ignored(tmp_path):
    (tmp_path / "i").write_bytes(struct.pack(">iiii", 3, 100, 8, 300) + bytes(80))
    index = OffsetIndex(str(tmp_path / "i"), 50)
    assert index.last() == (58, 300)
    assert index.entries == [(53, 100), (58, 300)]
    assert [index.lookup(offset) for offset in (50, 53, 57, 58, 99)] == [
        (50, 0), (53, 100), (53, 100), (58, 300), (58, 300),
    ]  # fmt: skip
    (tmp_path / "t").write_bytes(struct.pack(">qiqi", 10, 3, 20, 8) + bytes(120))
    times = TimeIndex(str(tmp_path / "t"), 50)
    assert times.last() == (20, 58)
    assert [times.lookup(timestamp) for timestamp in (9, 10, 19, 20, 21)] == [50, 53, 53, 58, 58]


def test_many_index_entries_are_written_in_groups(tmp_path):
    log = open_log(tmp_path, index_interval_bytes=0)
    index = log.path / "00000000000000000000.index"
    for _ in range(64):
        put(log)
    assert not index.exists()
    put(log)
    assert index.stat().st_size == 64 * 8
    put(log)
    log.close()
    assert index.stat().st_size == 65 * 8


def test_a_checkpoint_is_version_count_and_lines(tmp_path):
    path = str(tmp_path / "recovery-point-offset-checkpoint")
    write_offsets(path, {("t-a.b", 1): 17, ("u", 0): 2**40})
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text().split() == [
        "0",
        "2",
        "t-a.b",
        "1",
        "17",
        "u",
        "0",
        "1099511627776",
    ]
    assert read_offsets(path) == ({("t-a.b", 1): 17, ("u", 0): 2**40}, True)
    assert read_offsets(str(tmp_path / "missing")) == ({}, False)


@pytest.mark.parametrize("text", ["1\n0\n", "0\n2\nt 0 1\n", "0\n1\nt 0\n", "0\n", "0\nx\n", "0\n1\nt 0 x\n"])
def test_a_damaged_checkpoint_is_named(tmp_path, text):
    (tmp_path / "c").write_text(text)
    with pytest.raises(CheckpointError, match=str(tmp_path / "c")):
        read_offsets(str(tmp_path / "c"))


def test_partition_metadata_has_the_topic_id(tmp_path):
    topic_id = bytes.fromhex("1579c60f194d4da3ace0b51cf4236618")
    write_partition_metadata(str(tmp_path), topic_id)
    assert (
        (tmp_path / "partition.metadata")
        .read_text()
        .startswith("version: 0\ntopic_id: FXnGDxlNTaOs4LUc9CNmGA\n")
    )
    assert read_partition_metadata(str(tmp_path)) == topic_id


def test_leader_epochs_are_kept_in_their_checkpoint(tmp_path):
    epochs = LeaderEpochCache(str(tmp_path))
    for epoch, start in ((0, 0), (2, 10), (5, 20)):
        epochs.assign(epoch, start)
    epochs.write()
    assert (tmp_path / "leader-epoch-checkpoint").read_text().split() == [
        "0",
        "3",
        "0",
        "0",
        "2",
        "10",
        "5",
        "20",
    ]
    again = LeaderEpochCache(str(tmp_path))
    again.load()
    assert again.entries == [(0, 0), (2, 10), (5, 20)]
    assert again.latest == 5


def test_the_latest_epoch_follows_every_change_of_the_entries(tmp_path):
    epochs = LeaderEpochCache(str(tmp_path))
    assert epochs.latest == -1
    for epoch, start in ((1, 0), (2, 10), (5, 20)):
        epochs.assign(epoch, start)
        assert epochs.latest == epoch
    epochs.truncate_from_end(20)
    assert epochs.latest == 2
    epochs.truncate_from_start(15)
    assert epochs.latest == 2
    epochs.truncate_from_end(0)
    assert epochs.latest == -1
    epochs.assign(7, 0)
    epochs.clear()
    assert epochs.latest == -1


def test_the_end_of_an_epoch_is_the_start_of_the_next():
    epochs = LeaderEpochCache("/nowhere")
    assert epochs.end_offset_for(3, 99) == (-1, -1)
    for epoch, start in ((1, 5), (2, 10), (5, 20)):
        epochs.assign(epoch, start)
    assert epochs.end_offset_for(-1, 99) == (-1, -1)
    assert epochs.end_offset_for(0, 99) == (0, 5)
    assert epochs.end_offset_for(1, 99) == (1, 10)
    assert epochs.end_offset_for(3, 99) == (2, 20)
    assert epochs.end_offset_for(5, 99) == (5, 99)
    assert epochs.end_offset_for(6, 99) == (-1, -1)
    assert [epochs.epoch_of(offset) for offset in (0, 5, 15, 20, 500)] == [-1, 1, 2, 5, 5]


def test_epochs_are_cut_at_both_ends(tmp_path):
    epochs = LeaderEpochCache(str(tmp_path))
    for epoch, start in ((1, 0), (2, 10), (5, 20)):
        epochs.assign(epoch, start)
    epochs.truncate_from_end(20)
    assert epochs.entries == [(1, 0), (2, 10)]
    epochs.truncate_from_start(15)
    assert epochs.entries == [(2, 15)]
    epochs.truncate_from_start(15)
    assert (tmp_path / "leader-epoch-checkpoint").read_text().split() == ["0", "1", "2", "15"]


def test_an_epoch_overrules_what_contradicts_it():
    epochs = LeaderEpochCache("/nowhere")
    for epoch, start in ((1, 0), (3, 10), (4, 20)):
        epochs.assign(epoch, start)
    epochs.assign(4, 30)
    assert epochs.entries == [(1, 0), (3, 10), (4, 20)]
    epochs.assign(5, 15)
    assert epochs.entries == [(1, 0), (3, 10), (5, 15)]
    epochs.assign(2, 40)
    assert epochs.entries == [(1, 0), (2, 40)]


def test_a_log_without_records_has_its_index_files_once_it_is_closed(tmp_path):
    log = open_log(tmp_path)
    log.close()
    for suffix in ("index", "timeindex"):
        assert (log.path / f"00000000000000000000.{suffix}").read_bytes() == b""


def test_a_log_that_was_reopened_empty_still_gets_its_index_files(tmp_path):
    open_log(tmp_path).close()
    log = open_log(tmp_path, clean=True)
    put(log)
    log.roll()
    log.flush()
    assert log.recovery_point == 1
    assert (log.path / "00000000000000000000.index").exists()
    assert (log.path / "00000000000000000000.timeindex").exists()
