"""The future replica in another directory replaces the log, whatever happened to the log in the meantime."""

from __future__ import annotations

import random

import pytest

from ottla.log.config import LogConfig
from ottla.log.future_log import align, copy, future_name, inherit, parse_future_name, settle_copies
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog

from .batches import NOW, open_log, put, records_of

CONFIG = {"segment_bytes": 700, "index_interval_bytes": 150}


def write(log: PartitionLog, count: int, epoch: int = 0) -> None:
    for number in range(count):
        put(log, b"%d/%d" % (epoch, number), b"x" * 20, epoch=epoch, timestamp=NOW + number)


def catch_up(future: PartitionLog, log: PartitionLog, size: int = 400) -> None:
    while future.log_end_offset < log.log_end_offset:
        region = log.read(future.log_end_offset, size, upto=log.log_end_offset, min_one=True)
        if region.size:
            copy(region, future)
        else:
            future.skip_to(log.log_end_offset)


def check_same(future: PartitionLog, log: PartitionLog) -> None:
    assert (future.log_start_offset, future.log_end_offset) == (log.log_start_offset, log.log_end_offset)
    assert records_of(future, log.log_start_offset) == records_of(log, log.log_start_offset)
    assert future.epochs.entries == log.epochs.entries


@pytest.fixture
def pair(tmp_path):
    return open_log(tmp_path / "log", **CONFIG), open_log(tmp_path / "future", **CONFIG)


def test_a_copy_has_everything(pair):
    log, future = pair
    write(log, 40)
    catch_up(future, log)
    log.start_epoch(3)  # an epoch without records yet
    inherit(future, log, 0)
    check_same(future, log)


def test_what_another_leader_cut_off_is_cut_off_the_copy(pair):
    log, future = pair
    write(log, 10, epoch=1)
    write(log, 10, epoch=2)
    catch_up(future, log)
    log.truncate_to(30)
    write(log, 20, epoch=3)
    align(future, log)
    assert future.log_end_offset == 30
    catch_up(future, log)
    inherit(future, log, 0)
    check_same(future, log)


def test_what_is_known_to_no_common_leader_is_copied_anew(pair):
    log, future = pair
    write(log, 10, epoch=1)
    catch_up(future, log)
    log.truncate_fully_and_start_at(5)
    write(log, 10, epoch=4)
    align(future, log)
    catch_up(future, log)
    inherit(future, log, 0)
    check_same(future, log)


def test_what_was_deleted_is_not_copied(pair):
    log, future = pair
    write(log, 20)
    log.advance_log_start_offset(13)  # in the middle of a batch
    align(future, log)
    catch_up(future, log)
    inherit(future, log, 0)
    check_same(future, log)
    log.advance_log_start_offset(40)
    write(log, 5)
    align(future, log)
    catch_up(future, log)
    inherit(future, log, 0)
    check_same(future, log)


def test_a_gap_at_the_end_is_skipped(pair):
    log, future = pair
    write(log, 10)
    log.skip_to(100)
    catch_up(future, log)
    assert future.log_end_offset == 100
    write(log, 3)
    catch_up(future, log)
    assert [offset for offset, _ in records_of(future, 100)] == list(range(100, 106))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_to_the_log_the_copy_becomes_the_same(tmp_path, seed):
    choose = random.Random(seed)
    log, future = open_log(tmp_path / "log", **CONFIG), open_log(tmp_path / "future", **CONFIG)
    epoch, truncations = 0, log.truncations
    for _ in range(60):
        step = choose.randrange(10)
        if step < 5:
            write(log, choose.randrange(1, 6), epoch)
        elif step == 5:
            epoch += 1
            log.start_epoch(epoch)
        elif step == 6:
            log.truncate_to(choose.randint(log.log_start_offset, log.log_end_offset))
            epoch += 1
        elif step == 7:
            log.advance_log_start_offset(choose.randint(log.log_start_offset, log.log_end_offset))
        if truncations != log.truncations or future.log_end_offset < log.log_start_offset:
            truncations = log.truncations
            align(future, log)
        if choose.random() < 0.7 and future.log_end_offset < log.log_end_offset:
            region = log.read(future.log_end_offset, 300, upto=log.log_end_offset, min_one=True)
            copy(region, future)
    catch_up(future, log)
    inherit(future, log, 0)
    check_same(future, log)
    (tmp_path / "renamed").mkdir()
    future.rename(str(tmp_path / "renamed" / "t-0"))
    write(future, 3, epoch)
    future.close()
    again = open_log(tmp_path / "renamed", **CONFIG)
    assert again.log_end_offset == log.log_end_offset + 6


