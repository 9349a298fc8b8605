"""The compiled walk: arrays for the kernels. Only the cleaner process imports it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from ottla.log.cleaner.walk import kernels
from ottla.log.cleaner.walk.walk import Filtered, MalformedRecords, Row, Rules, Scanned
from ottla.protocol.batch_header import BATCH_OVERHEAD
from ottla.protocol.record_format import LEAST_RECORD

#: Hash and offset of a key.
ENTRY_BYTES = 24

_MOST_ROWS = 1 << 14
_FIRST_SLOTS = 1 << 12
_GROWTH = 12  # maximum growth of a record when its timestamp gets another base
_MALFORMED = "a record is not what the format asks for"


class CompiledWalk:
    """Invariant: the map has at least one free slot. It grows with the keys up to `slots`; with few keys it stays small
    enough for the processor's caches. Owner: one job.
    """

    def __init__(self, max_keys: int, slots: int) -> None:
        self._most_slots = max(slots, 16)
        self._slots = np.zeros((min(self._most_slots, _FIRST_SLOTS), 3), np.uint64)
        self._max_keys = min(max_keys, self._most_slots - 1)
        self._k0, self._k1 = np.frombuffer(os.urandom(16), np.uint64)
        self._rows = np.zeros((_MOST_ROWS, kernels.ROW), np.int64)
        self._changed = np.zeros((_MOST_ROWS, 2), np.int64)
        self._state = np.zeros(6, np.int64)
        self._out = np.zeros(0, np.uint8)
        self._kept = np.zeros((0, 5), np.uint64)

    @property
    def keys(self) -> int:
        return int(self._state[kernels.KEYS])

    def scan(self, data: memoryview) -> Scanned:
        n, end, fault = kernels.scan(np.frombuffer(data, np.uint8), self._rows)
        # A faulty batch ends the scan; the batches before it are still returned.
        return Scanned(
            self._rows[:n].tolist(), int(end), "it does not begin with a batch header" if fault else None
        )

    def index(self, data: memoryview, rows: Sequence[Row], skip: bytes, start_offset: int) -> int:
        chunk = np.frombuffer(data, np.uint8)
        table = np.array(rows, np.int64).reshape(-1, kernels.ROW)
        skipped = np.frombuffer(skip, np.uint8)
        taken = 0
        while True:
            is_largest = len(self._slots) == self._most_slots
            taken += int(
                kernels.index(
                    chunk,
                    table[taken:],
                    skipped[taken:],
                    start_offset,
                    self._slots,
                    self._max_keys if is_largest else min(self._max_keys, len(self._slots) // 2),
                    self._k0,
                    self._k1,
                    self._state,
                )
            )
            self._check()
            if taken == len(rows) or self.keys >= self._max_keys:
                return taken
            self._grow()

    def _grow(self) -> None:
        larger = np.zeros((min(self._most_slots, 4 * len(self._slots)), 3), np.uint64)
        kernels.rehash(self._slots, larger)
        self._slots = larger

    def filter(self, data: memoryview, rows: Sequence[Row], modes: bytes, rules: Rules) -> Filtered:
        table = np.array(rows, np.int64).reshape(-1, kernels.ROW)
        most = np.minimum(table[:, 8], (table[:, 1] - BATCH_OVERHEAD) // LEAST_RECORD)
        self._make_room(int(table[:, 1].sum() + _GROWTH * most.sum()), int(most.max(initial=0)), len(table))
        state = self._state
        state[kernels.OUT :] = 0
        kernels.filter_batches(
            np.frombuffer(data, np.uint8),
            table,
            np.frombuffer(modes, np.uint8),
            rules.latest_offset,
            rules.now_ms,
            rules.horizon_ms,
            self._slots,
            self._k0,
            self._k1,
            self._out,
            self._kept,
            self._changed,
            state,
        )
        self._check()
        changed = self._changed[: state[kernels.CHANGED]].tolist()
        out = memoryview(self._out.data)[: state[kernels.OUT]]
        return Filtered(out, changed, int(state[kernels.RECORDS]), int(state[kernels.KEPT]))

    def _make_room(self, size: int, records: int, batches: int) -> None:
        if len(self._out) < size:
            self._out = np.zeros(size, np.uint8)
        if len(self._kept) < records + 1:
            self._kept = np.zeros((records + 1, 5), np.uint64)
        if len(self._changed) < batches:
            self._changed = np.zeros((batches, 2), np.int64)

    def _check(self) -> None:
        if self._state[kernels.FAULT]:
            raise MalformedRecords(_MALFORMED)
