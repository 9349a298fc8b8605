"""The log against a list: after any operations in any order, both have the same contents."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import read_records

from .batches import NOW, batch, open_log

CONFIG = {"segment_bytes": 600, "index_interval_bytes": 100, "retention_ms": 1000, "file_delete_delay_ms": 0}


class LogMachine(RuleBasedStateMachine):
    log: PartitionLog

    @initialize()
    def start(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ottla-log-"))
        self.log = open_log(self.path, **CONFIG)
        self.batches: list[tuple[int, list[bytes], int]] = []  # base offset, values, timestamp
        self.start_offset = 0
        self.end_offset = 0
        self.sequence = 0
        self.epoch = 0
        self.clock = NOW

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
            shutil.rmtree(self.path)

    @rule(values=st.lists(st.binary(max_size=150), min_size=1, max_size=3), step=st.integers(0, 400))
    def append(self, values: list[bytes], step: int) -> None:
        self.clock += step
        data = batch(
            *values, timestamp=self.clock, producer_id=1, producer_epoch=0, base_sequence=self.sequence
        )
        info = self.log.append(data, leader_epoch=self.epoch, now_ms=self.clock)
        assert (info.first_offset, info.duplicate) == (self.end_offset, False)
        self.batches.append((self.end_offset, values, self.clock))
        self.end_offset += len(values)
        self.sequence += len(values)

    @rule()
    @precondition(lambda self: self.batches)
    def send_the_last_batch_again(self) -> None:
        base, values, timestamp = self.batches[-1]
        if base + len(values) != self.end_offset:
            return
        sequence = self.sequence - len(values)
        data = batch(*values, timestamp=timestamp, producer_id=1, producer_epoch=0, base_sequence=sequence)
        info = self.log.append(data, leader_epoch=self.epoch, now_ms=self.clock)
        assert (info.first_offset, info.duplicate) == (base, True)

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1
        self.log.start_epoch(self.epoch)

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        start, recovery = self.log.log_start_offset, self.log.recovery_point
        if clean:
            self.log.close()
            recovery = self.log.recovery_point
        else:
            self.log.abandon()
        self.log = open_log(self.path, clean=clean, log_start_offset=start, recovery_point=recovery, **CONFIG)

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        offset = self.start_offset + int((self.end_offset - self.start_offset) * fraction)
        self.log.truncate_to(offset)
        while self.batches and self.batches[-1][0] + len(self.batches[-1][1]) > offset:
            base, values, _ = self.batches.pop()
            self.sequence -= len(values)
            offset = min(offset, base)
        if offset < self.end_offset:
            self.end_offset = offset
            self.start_offset = min(self.start_offset, offset)
            if self.log.describe_producers():
                self.sequence = self.log.describe_producers()[0].last_sequence + 1

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float) -> None:
        self.start_offset += int((self.end_offset - self.start_offset) * fraction)
        self.log.advance_log_start_offset(self.start_offset)

    @rule(step=st.integers(0, 600))
    def apply_retention(self, step: int) -> None:
        self.clock += step
        self.log.delete_old_segments(self.clock, self.end_offset)
        self.log.unlink_deleted(self.clock)
        kept = [b for b in self.batches if b[0] + len(b[1]) > self.log.log_start_offset]
        gone = [b for b in self.batches if self.start_offset < b[0] + len(b[1]) <= self.log.log_start_offset]
        assert all(self.clock - timestamp > 1000 for _, _, timestamp in gone)
        self.batches = kept
        self.start_offset = self.log.log_start_offset

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end_offset

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(
        fraction=st.floats(0, 1), limit=st.floats(0, 1), max_bytes=st.integers(1, 2000), min_one=st.booleans()
    )
    def read(self, fraction: float, limit: float, max_bytes: int, min_one: bool) -> None:
        span = self.end_offset - self.start_offset
        offset, upto = self.start_offset + int(span * fraction), self.start_offset + int(span * limit)
        region = self.log.read(offset, max_bytes, upto=upto, min_one=min_one)
        found = list(read_records(region.read()))
        expected = [b for b in self.batches if b[0] + len(b[1]) > offset and b[0] + len(b[1]) <= upto]
        assert [(h.base_offset, [r.value for r in records]) for h, records in found] == [
            (base, values) for base, values, _ in expected[: len(found)]
        ]
        if min_one and expected and offset < upto:
            assert found
        if not (min_one and len(found) == 1):
            assert region.size <= max_bytes

    @rule(step=st.integers(-2000, 100))
    def look_up_a_time(self, step: int) -> None:
        wanted = self.clock + step
        found = self.log.offset_for_timestamp(wanted, self.end_offset)
        expected = next(
            (
                (max(base, self.start_offset), timestamp)
                for base, values, timestamp in self.batches
                if timestamp >= wanted and base + len(values) > self.start_offset
            ),
            None,
        )
        assert (found and found[:2]) == expected

    @invariant()
    def bounds(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start_offset, self.end_offset)
        assert self.log.recovery_point <= self.end_offset
        starts = [start for _, start in self.log.epochs.entries]
        assert starts == sorted(set(starts))
        for offset in (self.start_offset - 1, self.end_offset + 1):
            with pytest.raises(KafkaError) as error:
                self.log.read(offset, 1, upto=self.end_offset, min_one=True)
            assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


TestLog = LogMachine.TestCase
TestLog.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