def test_names_of_copies():
    assert parse_future_name(future_name("my-topic.v1", 12)) == ("my-topic.v1", 12)
    for name in ("t-0", "t-0-future", "t-0.abc-future", "t-0." + "0" * 32 + "-delete"):
        assert parse_future_name(name) is None


def loaded(path) -> LogDirectory:
    directory = LogDirectory.open(path)
    directory.load_logs(lambda topic: LogConfig(**CONFIG))
    return directory


def test_a_directory_lets_its_copy_take_the_place_of_a_log_elsewhere(tmp_path):
    a, b = loaded(tmp_path / "a"), loaded(tmp_path / "b")
    topic_id = bytes(range(16))
    log = a.create_log("t", 0, topic_id=topic_id, config=LogConfig(**CONFIG))
    write(log, 20)
    reading = log.read(0, 300, upto=40, min_one=True)
    future = b.create_future("t", 0, topic_id=topic_id, config=LogConfig(**CONFIG), start_offset=0)
    catch_up(future, log)
    inherit(future, log, 0)
    assert b.replace_current_with_future("t", 0, a) is future
    assert (list(a.logs), list(b.logs), list(b.future_logs)) == ([], [("t", 0)], [])
    assert len(reading.read()) == reading.size
    assert records_of(log) == records_of(future), "who reads the old log reads it to its end"
    a.remove_deleted(0)
    assert not list((tmp_path / "a").glob("t-0*"))
    write(future, 1)
    a.close()
    b.close()
    b = loaded(tmp_path / "b")
    assert b.logs["t", 0].log_end_offset == 42
    assert b.logs["t", 0].topic_id == topic_id
    b.close()


def test_after_a_crash_the_longer_log_is_kept_and_a_copy_of_nothing_is_thrown_away(tmp_path):
    a, b = loaded(tmp_path / "a"), loaded(tmp_path / "b")
    for directory, count in ((a, 5), (b, 7)):
        log = directory.create_log("t", 0, topic_id=bytes(range(16)), config=LogConfig(**CONFIG))
        write(log, count)
    b.create_future("u", 0, topic_id=bytes(range(16)), config=LogConfig(**CONFIG), start_offset=0)
    for directory in (a, b):
        directory.abandon()
    a, b = loaded(tmp_path / "a"), loaded(tmp_path / "b")
    assert list(b.future_logs) == [("u", 0)]
    settle_copies([a, b])
    assert (list(a.logs), list(b.logs), list(b.future_logs)) == ([], [("t", 0)], [])
    assert b.logs["t", 0].log_end_offset == 14
    for directory in (a, b):
        directory.close()


def test_of_two_logs_the_one_of_the_later_leader_is_kept_even_if_it_is_shorter(tmp_path):
    a, b = loaded(tmp_path / "a"), loaded(tmp_path / "b")
    for directory, count, epoch in ((a, 5, 3), (b, 7, 2)):
        log = directory.create_log("t", 0, topic_id=bytes(range(16)), config=LogConfig(**CONFIG))
        log.start_epoch(epoch, 0)
        write(log, count, epoch)
    settle_copies([a, b])
    assert (list(a.logs), list(b.logs)) == ([("t", 0)], [])
    for directory in (a, b):
        directory.close()
