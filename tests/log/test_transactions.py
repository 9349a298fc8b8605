"""Transactions in a partition: the last stable offset and aborted records survive crashes and truncations."""

from __future__ import annotations

import shutil
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import read_marker, read_records

from .batches import NOW, batch, headers, open_log, put

SEGMENT = "00000000000000000000.log"
INDEX = "00000000000000000000.txnindex"


def stable(log, high_watermark=None):
    high_watermark = log.log_end_offset if high_watermark is None else high_watermark
    first = log.producers.first_unstable_offset(high_watermark)
    return high_watermark if first is None else first


def write(log, producer_id, value=b"v", epoch=0):
    entry = log.producers.producers.get(producer_id)
    sequence = 0 if entry is None or entry.epoch != epoch else entry.last_sequence + 1
    return put(
        log, value, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    ).first_offset


def end(log, producer_id, *, commit, epoch=0, coordinator_epoch=0, version=0):
    return log.append_marker(
        producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch, transaction_version=version,
        leader_epoch=0, now_ms=NOW,
    ).first_offset  # fmt: skip


def entries(log):
    return [tuple(entry) for segment in log.segments for entry in segment.transaction_index.entries]


def read_committed(log, start=None, max_bytes=1 << 20):
    """Return the values that a consumer delivers, filtering aborted records like Kafka's."""
    position, upto, values = log.log_start_offset if start is None else start, stable(log), []
    while position < upto:
        region = log.read(position, max_bytes, upto=upto, min_one=True)
        waiting = sorted(log.aborted_transactions(position, region), key=lambda a: a.first_offset)
        aborted_producers = set()
        for header, records in read_records(region.read()):
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted_producers.add(waiting.pop(0).producer_id)
            if header.is_control:
                if read_marker(_bytes_of(log, header))[1]:
                    aborted_producers.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted_producers):
                values += [r.value for r in records if r.offset >= position]
            position = header.next_offset
    return values


def _bytes_of(log, header):
    return log.read(header.base_offset, 1, upto=log.log_end_offset, min_one=True).read()


def test_nothing_behind_an_open_transaction_is_stable(tmp_path):
    log = open_log(tmp_path)
    put(log, b"plain")
    assert stable(log) == 1
    write(log, 7)
    put(log, b"behind")
    write(log, 8)
    assert stable(log) == 1
    end(log, 7, commit=True)
    assert stable(log) == 3
    end(log, 8, commit=False)
    assert stable(log) == log.log_end_offset == 6
    log.close()


def test_a_marker_above_the_high_watermark_decides_nothing_yet(tmp_path):
    log = open_log(tmp_path)
    write(log, 7)
    marker = end(log, 7, commit=True)
    assert stable(log, high_watermark=marker) == 0
    assert stable(log, high_watermark=marker + 1) == marker + 1
    log.close()


def test_the_index_file_is_kafkas(tmp_path):
    log = open_log(tmp_path)
    first = write(log, 7)
    write(log, 8)
    marker = end(log, 7, commit=False)
    assert (log.path / INDEX).read_bytes() == struct.pack(">hqqqq", 0, 7, first, marker, 1)
    end(log, 8, commit=True)
    assert entries(log) == [(7, first, marker, 1)]
    log.close()


def test_markers_without_records_are_not_indexed(tmp_path):
    log = open_log(tmp_path)
    end(log, 7, commit=False)
    assert not (log.path / INDEX).exists()
    assert log.describe_producers()[0].coordinator_epoch == 0
    log.close()


def test_a_late_marker_does_not_end_a_later_transaction(tmp_path):
    """Promise: a delayed commit or abort never reaches the next transaction."""
    log = open_log(tmp_path)
    write(log, 7, epoch=0)
    end(log, 7, commit=True, epoch=1, version=2)
    write(log, 7, epoch=1)
    for late in (0, 1):
        with pytest.raises(KafkaError) as refused:
            end(log, 7, commit=False, epoch=late, version=2)
        assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    end(log, 7, commit=True, epoch=2, version=2)
    repeated = end(log, 7, commit=True, epoch=2, version=2)
    assert stable(log) == repeated + 1
    log.close()


def test_a_zombie_coordinator_is_fenced(tmp_path):
    log = open_log(tmp_path)
    end(log, 7, commit=True, coordinator_epoch=5)
    write(log, 7)
    with pytest.raises(KafkaError) as refused:
        end(log, 7, commit=True, coordinator_epoch=4)
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    log.close()


