"""Logs written by a mirror link, and their state after the topic's promotion."""

from __future__ import annotations

import pytest

from ottla.log.config import LogConfig
from ottla.protocol.errors import ErrorCode, KafkaError

from .batches import NOW, batch, open_log, put

MIRROR = LogConfig(ottla_mirror_link="dr")


def mirrored(log, offset: int, epoch: int = 0, **fields):
    return log.append_mirrored(bytes(batch(base_offset=offset, partition_leader_epoch=epoch, **fields)))


def test_nothing_else_is_appended(tmp_path):
    log = open_log(tmp_path)
    log.config = MIRROR
    with pytest.raises(KafkaError, match="Cannot append records to read-only mirror topic 't'") as error:
        put(log)
    assert error.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError, match="read-only"):
        log.append_marker(
            7, 0, commit=True, coordinator_epoch=0, transaction_version=0, leader_epoch=0, now_ms=NOW
        )
    assert log.log_end_offset == 0


def test_nothing_is_deleted_by_age(tmp_path):
    log = open_log(tmp_path)
    log.config = LogConfig(ottla_mirror_link="dr", retention_ms=1)
    mirrored(log, 0)
    assert log.delete_old_segments(NOW + 10**9, 1) == 0
    log.config = LogConfig(retention_ms=1)
    assert log.delete_old_segments(NOW + 10**9, 1) == 1


def test_epochs_are_those_of_the_batches_until_the_leader_writes_itself(tmp_path):
    log = open_log(tmp_path)
    log.config = MIRROR
    mirrored(log, 0, epoch=3)
    log.start_epoch(9)  # another leader, without records
    mirrored(log, 1, epoch=3)
    mirrored(log, 5, epoch=4)  # after a gap
    assert log.epochs.entries == [(3, 0), (4, 5)]
    # A replica that led in epoch 9 asks for that epoch and has no records of it that this log lacks.
    assert log.epoch_end_offset(9) == (4, 6)
    log.start_epoch(9)
    log.config = LogConfig(ottla_mirror_promoted="0:6")
    put(log, epoch=9)
    assert log.epochs.entries == [(3, 0), (4, 5), (9, 6)]
    with pytest.raises(KafkaError, match="has records of leader epoch 9"):
        mirrored(log, 7, epoch=4)


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_producer_with_the_id_of_one_of_the_source_is_another(tmp_path, epoch):
    log = open_log(tmp_path)
    log.config = MIRROR
    mirrored(log, 0, producer_id=7, producer_epoch=2, base_sequence=0)
    log.config = LogConfig(ottla_mirror_promoted="0:1")
    info = put(log, producer_id=7, producer_epoch=epoch, base_sequence=0, epoch=1)
    assert (info.first_offset, info.duplicate) == (1, False)
    # From now on the producer is known, and a retry is recognised.
    assert put(log, producer_id=7, producer_epoch=epoch, base_sequence=0, epoch=1).duplicate


def test_a_first_batch_is_no_repetition_of_one_of_the_source(tmp_path):
    log = open_log(tmp_path)
    log.config = MIRROR
    mirrored(log, 0, producer_id=7, producer_epoch=0, base_sequence=0)
    log.config = LogConfig(ottla_mirror_promoted="0:1")
    info = put(log, producer_id=7, producer_epoch=0, base_sequence=0, epoch=1)
    assert (info.first_offset, info.duplicate) == (1, False)


def test_a_transaction_of_the_source_that_is_open_stays_open_until_its_marker(tmp_path):
    log = open_log(tmp_path)
    log.config = MIRROR
    mirrored(log, 0, producer_id=7, producer_epoch=2, base_sequence=0, transactional=True)
    log.config = LogConfig(ottla_mirror_promoted="0:1")
    with pytest.raises(KafkaError) as error:
        put(log, producer_id=7, producer_epoch=0, base_sequence=0, epoch=1)
    assert error.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    log.append_marker(
        7, 2, commit=False, coordinator_epoch=0, transaction_version=0, leader_epoch=1, now_ms=NOW
    )
    assert log.producers.first_unstable_offset(2) is None
