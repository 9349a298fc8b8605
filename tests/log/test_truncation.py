from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError

from .batches import NOW, batch, open_log, put, records_of

CONFIG = {"segment_bytes": 700, "index_interval_bytes": 150}


def filled(path, count=40):
    log = open_log(path, **CONFIG)
    for number in range(count):
        put(
            log, b"%d" % number, b"x" * 20, epoch=number // 10, timestamp=NOW + number,
            producer_id=1, producer_epoch=0, base_sequence=2 * number,
        )  # fmt: skip
    return log


@pytest.mark.parametrize("offset", [79, 78, 60, 41, 40, 20, 19, 1])
@pytest.mark.parametrize("reopened", [False, True])
def test_truncating_forgets_everything_at_and_above_the_offset(tmp_path, offset, reopened):
    log = filled(tmp_path)
    log.truncate_to(offset)
    end = offset // 2 * 2  # a batch that contains the offset is removed whole
    if reopened:
        log.abandon()
        log = open_log(tmp_path, **CONFIG)
    assert log.log_end_offset == end
    assert [o for o, _ in records_of(log)] == list(range(end))
    assert log.epochs.entries == [(e, 20 * e) for e in range(4) if 20 * e < end]
    assert [p.last_sequence for p in log.describe_producers()] == ([end - 1] if end else [])
    assert all(int(path.stem) <= end for path in log.path.glob("*.snapshot"))
    assert log.max_timestamp_offset() == (
        (end - 2, NOW + end // 2 - 1, (end // 2 - 1) // 10) if end else None
    )
    again = put(log, b"new", epoch=9, producer_id=1, producer_epoch=0, base_sequence=end)
    assert again.first_offset == end
    assert records_of(log, end) == [(end, b"new")]


def test_truncating_at_or_behind_the_end_does_nothing(tmp_path):
    log = filled(tmp_path)
    log.truncate_to(80)
    log.truncate_to(900)
    assert log.log_end_offset == 80


def test_truncating_below_the_first_segment_starts_there(tmp_path):
    log = filled(tmp_path)
    log.advance_log_start_offset(60)
    log.truncate_to(3)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (3, 3, 0)


def test_truncating_below_the_log_start_offset_moves_it(tmp_path):
    log = open_log(tmp_path)
    for _ in range(10):
        put(log)
    log.advance_log_start_offset(8)
    log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


def test_starting_again_elsewhere_forgets_everything(tmp_path):
    log = filled(tmp_path)
    log.truncate_fully_and_start_at(500)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (500, 500, 0)
    assert (log.describe_producers(), log.epochs.entries) == ([], [])
    assert sorted(path.name for path in log.path.glob("*.log")) == ["00000000000000000500.log"]
    assert put(log).first_offset == 500
    log.abandon()
    assert open_log(tmp_path).log_end_offset == 501


def test_a_truncation_during_a_flush_voids_its_result(tmp_path, monkeypatch):
    log = filled(tmp_path)
    sync = log.segments.sync

    def sync_and_truncate(start, end):
        sync(start, end)
        log.truncate_to(10)
        put(log)

    monkeypatch.setattr(log.segments, "sync", sync_and_truncate)
    log.flush()
    assert log.recovery_point <= 10


def test_followers_keep_offsets_and_epochs(tmp_path):
    leader = filled(tmp_path / "leader")
    follower = open_log(tmp_path / "follower", **CONFIG)
    while follower.log_end_offset < 80:
        region = leader.read(follower.log_end_offset, 450, upto=80, min_one=True)
        follower.append_as_follower(region.read())
    assert records_of(follower) == records_of(leader)
    assert follower.epochs.entries == leader.epochs.entries
    assert follower.describe_producers() == leader.describe_producers()


def test_a_follower_takes_many_batches_in_one_write_and_rolls_between_them(tmp_path):
    data = b"".join(
        batch(b"%d" % o, b"y" * 60, base_offset=2 * o, partition_leader_epoch=1) for o in range(50)
    )
    follower = open_log(tmp_path, **CONFIG)
    info = follower.append_as_follower(data + data[:30])
    assert (info.first_offset, info.last_offset) == (0, 99)
    assert len(follower.segments) > 5
    assert all(segment.size <= 700 for segment in follower.segments)
    assert [o for o, _ in records_of(follower)] == list(range(100))
    follower.abandon()
    assert open_log(tmp_path, **CONFIG).log_end_offset == 100


def test_a_follower_accepts_gaps_that_compaction_left(tmp_path):
    follower = open_log(tmp_path)
    follower.append_as_follower(bytes(batch(base_offset=10)))
    follower.append_as_follower(bytes(batch(base_offset=2**33)))
    assert len(follower.segments) == 2
    assert [o for o, _ in records_of(follower)] == [10, 2**33]
    assert [o for o, _ in records_of(follower, 11)] == [2**33]
    follower.abandon()
    assert open_log(tmp_path).log_end_offset == 2**33 + 1


def test_a_follower_refuses_damage_and_offsets_that_go_back(tmp_path):
    follower = open_log(tmp_path)
    follower.append_as_follower(bytes(batch(base_offset=5)))
    damaged = batch(base_offset=6)
    damaged[-1] ^= 1
    for data in (batch(base_offset=5), damaged, batch(base_offset=6) + damaged):
        with pytest.raises(KafkaError) as error:
            follower.append_as_follower(bytes(data))
        assert error.value.code == ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 6
    assert follower.append_as_follower(b"").last_offset == 5