def test_a_producer_does_not_write_beside_its_own_transaction(tmp_path):
    log = open_log(tmp_path)
    write(log, 7)
    with pytest.raises(KafkaError) as refused:
        put(log, b"beside", producer_id=7, producer_epoch=0, base_sequence=1)
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE
    log.close()


def test_an_older_epoch_is_fenced_once_a_marker_raised_it(tmp_path):
    log = open_log(tmp_path)
    write(log, 7)
    end(log, 7, commit=False, epoch=1, version=2)
    with pytest.raises(KafkaError) as refused:
        write(log, 7, epoch=0)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(log, 7, epoch=1) == 2
    log.close()


def test_open_transactions_survive_a_clean_restart(tmp_path):
    log = open_log(tmp_path)
    put(log, b"plain")
    write(log, 8)
    write(log, 7)
    log.close()
    log = open_log(tmp_path, clean=True, recovery_point=3)
    assert stable(log) == 1
    assert {p.producer_id: p.current_txn_start_offset for p in log.describe_producers()} == {7: 2, 8: 1}
    end(log, 8, commit=False)
    assert entries(log) == [(8, 1, 3, 2)]
    log.close()


def test_a_log_cut_at_any_byte_knows_what_was_aborted_in_what_is_left(tmp_path):
    log = open_log(tmp_path)
    for number in range(3):
        write(log, 7, b"a%d" % number)
        write(log, 8, b"b%d" % number)
        end(log, 7, commit=number == 1)
        end(log, 8, commit=number != 1)
    expected = entries(log)
    log.abandon()
    whole = (log.path / SEGMENT).read_bytes()
    ends = [0]
    for header in headers(whole):
        ends.append(ends[-1] + header.size)
    stale = (log.path / INDEX).read_bytes()
    for cut in range(len(whole) + 1):
        shutil.rmtree(log.path)
        log.path.mkdir()
        (log.path / SEGMENT).write_bytes(whole[:cut])
        (log.path / INDEX).write_bytes(stale)
        recovered = open_log(tmp_path)
        end_offset = sum(e <= cut for e in ends) - 1
        assert recovered.log_end_offset == end_offset
        assert entries(recovered) == [entry for entry in expected if entry[2] < end_offset]
        recovered.abandon()


@pytest.mark.parametrize("damage", [b"\0" * 33, b"\0\1" + b"\0" * 32, struct.pack(">hqqqq", 0, 7, 0, 900, 0)])
def test_a_damaged_index_is_built_again_even_after_a_clean_stop(tmp_path, damage):
    log = open_log(tmp_path)
    write(log, 7)
    end(log, 7, commit=False)
    log.roll()
    write(log, 7)
    end(log, 7, commit=False)
    expected = entries(log)
    log.close()
    with open(log.path / INDEX, "ab") as file:
        file.write(damage)
    log = open_log(tmp_path, clean=True, recovery_point=4)
    assert entries(log) == expected
    log.close()


def test_truncation_reopens_a_transaction_and_forgets_that_it_was_aborted(tmp_path):
    log = open_log(tmp_path)
    write(log, 7)
    end(log, 7, commit=False)
    first = write(log, 7)
    end(log, 7, commit=False)
    log.truncate_to(3)
    assert entries(log) == [(7, 0, 1, 2)]
    assert stable(log) == first
    log.truncate_to(1)
    assert entries(log) == []
    assert stable(log) == 0
    log.close()


def test_retention_takes_the_index_with_its_segment(tmp_path):
    log = open_log(tmp_path, retention_ms=1000, file_delete_delay_ms=0)
    write(log, 7)
    end(log, 7, commit=False)
    log.roll()
    write(log, 8)
    log.delete_old_segments(NOW + 10, 3)
    assert (log.path / INDEX).exists()
    log.delete_old_segments(NOW + 2000, 3)
    log.unlink_deleted(NOW + 5000)
    assert not list(log.path.glob("*.txnindex*"))
    log.close()


