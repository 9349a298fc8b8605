from __future__ import annotations

import pytest

from ottla.log.producer_state import (
    CorruptSnapshotError,
    ProducerEntry,
    decode_snapshot,
    encode_snapshot,
)
from ottla.protocol.errors import ErrorCode, KafkaError

from .batches import NOW, batch, open_log, put, records_of

SEQUENCE_MAX = 2**31 - 1


def send(log, sequence: int, *values: bytes, epoch: int = 0, producer: int = 7):
    return put(log, *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def refusal(log, sequence: int, *values: bytes, epoch: int = 0) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(KafkaError) as error:
        send(log, sequence, *values, epoch=epoch)
    assert log.log_end_offset == end
    return error.value.code


def test_a_repeated_batch_is_answered_with_its_first_offsets(tmp_path):
    log = open_log(tmp_path)
    send(log, 0, b"a", b"b")
    send(log, 2, b"c")
    again = send(log, 0, b"a", b"b")
    assert (again.first_offset, again.last_offset, again.duplicate) == (0, 1, True)
    assert len(records_of(log)) == 3


def test_the_last_five_batches_are_remembered(tmp_path):
    log = open_log(tmp_path)
    for sequence in range(6):
        send(log, sequence)
    assert [send(log, sequence).first_offset for sequence in range(1, 6)] == [1, 2, 3, 4, 5]
    assert refusal(log, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order(tmp_path):
    log = open_log(tmp_path)
    send(log, 0)
    assert refusal(log, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, 0, b"a", b"b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 1)


def test_an_unknown_producer_may_start_anywhere(tmp_path):
    log = open_log(tmp_path)
    assert send(log, 17).first_offset == 0
    assert refusal(log, 17, b"a", b"b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_at_zero(tmp_path):
    log = open_log(tmp_path)
    send(log, 0, epoch=3)
    assert refusal(log, 1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(log, 1, epoch=4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 0, epoch=4).first_offset == 1
    assert send(log, 1, epoch=4).first_offset == 2


def test_sequences_wrap_around(tmp_path):
    log = open_log(tmp_path)
    send(log, SEQUENCE_MAX - 1, b"a", b"b", b"c")
    assert send(log, 1).first_offset == 3
    assert send(log, SEQUENCE_MAX - 1, b"a", b"b", b"c").duplicate
    log = open_log(tmp_path / "other")
    send(log, SEQUENCE_MAX)
    assert not send(log, 0).duplicate


def test_producers_do_not_disturb_each_other(tmp_path):
    log = open_log(tmp_path)
    send(log, 0, producer=1)
    send(log, 5, producer=2)
    send(log, 1, producer=1)
    put(log)
    assert {p.producer_id: p.last_sequence for p in log.describe_producers()} == {1: 1, 2: 5}


@pytest.mark.parametrize("clean", [True, False])
def test_duplicates_are_recognised_after_a_restart(tmp_path, clean):
    log = open_log(tmp_path)
    for sequence in range(8):
        send(log, sequence)
    log.close() if clean else log.abandon()
    log = open_log(tmp_path, clean=clean, recovery_point=8 if clean else 0)
    assert [send(log, sequence).first_offset for sequence in range(3, 8)] == [3, 4, 5, 6, 7]
    assert not send(log, 8).duplicate


def test_duplicates_are_recognised_across_a_roll_and_a_crash(tmp_path):
    log = open_log(tmp_path)
    for sequence in range(5):
        send(log, sequence)
    log.roll()
    log.abandon()
    log = open_log(tmp_path, recovery_point=5)
    assert all(send(log, sequence).duplicate for sequence in range(5))
    assert send(log, 5).first_offset == 5


def test_expired_producers_are_forgotten(tmp_path):
    log = open_log(tmp_path)
    send(log, 0)
    assert log.remove_expired_producers(NOW + 999, 1000) == 0
    assert log.remove_expired_producers(NOW + 1000, 1000) == 1
    assert send(log, 44).first_offset == 1


def test_a_snapshot_has_kafkas_bytes():
    entry = ProducerEntry(epoch=2)
    entry.batches.append((8, 10, 98, 100, 1234))
    entry.last_timestamp = 1234
    body = bytes.fromhex(
        "00000001"  # one entry
        "0000000000000007 0002 0000000a 0000000000000064 00000002 00000000000004d2 ffffffff ffffffffffffffff"
    )
    from crc32c import crc32c

    assert encode_snapshot({7: entry}) == b"\0\1" + crc32c(body).to_bytes(4, "big") + body
    read = decode_snapshot(encode_snapshot({7: entry}))[7]
    assert (read.epoch, list(read.batches)) == (2, [(8, 10, 98, 100, 1234)])


def test_a_damaged_snapshot_is_noticed():
    good = encode_snapshot({1: ProducerEntry(0)})
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(bytes(bad))
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(good[:at])


def test_a_damaged_snapshot_is_replaced_by_reading_the_log(tmp_path):
    log = open_log(tmp_path)
    send(log, 0)
    log.close()
    (snapshot,) = log.path.glob("*.snapshot")
    snapshot.write_bytes(b"nonsense")
    log = open_log(tmp_path, clean=True, recovery_point=1)
    assert send(log, 0).duplicate
    assert not snapshot.exists()


def test_transaction_markers_pass_through_and_end_the_transaction(tmp_path):
    from ottla.protocol.records import Record, build_batch

    data = batch(producer_id=7, producer_epoch=1, base_sequence=0, transactional=True, base_offset=0)
    marker = build_batch(
        [Record(0, NOW, b"\0\0\0\1", b"\0\0\0\0\0\5")],
        base_offset=1, producer_id=7, producer_epoch=1, control=True, transactional=True,
    )  # fmt: skip
    log = open_log(tmp_path)
    log.append_as_follower(bytes(data))
    assert log.describe_producers()[0].current_txn_start_offset == 0
    log.append_as_follower(bytes(marker))
    expected = (7, 1, 0, NOW, 5, -1)
    assert log.describe_producers() == [expected]
    log.abandon()
    assert open_log(tmp_path).describe_producers() == [expected]
