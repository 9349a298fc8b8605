from __future__ import annotations

import random

import pytest

from ottla.protocol.compression import Codec

from .batches import NOW, open_log, timed


def filled(path, *batches, **config):
    log = open_log(path, message_timestamp_after_max_ms=10**9, **config)
    for number, timestamps in enumerate(batches):
        log.append(timed(*timestamps, codec=Codec.NONE), leader_epoch=number, now_ms=NOW)
    return log


def test_the_first_record_that_is_not_older_is_found(tmp_path):
    log = filled(tmp_path, (10, 20, 15), (30,), (25, 40))
    found = {ts: log.offset_for_timestamp(ts, 6) for ts in (0, 10, 11, 20, 21, 30, 31, 40)}
    assert found == {
        0: (0, 10, 0), 10: (0, 10, 0), 11: (1, 20, 0), 20: (1, 20, 0),
        21: (3, 30, 1), 30: (3, 30, 1), 31: (5, 40, 2), 40: (5, 40, 2),
    }  # fmt: skip
    assert log.offset_for_timestamp(41, 6) is None


def test_nothing_at_or_above_the_bound_is_found(tmp_path):
    log = filled(tmp_path, (10,), (20,))
    assert log.offset_for_timestamp(15, 1) is None
    assert log.offset_for_timestamp(5, 0) is None


def test_the_log_start_offset_is_respected_inside_a_batch(tmp_path):
    log = filled(tmp_path, (10, 50, 30, 40))
    log.advance_log_start_offset(2)
    assert log.offset_for_timestamp(0, 4) == (2, 30, 0)
    assert log.offset_for_timestamp(35, 4) == (3, 40, 0)


def test_the_record_with_the_largest_timestamp(tmp_path):
    log = filled(tmp_path, (10, 50), (50, 60, 60), (30,))
    assert log.max_timestamp_offset() == (3, 60, 1)
    assert filled(tmp_path / "empty").max_timestamp_offset() is None
    assert filled(tmp_path / "without", (-1,)).max_timestamp_offset() is None


def test_with_log_append_time_the_first_record_of_the_batch_answers(tmp_path):
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    for number in range(3):
        log.append(timed(1, 2, 3), leader_epoch=0, now_ms=NOW + number)
    assert log.max_timestamp_offset() == (6, NOW + 2, 0)
    assert log.offset_for_timestamp(NOW + 1, 9) == (3, NOW + 1, 0)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("clean", [None, True, False])
def test_lookups_agree_with_a_search_through_everything(tmp_path, seed, clean):
    choice = random.Random(seed)
    batches = [
        [choice.randrange(1000) + number * 10 for _ in range(choice.randrange(1, 5))] for number in range(80)
    ]
    config = {"segment_bytes": 2000, "index_interval_bytes": 200}
    log = filled(tmp_path, *batches, **config)
    times = [timestamp for timestamps in batches for timestamp in timestamps]
    if clean is not None:
        log.close() if clean else log.abandon()
        log = open_log(tmp_path, clean=clean, recovery_point=len(times) if clean else 0, **config)
    assert len(log.segments) > 3
    for timestamp in [*range(0, 2000, 37), *choice.sample(times, 20)]:
        expected = next(((o, t) for o, t in enumerate(times) if t >= timestamp), None)
        found = log.offset_for_timestamp(timestamp, len(times))
        assert (found and found[:2]) == expected
    found = log.max_timestamp_offset()
    assert found is not None
    assert found[:2] == (times.index(max(times)), max(times))
