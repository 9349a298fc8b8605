"""Damage to a log directory and its effect on the logs: thousands of cases, without a broker.

Each case copies a data directory, damages one file, opens it, reads everything, writes more, and opens it again. Show
one case with `python -m tests.faults.log_cases SEED`.
"""

from __future__ import annotations

import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ottla.log.config import LogConfig, LogDirectoryError
from ottla.log.files.checkpoint import TopicPartition
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import Record, build_batch, read_records
from tests.faults.damage import Damage, damage
from tests.log.cleaning import clean

NOW = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=2500, index_interval_bytes=150)
COMPACTED = LogConfig(segment_bytes=2500, index_interval_bytes=150, cleanup_policy="compact")
STOPS = ("clean stop", "clean stop after a restart", "kill", "kill after a restart")
PRODUCER, OTHER_PRODUCER = 11, 12


class DamageNotNoticed(AssertionError):
    """Records are missing, wrong or duplicated, without any error."""


@dataclass
class Expected:
    """The acknowledged records of one partition."""

    records: dict[int, bytes] = field(default_factory=dict)  # committed, by offset
    hidden: set[int] = field(default_factory=set)  # aborted, or in an open transaction
    last_sequence: int = -1  # for an idempotent producer


@dataclass
class Data:
    """A data directory after a stop, and the records it has to serve."""

    directory: Path
    expected: dict[TopicPartition, Expected]


def config_of(topic: str) -> LogConfig:
    return COMPACTED if topic == "compacted" else CONFIG


