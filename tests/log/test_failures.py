"""Disk errors: the append fails with KAFKA_STORAGE_ERROR and leaves the log unchanged."""

from __future__ import annotations

import errno
import os

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError

from .batches import NOW, batch, open_log, put, records_of


class Disk:
    """Sits between the log and os.write: writes at most N bytes, then fails."""

    def __init__(self, monkeypatch, *, room: int, error: int = errno.ENOSPC, most: int = 1 << 30) -> None:
        self._write = os.write
        self._room = room
        self._error = error
        self._most = most
        monkeypatch.setattr("ottla.log.segments.segment.os.write", self)

    def __call__(self, fd: int, data: bytes) -> int:
        count = min(len(data), self._room, self._most)
        if not count:
            raise OSError(self._error, os.strerror(self._error))
        self._room -= count
        return self._write(fd, data[:count])


@pytest.mark.parametrize("room", [0, 1, 50, 170, 171])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_append_leaves_no_trace(tmp_path, monkeypatch, room, error):
    log = open_log(tmp_path)
    put(log, b"first", producer_id=1, producer_epoch=0, base_sequence=0)
    size = log.size
    with monkeypatch.context() as patch:
        Disk(patch, room=room, error=error)
        with pytest.raises(KafkaError) as failure:
            put(log, b"x" * 120, producer_id=1, producer_epoch=0, base_sequence=1)
    assert failure.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert str(log.path) in str(failure.value)
    assert os.path.getsize(log.active.path) == log.size == size
    assert put(log, b"second", producer_id=1, producer_epoch=0, base_sequence=1).first_offset == 1
    assert records_of(log) == [(0, b"first"), (1, b"second")]
    log.abandon()
    assert records_of(open_log(tmp_path)) == [(0, b"first"), (1, b"second")]


def test_what_follows_a_refused_batch_is_refused_alike_and_not_called_out_of_order(tmp_path, monkeypatch):
    log = open_log(tmp_path)

    def send(sequence: int) -> ErrorCode:
        try:
            put(log, b"x" * 120, producer_id=1, producer_epoch=0, base_sequence=sequence)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    assert send(0) == ErrorCode.NONE
    with monkeypatch.context() as patch:
        Disk(patch, room=0)
        assert [send(1), send(2), send(3)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert send(2) == ErrorCode.KAFKA_STORAGE_ERROR, "the one before it has to come first"
    assert [send(0), send(1), send(2)] == [ErrorCode.NONE] * 3
    assert send(9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [offset for offset, _ in records_of(log)] == [0, 1, 2]


def test_a_failed_follower_append_leaves_no_trace(tmp_path, monkeypatch):
    log = open_log(tmp_path)
    data = bytes(batch(b"a", base_offset=0) + batch(b"b", base_offset=1))
    with monkeypatch.context() as patch:
        Disk(patch, room=100)
        with pytest.raises(KafkaError):
            log.append_as_follower(data)
    assert (log.log_end_offset, log.size) == (0, 0)
    log.append_as_follower(data)
    assert records_of(log) == [(0, b"a"), (1, b"b")]


def test_short_writes_are_continued(tmp_path, monkeypatch):
    log = open_log(tmp_path)
    with monkeypatch.context() as patch:
        Disk(patch, room=1 << 30, most=7)
        put(log, b"a" * 100)
    assert records_of(log) == [(0, b"a" * 100)]


def test_if_the_undo_fails_too_the_log_takes_no_more_appends(tmp_path, monkeypatch):
    log = open_log(tmp_path)
    put(log, b"first")

    def no_truncate(fd, size):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        Disk(patch, room=50)
        patch.setattr("ottla.log.segments.segment.os.ftruncate", no_truncate)
        with pytest.raises(KafkaError):
            put(log)
    with pytest.raises(KafkaError, match="takes no appends") as failure:
        put(log)
    assert failure.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert records_of(log) == [(0, b"first")]
    log.close()
    assert records_of(open_log(tmp_path)) == [(0, b"first")]


def test_a_roll_that_fails_can_be_tried_again(tmp_path, monkeypatch):
    log = open_log(tmp_path, segment_bytes=300)
    put(log, b"x" * 200)

    def no_file(path, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ottla.log.segments.open_files.SegmentFile", no_file)
        with pytest.raises(KafkaError) as failure:
            put(log, b"y" * 200)
    assert failure.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    put(log, b"z" * 200)
    assert records_of(log) == [(0, b"x" * 200), (1, b"z" * 200)]
    assert len(log.segments) == 2


def test_index_entries_that_cannot_be_written_do_not_fail_the_append(tmp_path, monkeypatch):
    log = open_log(tmp_path, index_interval_bytes=0)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ottla.log.segments.index._write_at", full)
        for _ in range(200):
            put(log)
    log.close()
    assert (log.path / "00000000000000000000.index").stat().st_size == 199 * 8


def test_after_a_failed_fsync_nothing_is_acknowledged_any_more(tmp_path, monkeypatch):
    log = open_log(tmp_path, flush_messages=2)
    put(log)

    def no_sync(fd):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", no_sync)
        with pytest.raises(KafkaError) as failure:
            put(log)
    assert failure.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError):
        put(log)


def test_flush_messages_and_flush_ms(tmp_path, monkeypatch):
    log = open_log(tmp_path, flush_messages=3, flush_ms=1000)
    points = []
    for _ in range(7):
        put(log)
        points.append(log.recovery_point)
    assert points == [0, 0, 3, 3, 3, 6, 6]
    assert not log.flush_due(log.last_flush_ms + 999)
    assert log.flush_due(log.last_flush_ms + 1000)
    log.flush()
    assert not log.flush_due(NOW * 2)


def test_a_sealed_segment_is_due_for_a_flush(tmp_path):
    log = open_log(tmp_path)
    put(log)
    assert not log.flush_due(NOW)
    log.roll()
    put(log)
    assert log.flush_due(NOW)
    log.flush(log.active.base_offset)
    assert (log.recovery_point, log.flush_due(NOW)) == (1, False)


def test_a_closed_log_answers_with_an_error(tmp_path):
    log = open_log(tmp_path)
    put(log)
    log.close()
    with pytest.raises(KafkaError) as failure:
        put(log)
    assert failure.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_deleted_log_is_gone(tmp_path):
    log = open_log(tmp_path)
    put(log)
    log.delete()
    assert not log.path.exists()
