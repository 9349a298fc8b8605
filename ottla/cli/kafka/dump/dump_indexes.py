"""Indexes and producer snapshots of a log, line by line as Kafka's DumpLogSegments prints them."""

from __future__ import annotations

from pathlib import Path
from struct import Struct, iter_unpack

from crc32c import crc32c

from ottla.cli.errors import JobError
from ottla.cli.kafka.dump.dump_records import batches, read_log, records

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")
_SNAPSHOT_HEAD = Struct(">hII")
_PRODUCER = Struct(">qhiqiqiq")

Found = dict[str, list[str]]


def _base_offset(path: Path) -> int:
    return int(path.name.partition(".")[0])


def _entries(path: Path, entry: Struct) -> list[tuple[int, ...]]:
    """Return the entries before the preallocated zeros."""
    data = path.read_bytes()
    entries: list[tuple[int, ...]] = []
    for values in iter_unpack(entry.format, data[: len(data) // entry.size * entry.size]):
        if entries and values[-1 if entry is _TIME_ENTRY else 0] == 0:
            break
        entries.append(values)
    return entries


def _sane(path: Path, entry: Struct) -> None:
    if path.stat().st_size % entry.size:
        raise JobError(f"Index file {path} is corrupt: its size is not a multiple of {entry.size}.")
    print(f"{path} passed sanity check.")


def dump_index(path: Path, verify_only: bool, sanity: bool, found: Found) -> None:
    base = _base_offset(path)
    if sanity:
        _sane(path, _OFFSET_ENTRY)
        return
    log = path.with_suffix(".log")
    data = read_log(log) if log.exists() else b""
    entries = _entries(path, _OFFSET_ENTRY)
    if not entries:
        print(f"{path} is empty.")
    for relative, position in entries:
        for _, header in batches(data, position):
            if header.last_offset != base + relative:
                found.setdefault(f"Mismatches in :{path.absolute()}", []).append(
                    f"Index offset: {base + relative}, log offset: {header.last_offset}"
                )
            break
        if not verify_only:
            print(f"offset: {base + relative} position: {position}")


def dump_time_index(path: Path, verify_only: bool, sanity: bool, found: Found) -> None:
    base = _base_offset(path)
    if sanity:
        _sane(path, _TIME_ENTRY)
        return
    log, index = path.with_suffix(".log"), path.with_suffix(".index")
    data = read_log(log) if log.exists() else b""
    positions = _entries(index, _OFFSET_ENTRY) if index.exists() else []
    where = path.absolute()
    previous = -1
    for timestamp, relative in _entries(path, _TIME_ENTRY):
        offset = base + relative
        start = max((position for entry, position in positions if entry <= relative), default=0)
        for position, header in batches(data, start):
            if header.last_offset < offset:
                continue
            latest = max((record.timestamp for record in records(data, position, header)), default=-1)
            if latest != timestamp:
                found.setdefault(f"Found timestamp mismatch in :{where}", []).append(
                    f"Index timestamp: {timestamp}, log timestamp: {latest}"
                )
            break
        else:
            if data:
                found.setdefault(
                    f"The following indexed offsets are not found in the log at {where}", []
                ).append(f"Indexed offset: {offset}, found log offset: -1")
        if timestamp < previous:
            found.setdefault(f"Found out of order timestamp in :{where}", []).append(
                f"Index timestamp: {timestamp}, Previously indexed timestamp: {previous}"
            )
        if not verify_only:
            print(f"timestamp: {timestamp} offset: {offset}")
        previous = timestamp


def dump_transaction_index(path: Path) -> None:
    data = path.read_bytes()
    whole = data[: len(data) // _TRANSACTION_ENTRY.size * _TRANSACTION_ENTRY.size]
    for version, producer, first, last, stable in _TRANSACTION_ENTRY.iter_unpack(whole):
        print(
            f"version: {version} producerId: {producer} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}"
        )


def dump_snapshot(path: Path) -> None:
    data = path.read_bytes()
    if len(data) < _SNAPSHOT_HEAD.size:
        raise JobError(f"Snapshot {path} is cut short.")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    body = data[_SNAPSHOT_HEAD.size :]
    if version != 1:
        raise JobError(f"Snapshot {path} has the unknown version {version}.")
    if crc32c(data[6:]) != crc or len(body) != count * _PRODUCER.size:
        raise JobError(f"Snapshot {path} is corrupt: its checksum does not match.")
    for entry in _PRODUCER.iter_unpack(body):
        producer, epoch, last_sequence, last_offset, delta, timestamp, coordinator, first = entry
        transaction = "OptionalLong.empty" if first < 0 else f"OptionalLong[{first}]"
        line = (
            f"producerId: {producer} producerEpoch: {epoch} coordinatorEpoch: {coordinator} "
            f"currentTxnFirstOffset: {transaction} lastTimestamp: {timestamp}"
        )
        if last_offset >= 0:
            line += (
                f" firstSequence: {(last_sequence - delta) & 0x7FFFFFFF} lastSequence: {last_sequence} "
                f"lastOffset: {last_offset} offsetDelta: {delta} timestamp: {timestamp}"
            )
        print(line)