class Writer:
    """Fills a log directory, and records every acknowledgement."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.expected: dict[TopicPartition, Expected] = {}
        self.directory: LogDirectory
        self.round = 0

    def open(self) -> None:
        self.directory = LogDirectory.open(self.path)
        self.directory.load_logs(config_of)
        self.directory.claim(0, "cluster")
        assert not self.directory.offline_logs

    def log(self, topic: str, index: int = 0) -> PartitionLog:
        name = (topic, index)
        self.expected.setdefault(name, Expected())
        config = config_of(topic)
        return self.directory.create_log(topic, index, topic_id=topic.encode().ljust(16, b"-"), config=config)

    def write(self) -> None:
        """Write one round: plain logs of one layout, transactions, an idempotent producer, compaction, deletion."""
        number = self.round
        for topic in ("plain", "other"):
            log, expected = self.log(topic), self.expected.setdefault((topic, 0), Expected())
            for at in range(40):
                sequence = expected.last_sequence + 1
                value = b"%s %d %02d" % (topic[:5].encode(), number, at)
                self._append(
                    log, expected, [value, b"x" * 30], number, pid=PRODUCER, sequence=sequence, at=at
                )
                expected.last_sequence = sequence + 1
        if not number:
            log, expected = self.log("plain"), self.expected["plain", 0]
            log.advance_log_start_offset(7)
            expected.records = {o: value for o, value in expected.records.items() if o >= 7}
        self._write_transactions(number)
        log, expected = self.log("compacted"), self.expected.setdefault(("compacted", 0), Expected())
        for at in range(60):
            self._append(log, expected, [b"%d %d" % (number, at)], number, key=b"k%d" % (at % 7), at=at)
        clean(log, NOW + 10_000)
        expected.records = read(log, expected)[0]
        self.round += 1

    def _write_transactions(self, number: int) -> None:
        log, expected = (
            self.log("transactions"),
            self.expected.setdefault(("transactions", 0), Expected()),
        )
        for at in range(12):
            epoch, commits = 100 * number + at, at % 3 != 1
            for pid in (PRODUCER, OTHER_PRODUCER):
                wrote = self._append(
                    log, Expected(), [b"t %d %d" % (number, at), b"y" * 50], number,
                    pid=pid, producer_epoch=epoch, sequence=0, transactional=True, at=at,
                )  # fmt: skip
                if commits or pid == OTHER_PRODUCER:
                    expected.records |= wrote
                else:
                    expected.hidden |= wrote.keys()
            for pid in (PRODUCER, OTHER_PRODUCER):
                log.append_marker(
                    pid, epoch, commit=commits or pid == OTHER_PRODUCER, coordinator_epoch=0,
                    transaction_version=1, leader_epoch=number, now_ms=NOW + at,
                )  # fmt: skip

    def leave_open(self) -> None:
        """Leave a transaction open."""
        number = self.round
        log, expected = self.log("transactions"), self.expected["transactions", 0]
        wrote = self._append(
            log, Expected(), [b"open"], number,
            pid=20 + number, producer_epoch=0, sequence=0, transactional=True,
        )  # fmt: skip
        expected.hidden |= wrote.keys()

    def _append(
        self,
        log: PartitionLog,
        expected: Expected,
        values: list[bytes],
        epoch: int,
        *,
        pid: int = -1,
        producer_epoch: int = 0,
        sequence: int = -1,
        transactional: bool = False,
        key: bytes | None = b"k",
        at: int = 0,
    ) -> dict[int, bytes]:
        records = [Record(place, NOW + at, key, value) for place, value in enumerate(values)]
        batch = build_batch(
            records,
            producer_id=pid,
            producer_epoch=producer_epoch if pid >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        info = log.append(batch, leader_epoch=epoch, now_ms=NOW + at)
        wrote = {info.first_offset + place: value for place, value in enumerate(values)}
        expected.records |= wrote
        return wrote


def build(path: Path, stop: str) -> Data:
    """Build a data directory after one of `STOPS`."""
    writer = Writer(path)
    writer.open()
    writer.write()
    if stop.endswith("restart"):
        writer.directory.close()
        writer.open()
        writer.write()
    if stop.startswith("clean"):
        writer.leave_open()
    marks = {name: log.log_end_offset for name, log in writer.directory.logs.items()}
    writer.directory.checkpoint_high_watermarks(marks)
    if stop.startswith("clean"):
        writer.directory.close()
    else:
        for log in writer.directory.logs.values():
            log.flush(log.active.base_offset)
        writer.directory.checkpoint()
        writer._write_transactions(writer.round)
        writer.leave_open()
        writer.directory.abandon()
    return Data(path, writer.expected)


def read(log: PartitionLog, expected: Expected) -> tuple[dict[int, bytes], bool]:
    """Read as a read_committed consumer; return the records, and whether the log refused a part."""
    offset, refused = log.log_start_offset, False
    found: dict[int, bytes] = {}
    unstable = log.producers.first_unstable_offset(log.log_end_offset)
    end = log.log_end_offset if unstable is None else unstable
    ends = sorted(
        {end, *[o for o in (*expected.records, *expected.hidden) if o > offset], log.log_end_offset}
    )
    while offset < end:
        try:
            region = log.read(offset, 4000, upto=end, min_one=True)
            aborted = log.aborted_transactions(offset, region)
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise DamageNotNoticed(f"{log.path.name} answers {error} at offset {offset}") from error
            refused = True
            offset = next((each for each in ends if each > offset), end)  # continue after the damage
            continue
        data = region.read()
        if not data:
            raise DamageNotNoticed(f"{log.path.name} has nothing at offset {offset}, and ends at {end}")
        for header, records in read_records(data):
            for record in records:
                if record.offset < offset or header.is_control:
                    continue
                hidden = header.is_transactional and any(
                    each.producer_id == header.producer_id
                    and each.first_offset <= record.offset <= each.last_offset
                    for each in aborted
                )
                if not hidden:
                    if record.offset in found:
                        raise DamageNotNoticed(f"{log.path.name} has offset {record.offset} twice")
                    found[record.offset] = bytes(record.value or b"")
            offset = max(offset, header.next_offset)
    return found, refused


@contextmanager
def logged() -> Iterator[list[str]]:
    """Return everything that an operator would read."""
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, logger = Collect(logging.INFO), logging.getLogger("ottla")
    logger.addHandler(handler)
    before = logger.propagate
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def check(
    directory: LogDirectory, expected: dict[TopicPartition, Expected], lines: list[str]
) -> set[TopicPartition]:
    """Check that every record is served or refused by name. Return the partitions with refusals."""
    refusing: set[TopicPartition] = set()
    for name, wanted in expected.items():
        label = f"{name[0]}-{name[1]}"
        if name in directory.offline_logs or name in directory.vanished_logs:
            if name in directory.offline_logs and not any(f"{label} is offline" in line for line in lines):
                raise DamageNotNoticed(f"nobody was told that {label} is offline")
            refusing.add(name)
            continue
        if name not in directory.logs:
            raise DamageNotNoticed(f"{label} is gone")
        found, refused = read(directory.logs[name], wanted)
        missing = wanted.records.keys() - found.keys()
        if refused:
            refusing.add(name)
            if not any(label in line and ("corrupt" in line or "damaged" in line) for line in lines):
                raise DamageNotNoticed(f"{label} is not read, and no line of the log says why")
        elif missing:
            raise DamageNotNoticed(f"{label} lost {len(missing)} records, the first at {min(missing)}")
        wrong = {
            offset
            for offset in found.keys() & wanted.records.keys()
            if found[offset] != wanted.records[offset]
        }
        if wrong:
            raise DamageNotNoticed(f"{label} has other records at {sorted(wrong)[:5]}")
        if visible := found.keys() & wanted.hidden:
            raise DamageNotNoticed(f"{label} shows records that were not committed, at {sorted(visible)[:5]}")
    return refusing


def write_more(directory: LogDirectory, expected: dict[TopicPartition, Expected], number: int) -> None:
    """Write one more record to each writable log, and retry one as an idempotent producer."""
    for name, log in directory.logs.items():
        wanted = expected[name]
        value = b"more %d" % number
        try:
            if wanted.last_sequence >= 0:
                last = wanted.last_sequence
                values = [wanted.records[o] for o in sorted(wanted.records)][-1:]
                records = [Record(at, NOW, b"k", each) for at, each in enumerate([b"again", *values])]
                again = build_batch(records, producer_id=PRODUCER, producer_epoch=0, base_sequence=last - 1)
                info = log.append(again, leader_epoch=log.epochs.latest, now_ms=NOW)
                if not info.duplicate:
                    raise DamageNotNoticed(f"{log.path.name} took a batch twice, at {info.first_offset}")
            batch = build_batch([Record(0, NOW, b"more", value)])
            info = log.append(batch, leader_epoch=max(0, log.epochs.latest), now_ms=NOW)
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise DamageNotNoticed(f"{log.path.name} answers {error} to a producer") from error
            continue
        if info.first_offset in wanted.records:
            raise DamageNotNoticed(f"{log.path.name} gave offset {info.first_offset} to a second record")
        wanted.last_sequence = -1
        if log.producers.first_unstable_offset(log.log_end_offset) is None:
            wanted.records[info.first_offset] = value


def run_case(data: dict[str, Data], seed: int, scratch: Path, verbose: bool = False) -> Damage | None:
    rng = random.Random(seed)
    stop = rng.choice(STOPS)
    source = data[stop]
    copy = scratch / f"case-{seed}"
    shutil.copytree(source.directory, copy)
    expected = {
        name: Expected(dict(each.records), set(each.hidden), each.last_sequence)
        for name, each in source.expected.items()
    }
    done = damage(copy, rng)
    try:
        with logged() as lines:
            try:
                for number in range(3):
                    del lines[:]
                    try:
                        directory = LogDirectory.open(copy)
                    except LogDirectoryError as error:
                        if not any(path.name in str(error) for path in done.files):
                            raise DamageNotNoticed(f"the refusal does not name the file: {error}") from error
                        break  # the broker refuses to start and gives the reason
                    directory.load_logs(config_of)
                    try:
                        if number == 0:
                            refusing = check(directory, expected, lines)
                            if refusing and not any(
                                path.name in line for path in done.files for line in lines
                            ):
                                raise DamageNotNoticed(f"no line of the log names the file: {lines}")
                        else:
                            check(directory, expected, lines)
                        write_more(directory, expected, number)
                    finally:
                        if rng.random() < 0.5:
                            directory.close()
                        else:
                            directory.abandon()
                        if verbose:
                            print("\n".join(lines), file=sys.stderr)
            except DamageNotNoticed as error:
                raise DamageNotNoticed(
                    f"seed {seed}, {stop}, {done}: {error}\nsee it: python -m tests.faults.log_cases {seed}"
                ) from error
            except Exception as error:
                raise DamageNotNoticed(
                    f"seed {seed}, {stop}, {done}: {type(error).__name__}: {error}\n"
                    f"see it: python -m tests.faults.log_cases {seed}"
                ) from error
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return done


def build_all(scratch: Path) -> dict[str, Data]:
    with logged():
        return {stop: build(scratch / stop.replace(" ", "-"), stop) for stop in STOPS}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        data = build_all(Path(scratch))
        for seed in map(int, sys.argv[1:]):
            print(seed, run_case(data, seed, Path(scratch), verbose=True))


if __name__ == "__main__":
    main()
