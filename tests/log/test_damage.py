"""Contradictory files: rebuilt if nothing can be lost, otherwise the log is refused."""

from __future__ import annotations

import logging
import os
import shutil
import struct
from pathlib import Path

import pytest

from ottla.log.config import CorruptSegmentError, DamagedLogError, LogConfig
from ottla.log.log_directory import LogDirectory
from ottla.log.segments.index import AbortedTransaction
from ottla.protocol.errors import KafkaError

from .batches import NOW, headers, open_log, put, records_of

SEGMENT = "00000000000000000000"
CONFIG = {"index_interval_bytes": 100}
DAMAGED = (DamagedLogError, CorruptSegmentError)


@pytest.fixture(autouse=True)
def _log_level(caplog):
    caplog.set_level(logging.WARNING)


def closed(path: Path, count: int = 30, **config):
    log = open_log(path, **CONFIG, **config)
    for number in range(count):
        put(log, b"%03d" % number, b"x" * 50, timestamp=NOW + number)
    log.close()
    return log.path


def reopened(path: Path, end: int = 60, **config):
    return open_log(path, clean=True, recovery_point=end, **CONFIG, **config)


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def test_whichever_bit_of_the_last_index_entry_flips_the_log_keeps_its_end(tmp_path):
    directory = closed(tmp_path)
    index = directory / f"{SEGMENT}.index"
    whole = index.read_bytes()
    for bit in range(64):
        damaged = bytearray(whole)
        damaged[len(whole) - 8 + bit // 8] ^= 1 << bit % 8
        index.write_bytes(damaged)
        log = reopened(tmp_path)
        assert log.log_end_offset == 60
        assert [offset for offset, _ in records_of(log)] == list(range(60))
        log.abandon()
        index.write_bytes(whole)


def test_a_flipped_bit_anywhere_in_an_index_hides_no_record(tmp_path, caplog):
    directory = closed(tmp_path, segment_bytes=1500)
    first = directory / f"{SEGMENT}.index"
    whole = first.read_bytes()
    for at in range(0, len(whole), 3):
        flip(first, at, 2)
        log = reopened(tmp_path, segment_bytes=1500)
        for offset in range(60):
            region = log.read(offset, 1, upto=60, min_one=True)
            assert headers(region.read())[0].base_offset == offset // 2 * 2
        assert first.read_bytes() == whole, "the index was not built again"
        log.abandon()
    assert first.name in caplog.text


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("change", ["cut", "empty", "remove"])
def test_a_log_that_ends_below_its_recovery_point_is_refused(tmp_path, clean, change):
    directory = closed(tmp_path)
    path = directory / f"{SEGMENT}.log"
    (directory / "ottla-segments").unlink()  # the state that Apache Kafka leaves
    if change == "remove":
        path.unlink()
    else:
        os.truncate(path, 0 if change == "empty" else headers(path.read_bytes())[0].size)
    before = sorted(each.name for each in directory.iterdir() if each.suffix == ".log")
    with pytest.raises(DAMAGED, match=f"{SEGMENT}.log"):
        open_log(tmp_path, clean=clean, recovery_point=60, **CONFIG)
    assert sorted(each.name for each in directory.iterdir() if each.suffix == ".log") == before


def test_what_was_finished_is_not_called_an_append_that_was_never_finished(tmp_path, caplog):
    directory = closed(tmp_path)
    path = directory / f"{SEGMENT}.log"
    flip(path, path.stat().st_size - 3)
    size = path.stat().st_size
    with pytest.raises(CorruptSegmentError, match="goes on from offset 58 to 60"):
        open_log(tmp_path, recovery_point=60, **CONFIG)
    assert path.stat().st_size == size
    assert "never finished" not in caplog.text


@pytest.mark.parametrize("change", ["cut", "remove", "exchange"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_sealed_segment_that_is_not_the_one_that_was_written_is_refused(tmp_path, change, clean):
    directory = closed(tmp_path, segment_bytes=1000)
    other = closed(tmp_path / "other", segment_bytes=1000)
    shutil.copytree(other, tmp_path / "u-0")
    path = sorted(directory.glob("*.log"))[1]
    if change == "cut":
        os.truncate(path, headers(path.read_bytes())[0].size)
    elif change == "remove":
        path.unlink()
    else:
        flipped = bytearray(path.read_bytes())
        flipped[20] ^= 1  # a different checksum in the first batch, like a file of another partition
        path.write_bytes(flipped)
    with pytest.raises(DAMAGED, match=path.name):
        open_log(tmp_path, clean=clean, recovery_point=60, segment_bytes=1000, **CONFIG)


def test_an_aborted_transaction_that_is_missing_from_its_index_is_found_in_the_log(tmp_path):
    log = open_log(tmp_path)
    put(log, b"gone", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.append_marker(
        7, 0, commit=False, coordinator_epoch=0, transaction_version=1, leader_epoch=0, now_ms=NOW
    )
    log.close()
    path = log.path / f"{SEGMENT}.txnindex"
    whole = path.read_bytes()
    for damaged in (None, b"", whole[:33], bytes(34), whole[:9] + b"\x08" + whole[10:]):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        log = open_log(tmp_path, clean=True, recovery_point=2)
        region = log.read(0, 1 << 20, upto=2, min_one=True)
        assert log.aborted_transactions(0, region) == [AbortedTransaction(7, 0, 1, 2)]
        log.close()
        assert path.read_bytes() == whole


def test_the_snapshot_of_another_partition_is_not_believed(tmp_path):
    for topic, sequence in (("a", 0), ("b", 5)):
        log = open_log(tmp_path / topic)
        for number in range(3):
            put(log, producer_id=1, producer_epoch=sequence, base_sequence=number)
        log.close()
    name = "00000000000000000003.snapshot"
    shutil.copy(tmp_path / "b/t-0" / name, tmp_path / "a/t-0" / name)
    log = open_log(tmp_path / "a", clean=True, recovery_point=3)
    assert log.describe_producers()[0].producer_epoch == 0


def test_epochs_that_are_missing_are_read_from_the_batches(tmp_path):
    log = open_log(tmp_path)
    for number in range(6):
        put(log, b"v", epoch=number // 2)
    log.close()
    path = log.path / "leader-epoch-checkpoint"
    whole = path.read_bytes()
    for damaged in (None, b"", whole.replace(b"1 2", b"1 3"), b"0\n1\n5 0\n"):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        log = open_log(tmp_path, clean=True, recovery_point=6)
        assert log.epochs.entries == [(0, 0), (1, 2), (2, 4)]
        log.close()


def test_a_time_index_that_is_wrong_does_not_make_a_segment_old(tmp_path):
    config = {"segment_bytes": 1000, "retention_ms": 1_000_000}
    directory = closed(tmp_path, **config)
    for path in sorted(directory.glob("*.timeindex"))[:-1]:
        last = path.read_bytes()[-12:]
        path.write_bytes(struct.pack(">qi", 5, struct.unpack(">qi", last)[1]))
    for manifest in (True, False):
        if not manifest:
            (directory / "ottla-segments").unlink()
        log = reopened(tmp_path, **config)
        assert log.delete_old_segments(NOW + 1000, 60) == 0
        assert log.offset_for_timestamp(NOW + 7, 60) == (14, NOW + 7, 0)
        log.abandon()


def test_a_compacted_segment_that_was_damaged_replaces_nothing(tmp_path):
    directory = closed(tmp_path, segment_bytes=1000)
    whole = (directory / f"{SEGMENT}.log").read_bytes()
    for damaged in (b"", whole[:-5], whole[:70] + b"\0" + whole[71:]):
        (directory / f"{SEGMENT}.log.swap").write_bytes(damaged)
        log = reopened(tmp_path, segment_bytes=1000)
        assert len(records_of(log)) == 60
        log.abandon()
    (directory / f"{SEGMENT}.log").rename(directory / f"{SEGMENT}.log.deleted")
    (directory / f"{SEGMENT}.log.swap").write_bytes(whole[:-5])
    with pytest.raises(DamagedLogError, match=r"log\.swap"):
        reopened(tmp_path, segment_bytes=1000)
    assert (directory / f"{SEGMENT}.log.deleted").read_bytes() == whole


# Whole log directories


def opened(path: Path) -> LogDirectory:
    directory = LogDirectory.open(path)
    directory.load_logs(lambda topic: LogConfig(segment_bytes=2000))
    return directory


def filled(path: Path, *names: str, count: int = 60) -> LogDirectory:
    directory = opened(path)
    for name in names or ("t",):
        log = directory.create_log(name, 0, topic_id=b"i" * 16, config=LogConfig(segment_bytes=2000))
        for number in range(count):
            put(log, b"%s %03d" % (name.encode(), number), timestamp=NOW + number)
    return directory


def values(directory: LogDirectory, name: str = "t") -> list[bytes | None]:
    return [value for _, value in records_of(directory.logs[name, 0])]


def test_a_log_start_behind_the_end_deletes_nothing(tmp_path):
    directory = filled(tmp_path)
    directory.close()
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 99\n")
    directory = opened(tmp_path)
    assert len(values(directory)) == 60
    directory.close()
    directory = opened(tmp_path)
    assert len(values(directory)) == 60
    directory.abandon()


@pytest.mark.parametrize("change", ["raise", "remove", "empty", "rewrite"])
def test_records_that_were_deleted_stay_deleted_and_no_others_go(tmp_path, change):
    directory = filled(tmp_path)
    directory.logs["t", 0].advance_log_start_offset(7)
    directory.close()
    path = tmp_path / "log-start-offset-checkpoint"
    text = path.read_text()
    if change == "remove":
        path.unlink()
    else:
        path.write_text(
            {"raise": text.replace("t 0 7", "t 0 37"), "empty": "", "rewrite": "0\n1\nt 0 37\n"}[change]
        )
    directory = opened(tmp_path)
    assert directory.logs["t", 0].log_start_offset == 7
    directory.abandon()


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_log_stays_refused_over_every_restart_until_it_is_repaired(tmp_path, clean):
    directory = filled(tmp_path, "t", "u")
    directory.close() if clean else directory.abandon()
    path = max((tmp_path / "t-0").glob("*.log"))
    whole = path.read_bytes()
    os.truncate(path, headers(whole)[0].size)
    for _ in range(3):
        directory = opened(tmp_path)
        assert path.name in directory.offline_logs["t", 0]
        assert len(values(directory, "u")) >= 60
        put(directory.logs["u", 0], b"more")
        directory.close()
    path.write_bytes(whole)
    directory = opened(tmp_path)
    assert len(values(directory)) == 60
    assert len(values(directory, "u")) == 63
    directory.abandon()


@pytest.mark.parametrize("change", ["cut", "empty", "remove", "exchange", "lift"])
def test_a_kill_and_damage_to_the_end_of_a_log_are_not_taken_for_a_crash(tmp_path, change):
    directory = filled(tmp_path, "t", "u", count=5)
    directory.abandon()  # like kill -9: without any checkpoint
    path, other = (tmp_path / name / f"{SEGMENT}.log" for name in ("t-0", "u-0"))
    data = path.read_bytes()
    if change == "cut":
        os.truncate(path, path.stat().st_size - 5)
    elif change == "empty":
        os.truncate(path, 0)
    elif change == "remove":
        path.unlink()
    elif change == "exchange":
        path.write_bytes(other.read_bytes())
    else:
        last = data.rindex(headers(data)[-1].base_offset.to_bytes(8, "big"))
        flip(path, last + 6, 3)
    directory = opened(tmp_path)
    assert f"{SEGMENT}.log" in directory.offline_logs["t", 0]
    assert len(values(directory, "u")) == 5
    directory.abandon()


def test_the_end_of_a_log_is_forgotten_when_it_is_truncated_or_deleted(tmp_path):
    directory = filled(tmp_path, "t", "u")
    for name in ("t", "u"):
        directory.logs[name, 0].flush()
    directory.checkpoint()
    directory.logs["t", 0].truncate_to(10)
    directory.delete_log("u", 0)
    directory.create_log("u", 0, topic_id=b"j" * 16, config=LogConfig())
    put(directory.logs["u", 0], b"new")
    directory.abandon()
    for keep in (True, False):
        if not keep:  # a reboot: only checkpoints count
            (tmp_path / ".ottla-live-ends").unlink()
        directory = opened(tmp_path)
        assert directory.offline_logs == {}
        assert len(values(directory)) == 10
        assert values(directory, "u") == [b"new"]
        directory.abandon()


def test_a_link_to_nowhere_takes_one_partition_offline(tmp_path):
    directory = filled(tmp_path)
    directory.close()
    (tmp_path / "gone-0").symlink_to(tmp_path / "nowhere")
    directory = opened(tmp_path)
    assert "link to nowhere" in directory.offline_logs["gone", 0]
    with pytest.raises(KafkaError, match="link to nowhere"):
        directory.create_log("gone", 0, topic_id=b"i" * 16, config=LogConfig())
    assert len(values(directory)) == 60
    directory.abandon()


def test_kafka_may_have_changed_everything(tmp_path):
    """A log that Apache Kafka has changed in the meantime is opened without Ottla's outdated metadata."""
    directory = filled(tmp_path)
    directory.close()
    shutil.rmtree(tmp_path / "t-0")
    log = open_log(tmp_path)  # a shorter log of the same name
    put(log, b"kafka's")
    log.close()
    (tmp_path / "t-0/ottla-segments").write_text("0\n1\nsegment 0 sealed 99999\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    directory = opened(tmp_path)
    assert values(directory) == [b"kafka's"]
    directory.abandon()


@pytest.mark.parametrize("bit", [0, 4, 7])
@pytest.mark.parametrize("last", [0, 6])
def test_the_last_batch_of_a_segment_with_an_offset_beyond_the_segment_is_not_served(tmp_path, last, bit):
    """The checksum does not cover the offset, and no batch behind it contradicts it."""
    log = open_log(tmp_path, **CONFIG)
    positions = {}
    for offset in (0, 2, 4, 6, 8):  # a segment with one batch, one with three, and the active one
        if offset in (2, 8):
            log.roll()
        positions[offset] = log.active.path, log.active.size
        put(log, b"a", b"b")
    log.close()
    path, position = positions[last]
    flip(Path(path), position + 5, bit)
    log = reopened(tmp_path, end=10)
    with pytest.raises(CorruptSegmentError):
        log.read(last, 10_000, upto=10, min_one=True)
    if last:
        region = log.read(2, 10_000, upto=10, min_one=True)
        assert [header.base_offset for header in headers(region.read())] == [2, 4]
    assert headers(log.read(8, 10_000, upto=10, min_one=True).read())[0].base_offset == 8
    log.abandon()
