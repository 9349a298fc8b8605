"""A log copied to remote storage is read back like the log itself."""

from __future__ import annotations

import random
import threading

import pytest

from ottla.log.remote.chunk_cache import ChunkCache
from ottla.log.remote.objects import RemoteSegmentError, object_key
from ottla.log.remote.segment_copy import copy_segment, delete_segment
from ottla.log.remote.segment_reader import SegmentReader
from ottla.log.remote.storage import DirectoryStorage, ObjectNotFound
from ottla.protocol.records import build_marker, read_records
from tests.log.batches import NOW, batch, open_log, put

from .segments import sealed

CHUNK = 4096


class Counted(DirectoryStorage):
    def __init__(self, root):
        super().__init__(root)
        self.gets = []

    def get(self, key, position, size):
        self.gets.append((key.rpartition(".")[2], position))
        return super().get(key, position, size)


@pytest.fixture
def storage(tmp_path):
    return Counted(str(tmp_path / "remote"))


@pytest.fixture
def cache(tmp_path):
    return ChunkCache(tmp_path / "cache", 1 << 20)


@pytest.fixture
def reader(storage, cache):
    return SegmentReader(storage, cache, CHUNK)


@pytest.fixture
def log(tmp_path):
    log = open_log(tmp_path, index_interval_bytes=200)
    rng = random.Random(5)
    for number in range(300):
        values = [b"%d-" % number + rng.randbytes(rng.randrange(60)) for _ in range(rng.randrange(1, 5))]
        put(log, *values, epoch=number // 100, timestamp=NOW + number * 10)
    log.roll()
    return log


def local(log, offset, size=1 << 20):
    region = log.read(offset, size, upto=log.log_end_offset, min_one=True)
    return region.read()


def test_every_offset_reads_as_it_does_locally(log, storage, reader):
    segment, files = sealed(log)
    copy_segment(storage, segment, files)
    for offset in range(log.log_end_offset):
        for size in (1, 700):
            found = reader.read(segment, offset, size)
            assert found is not None
            assert found.data == local(log, offset, size)
    assert reader.read(segment, log.log_end_offset, 1) is None
    everything = reader.read(segment, 0, 1 << 20)
    assert everything.data == local(log, 0)
    assert everything.next_offset == log.log_end_offset


def test_a_limit_cuts_between_batches(log, storage, reader):
    segment, files = sealed(log)
    copy_segment(storage, segment, files)
    for limit in range(1, log.log_end_offset, 7):
        found = reader.read(segment, 0, 1 << 20, limit)
        last = -1 if found is None else [header.last_offset for header, _ in read_records(found.data)][-1]
        assert last < limit
        assert found is None or found.next_offset == last + 1


def test_times_are_found_as_they_are_locally(log, storage, reader):
    segment, files = sealed(log)
    copy_segment(storage, segment, files)
    end = log.log_end_offset
    for timestamp in [0, *range(NOW - 5, NOW + 3010, 5)]:
        expected = log.offset_for_timestamp(timestamp, end)
        assert reader.offset_for_timestamp(segment, timestamp, 0, end) == expected
    assert reader.offset_for_timestamp(segment, NOW, 500, end)[0] == 500
    assert reader.offset_for_timestamp(segment, NOW, 500, 400) is None


def test_state_of_the_log_comes_along(log, storage, reader):
    put(log, b"x", producer_id=9, producer_epoch=0, base_sequence=0, epoch=4)
    log.roll()
    segment, files = sealed(log, 1)
    copy_segment(storage, segment, files)
    assert reader.leader_epochs(segment) == log.epochs.entries
    assert reader.producer_snapshot(segment) == files.producer_snapshot
    assert len(files.producer_snapshot) > 50  # one producer


def test_aborted_transactions_come_along(tmp_path, storage, reader):
    log = open_log(tmp_path / "transactions")
    for number, commit in enumerate([True, False, False]):
        log.append(
            batch(b"x", producer_id=number, producer_epoch=0, base_sequence=0, transactional=True),
            leader_epoch=0,
            now_ms=NOW,
        )
        log.append_marker(
            number, 0, commit=commit, coordinator_epoch=0, transaction_version=1, leader_epoch=0, now_ms=NOW
        )
    log.roll()
    segment, files = sealed(log)
    copy_segment(storage, segment, files)
    assert segment.has_transaction_index
    assert reader.aborted_transactions(segment) == log.segments[0].transaction_index.entries
    assert [each.producer_id for each in reader.aborted_transactions(segment)] == [1, 2]
    assert build_marker  # the log writes markers itself


def test_chunks_are_fetched_once_and_the_next_one_in_advance(log, storage, cache):
    segment, files = sealed(log)
    copy_segment(storage, segment, files)
    assert segment.size > 3 * CHUNK
    waiting = []
    reader = SegmentReader(storage, cache, CHUNK, waiting.append)
    reader.read(segment, 0, 100)
    assert [position for kind, position in storage.gets if kind == "log"] == [0]
    assert len(waiting) == 1
    waiting.pop()()
    assert [position for kind, position in storage.gets if kind == "log"] == [0, CHUNK]
    before = len(storage.gets)
    reader.read(segment, 0, 2 * CHUNK - 200)
    reader.read(segment, 0, 100)
    assert len(storage.gets) == before


def test_the_cache_stays_within_its_size(log, storage, tmp_path):
    segment, files = sealed(log)
    copy_segment(storage, segment, files)
    cache = ChunkCache(tmp_path / "small", 3 * CHUNK)
    reader = SegmentReader(storage, cache, CHUNK)
    for offset in range(0, log.log_end_offset, 20):
        assert reader.read(segment, offset, 500).data == local(log, offset, 500)
        on_disk = sum(each.stat().st_size for each in (tmp_path / "small").iterdir())
        assert on_disk == cache.size <= 3 * CHUNK


def test_without_room_for_a_cache_everything_is_still_read(log, storage, tmp_path):
    segment, files = sealed(log)
    copy_segment(storage, segment, files)
    (tmp_path / "in-the-way").write_text("")
    reader = SegmentReader(storage, ChunkCache(tmp_path / "in-the-way" / "cache", 1 << 20), CHUNK)
    assert reader.read(segment, 0, 1 << 20).data == local(log, 0)


def test_readers_of_a_missing_chunk_share_one_download(tmp_path):
    cache = ChunkCache(tmp_path / "cache", 1 << 20)
    inside, go_on, calls, results = threading.Event(), threading.Event(), [], []

    def load():
        calls.append(1)
        inside.set()
        assert go_on.wait(10)
        return b"data"

    threads = [threading.Thread(target=lambda: results.append(cache.get("x", load))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert inside.wait(10)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert results == [b"data"] * 4
    assert len(calls) == 1


def test_a_failed_download_is_tried_again(tmp_path):
    cache = ChunkCache(tmp_path / "cache", 1 << 20)

    def fail():
        raise ObjectNotFound("gone")

    with pytest.raises(ObjectNotFound):
        cache.get("x", fail)
    assert cache.get("x", lambda: b"there") == b"there"


def test_damage_is_reported_and_not_served(log, storage, reader, tmp_path):
    segment, files = sealed(log)
    copy_segment(storage, segment, files)
    path = tmp_path / "remote" / object_key(segment, "log")
    good = path.read_bytes()
    path.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    with pytest.raises(RemoteSegmentError, match=r"\.log is damaged at byte 0"):
        reader.read(segment, 0, 1 << 20)
    path.write_bytes(good)
    assert reader.read(segment, 0, 1 << 20).data == good  # the damaged chunk is not cached


def test_a_deleted_segment_leaves_no_objects(log, storage, tmp_path):
    segment, files = sealed(log)
    copy_segment(storage, segment, files)
    delete_segment(storage, segment)
    delete_segment(storage, segment)
    assert not any(each.is_file() for each in (tmp_path / "remote").rglob("*"))