def test_replicated_markers_do_the_same(tmp_path):
    leader, follower = open_log(tmp_path / "leader"), open_log(tmp_path / "follower")
    write(leader, 7)
    write(leader, 8)
    end(leader, 7, commit=False)
    data = leader.read(0, 1 << 20, upto=3, min_one=True).read()
    follower.append_as_follower(data)
    assert entries(follower) == entries(leader)
    assert stable(follower) == stable(leader) == 1
    leader.close()
    follower.close()


def test_a_transaction_over_several_segments_is_found_from_each(tmp_path):
    log = open_log(tmp_path)
    for number in range(3):
        write(log, 7, b"gone %d" % number)
        put(log, b"kept %d" % number)
        log.roll()
    end(log, 7, commit=False)
    for start in range(6):
        region = log.read(start, 1 << 20, upto=7, min_one=True)
        assert [tuple(a)[:2] for a in log.aborted_transactions(start, region)] == [(7, 0)]
    assert read_committed(log) == [b"kept 0", b"kept 1", b"kept 2"]
    log.close()


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 4)),
        st.tuples(st.just("plain"), st.just(0)),
        st.tuples(st.just("commit"), st.integers(1, 4)),
        st.tuples(st.just("abort"), st.integers(1, 4)),
        st.tuples(st.just("roll"), st.just(0)),
        st.tuples(st.just("crash"), st.integers(0, 400)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("truncate"), st.integers(0, 8)),
    ),
    max_size=40,
)


class Model:
    """Every offset of the log: (producer, value or outcome)."""

    def __init__(self):
        self.log = []

    def stable(self):
        open_since = {}
        for offset, (producer, what) in enumerate(self.log):
            if isinstance(what, bool):
                open_since.pop(producer, None)
            elif producer:
                open_since.setdefault(producer, offset)
        return min(open_since.values(), default=len(self.log))

    def committed(self):
        values = []
        for offset, (producer, what) in enumerate(self.log[: self.stable()]):
            if isinstance(what, bool):
                continue
            outcome = True
            if producer:
                outcome = next(w for p, w in self.log[offset:] if p == producer and isinstance(w, bool))
            if outcome:
                values.append(what)
        return values


@settings(max_examples=150)
@given(actions=ACTIONS, max_bytes=st.sampled_from([1, 200, 1 << 20]))
def test_readers_see_the_committed_records_whatever_happens(tmp_path_factory, actions, max_bytes):
    path = tmp_path_factory.mktemp("log")
    model, log, number = Model(), open_log(path, index_interval_bytes=100), 0
    for action, argument in actions:
        if action == "write":
            number += 1
            write(log, argument, b"%d" % number)
            model.log.append((argument, b"%d" % number))
        elif action == "plain":
            number += 1
            put(log, b"%d" % number)
            model.log.append((0, b"%d" % number))
        elif action in ("commit", "abort"):
            end(log, argument, commit=action == "commit")
            model.log.append((argument, action == "commit"))
        elif action == "roll":
            log.roll()
        elif action == "truncate":
            log.truncate_to(max(0, log.log_end_offset - argument))
            del model.log[log.log_end_offset :]
        elif action == "crash":
            recovery_point = log.recovery_point
            active = log.active.path
            size = log.active.size
            closed = log.manifest.segments.get(log.active.base_offset)
            log.abandon()
            if size:
                with open(active, "r+b") as file:
                    file.truncate(max(0 if closed is None else closed.size, size - argument))
            log = open_log(
                path, index_interval_bytes=100, recovery_point=min(recovery_point, log.active.base_offset)
            )
            del model.log[log.log_end_offset :]
        else:
            log.close()
            log = open_log(path, clean=True, recovery_point=log.log_end_offset, index_interval_bytes=100)
        assert log.log_end_offset == len(model.log)
        assert stable(log) == model.stable()
    assert read_committed(log, max_bytes=max_bytes) == model.committed()
    log.close()


def test_a_batch_of_the_coordinator_needs_no_sequence(tmp_path):
    log = open_log(tmp_path)
    for _ in range(2):
        records = batch(b"offset", producer_id=7, producer_epoch=3, base_sequence=0, transactional=True)
        log.append(records, leader_epoch=0, now_ms=NOW, from_client=False)
    assert stable(log) == 0
    records = batch(b"offset", producer_id=7, producer_epoch=2, base_sequence=0, transactional=True)
    with pytest.raises(KafkaError) as refused:
        log.append(records, leader_epoch=0, now_ms=NOW, from_client=False)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    log.close()
