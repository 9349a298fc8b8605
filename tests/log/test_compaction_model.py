"""Compaction against a model: after any writes, cleanings and crashes between file operations, the last value of every
key exists, offsets increase, and removed records stay removed.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.log.cleaner.walk.compiled import CompiledWalk
from ottla.log.cleaner.walk.walk import ReferenceWalk
from ottla.log.partition_log import PartitionLog
from ottla.log.segments.index import TransactionIndex
from ottla.protocol.records import Record, build_batch, read_records

from .batches import NOW, open_log
from .cleaning import clean, crash_after

RETENTION = 1000
CONFIG = {
    "segment_bytes": 900,
    "index_interval_bytes": 200,
    "cleanup_policy": frozenset({"compact"}),
    "delete_retention_ms": RETENTION,
    "file_delete_delay_ms": 0,
}
KEYS = st.sampled_from([b"a", b"b", b"c", b"d" * 20])
VALUES = st.one_of(st.none(), st.binary(max_size=60))
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3)
CODECS = st.integers(0, 4)
TINY_MAP = 8


class CompactionMachine(RuleBasedStateMachine):
    log: PartitionLog

    @initialize()
    def start(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ottla-compaction-"))
        self.log = open_log(self.path, **CONFIG)
        self.clock = NOW
        self.written: dict[int, tuple[bytes, bytes | None]] = {}
        self.last: dict[bytes, int] = {}  # committed records only
        self.aborted: dict[int, range] = {}  # offset of the marker, offsets of the data
        self.gone: set[int] = set()
        self.first_cleaned: dict[int, int] = {}  # time when the cleaner first saw a tombstone
        self.sequences: dict[int, int] = {}

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
            shutil.rmtree(self.path)

    def write(self, records: list[tuple[bytes, bytes | None]], codec: int, **fields: object) -> range:
        data = build_batch(
            [Record(at, self.clock, key, value) for at, (key, value) in enumerate(records)],
            codec=codec,
            **fields,
        )
        first = self.log.append(data, leader_epoch=0, now_ms=self.clock).first_offset
        for at, record in enumerate(records):
            self.written[first + at] = record
        return range(first, first + len(records))

    def committed(self, offsets: range) -> None:
        for offset in offsets:
            self.last[self.written[offset][0]] = offset

    def producer(self, producer_id: int, count: int) -> dict[str, int]:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + count
        return {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}

    @rule(records=RECORDS, codec=CODECS, producer=st.sampled_from([-1, 1, 2]))
    def append(self, records: list[tuple[bytes, bytes | None]], codec: int, producer: int) -> None:
        fields = self.producer(producer, len(records)) if producer >= 0 else {}
        self.committed(self.write(records, codec, **fields))

    @rule(
        batches=st.lists(RECORDS, min_size=1, max_size=3),
        codec=CODECS,
        commit=st.booleans(),
        roll=st.booleans(),
    )
    def transaction(
        self, batches: list[list[tuple[bytes, bytes | None]]], codec: int, commit: bool, roll: bool
    ) -> None:
        ranges = []
        for records in batches:
            ranges.append(self.write(records, codec, transactional=True, **self.producer(7, len(records))))
            if roll:
                self.log.roll()
        offset = self.log.log_end_offset
        marker = build_batch(
            [Record(0, self.clock, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))],
            base_offset=offset,
            partition_leader_epoch=0,
            producer_id=7,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
        self.log.append_as_follower(marker)
        if commit:
            for offsets in ranges:
                self.committed(offsets)
            return
        self.aborted[offset] = range(ranges[0].start, ranges[-1].stop)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(step=st.integers(1, RETENTION))
    def pass_time(self, step: int) -> None:
        self.clock += step

    @rule(compiled=st.booleans(), tiny=st.booleans())
    def clean(self, compiled: bool, tiny: bool) -> None:
        most = TINY_MAP if tiny else 1000
        walk = CompiledWalk(most, 2 * most) if compiled else ReferenceWalk(most)
        self.about_to_clean()
        clean(self.log, self.clock, walk=walk)
        self.log.unlink_deleted(self.clock + 1)

    @rule(operations=st.integers(0, 40), again=st.integers(0, 12))
    @precondition(lambda self: self.written)
    def crash_while_cleaning(self, operations: int, again: int) -> None:
        dirty = self.log.first_dirty_offset
        self.about_to_clean()
        with crash_after(operations):
            clean(self.log, self.clock)
        self.log.abandon()
        with crash_after(again):  # and again while the start cleans up
            open_log(self.path, **CONFIG).abandon()
        self.reopen(dirty)

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.reopen(self.log.first_dirty_offset)

    def reopen(self, dirty: int) -> None:
        self.log = open_log(self.path, **CONFIG)
        self.log.first_dirty_offset = dirty
        names = [path.name for path in self.log.path.iterdir()]
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]

    def about_to_clean(self) -> None:
        """Start the clock of the tombstones visible to this cleaning."""
        for offset in self.last.values():
            if self.written[offset][1] is None and offset < self.log.active.base_offset:
                self.first_cleaned.setdefault(offset, self.clock)

    @invariant()
    def the_log_is_what_it_has_to_be(self) -> None:
        if not hasattr(self, "log"):
            return
        batches = self.read()
        found = [record for header, records in batches if not header.is_control for record in records]
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        for record in found:
            assert self.written[record.offset] == (record.key, record.value)
            assert self.clock >= record.timestamp >= NOW
        there = set(offsets)
        assert not there & self.gone, "records that were gone are back"
        self.gone = self.written.keys() - there
        for key, offset in self.last.items():
            if self.written[offset][1] is not None:
                assert offset in there, f"the last value of {key!r} is lost"
            elif self.clock < self.first_cleaned.get(offset, self.clock) + RETENTION:
                assert offset in there, f"the tombstone of {key!r} is lost too early"
            elif offset not in there:
                assert not [r for r in found if r.key == key and r.offset < offset], (
                    "deleted, but still there"
                )
        self.markers_are_there(batches, there)
        self.sequences_are_known(batches)

    def markers_are_there(self, batches: list, there: set[int]) -> None:
        markers = {header.base_offset for header, records in batches if header.is_control and records}
        indexed = {
            entry
            for segment in self.log.segments
            for entry in TransactionIndex(segment.path.replace(".log", ".txnindex")).entries
        }
        for marker, data in self.aborted.items():
            left = [o for o in data if o in there]
            if left:
                assert marker in markers, "aborted data without its marker"
                assert any(entry.last_offset == marker for entry in indexed), (
                    "aborted data that would be read"
                )

    def sequences_are_known(self, batches: list) -> None:
        """A returning producer is recognised from the log alone."""
        for producer, sequence in self.sequences.items():
            last = [h.last_sequence for h, _ in batches if h.producer_id == producer and not h.is_control]
            assert last
            assert last[-1] == sequence - 1

    def read(self) -> list:
        log, position, batches = self.log, self.log.log_start_offset, []
        while position < log.log_end_offset:
            region = log.read(position, 1 << 20, upto=log.log_end_offset, min_one=True)
            if not region.size:
                break
            for header, records in read_records(region.read()):
                assert header.base_offset >= position
                batches.append((header, records))
                position = header.next_offset
        return batches


QUICK = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


class TestCompaction(CompactionMachine.TestCase):  # type: ignore[misc]
    settings = QUICK


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestCompactionAtLength(CompactionMachine.TestCase):  # type: ignore[misc]
    settings = settings(QUICK, max_examples=1500)
