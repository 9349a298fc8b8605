"""Commit and abort markers: the control batches that end a transaction in a partition."""

from __future__ import annotations

from struct import Struct

from ottla.protocol.compression import Buffer
from ottla.protocol.records import Record, build_batch, read_batch

ABORT, COMMIT = 0, 1
MARKER_BYTES = 78
_KEY = Struct(">hh")  # version, type
_VALUE = Struct(">hi")  # version, coordinator epoch


def build_marker(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, timestamp: int
) -> bytearray:
    record = Record(
        0, timestamp, _KEY.pack(0, COMMIT if commit else ABORT), _VALUE.pack(0, coordinator_epoch)
    )
    return build_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )


def read_marker(batch: Buffer) -> tuple[int, bool] | None:
    """Return the coordinator epoch and True for an abort.

    None for other control batches and for batches emptied by the cleaner.
    """
    records = read_batch(batch)
    if not records:
        return None
    key, value = records[0].key, records[0].value
    if key is None or value is None or len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    kind = _KEY.unpack_from(key)[1]
    if kind not in (ABORT, COMMIT):
        return None
    return _VALUE.unpack_from(value)[1], kind == ABORT
