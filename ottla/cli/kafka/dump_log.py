"""`kafka-dump-log`"""

from __future__ import annotations

import argparse
import mmap
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct, iter_unpack

from crc32c import crc32c

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.client.internal_records import decode_offsets, decode_share_states, decode_transactions
from ottla.protocol.batch_header import (
    LENGTH_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_crc,
    read_header,
)
from ottla.protocol.errors import KafkaError
from ottla.protocol.records import Record, read_batch

# The batches and records of a .log file, line by line as Kafka's DumpLogSegments prints them.

Decoder = Callable[[bytes | None, bytes | None], tuple[str | None, str | None]]

_DELETE_HORIZON_FLAG = 0x40
_MARKERS = {0: "ABORT", 1: "COMMIT"}


@dataclass(frozen=True, slots=True)
class Options:
    records: bool
    data: bool
    skip_metadata: bool
    max_bytes: int | None
    decode: Decoder


# Kafka's decoders by the last part of their names. DefaultDecoder leaves bytes alone, which print as text.
DECODERS: dict[str, Callable[[bytes], str]] = {
    "StringDecoder": lambda data: data.decode(errors="replace"),
    "DefaultDecoder": lambda data: data.decode(errors="replace"),
    "IntegerDecoder": lambda data: str(int.from_bytes(data, "big", signed=True)),
    "LongDecoder": lambda data: str(int.from_bytes(data, "big", signed=True)),
}


def decoder(key_class: str, value_class: str) -> Decoder:
    read_key, read_value = DECODERS[key_class], DECODERS[value_class]
    return lambda key, value: (
        None if key is None else read_key(key),
        None if value is None else read_value(value),
    )


def read_log(path: Path, max_bytes: int | None = None) -> bytes | mmap.mmap:
    with open(path, "rb") as file:
        if path.stat().st_size == 0:
            return b""
        if max_bytes is not None:
            return file.read(max_bytes)
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def batches(data: bytes | mmap.mmap, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    end = len(data)
    while position + LOG_OVERHEAD <= end:
        length = int.from_bytes(data[position + LENGTH_AT : position + LOG_OVERHEAD], "big", signed=True)
        if length <= 0 or position + LOG_OVERHEAD + length > end:
            return
        try:
            header = read_header(data[position : position + LOG_OVERHEAD + length])
        except KafkaError:
            return
        yield position, header
        position += header.size


def records(data: bytes | mmap.mmap, position: int, header: BatchHeader) -> list[Record]:
    return read_batch(data[position : position + header.size])


def dump_log(path: Path, options: Options, found: dict[str, list[str]]) -> None:
    print(f"Log starting offset: {int(path.name.partition('.')[0])}")
    data = read_log(path, options.max_bytes)
    valid = 0
    last_offset = -1
    for position, header in batches(data):
        batch = data[position : position + header.size]
        print(_batch_line(header, position, check_crc(batch, 0, header)))
        if options.records:
            for record in read_batch(batch):
                if last_offset != -1 and record.offset != last_offset + 1:
                    heading = f"Non-consecutive offsets in {path.absolute()}"
                    found.setdefault(heading, []).append(f"{last_offset} is followed by {record.offset}")
                last_offset = record.offset
                print(_record_line(header, record, options))
        valid = position + header.size
    if valid < len(data) and options.max_bytes is None:
        print(f"Found {len(data) - valid} invalid bytes at the end of {path.name}")


def _batch_line(header: BatchHeader, position: int, valid: bool) -> str:
    stamp = "LogAppendTime" if header.timestamp_type == LOG_APPEND_TIME else "CreateTime"
    if header.magic == 0:
        stamp = "NoTimestampType"
    if header.magic >= MAGIC:
        horizon = (
            f"OptionalLong[{header.base_timestamp}]"
            if header.attributes & _DELETE_HORIZON_FLAG
            else "OptionalLong.empty"
        )
        first = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {_word(header.is_transactional)} isControl: {_word(header.is_control)} "
            f"deleteHorizonMs: {horizon}"
        )
    else:
        first = f"offset: {header.last_offset}"
    return (
        f"{first} position: {position} {stamp}: {header.max_timestamp} size: {header.size} "
        f"magic: {header.magic} compresscodec: {header.codec.name.lower()} crc: {header.crc} "
        f"isvalid: {_word(valid)}"
    )


def _record_line(header: BatchHeader, record: Record, options: Options) -> str:
    parts = ["|"]
    if not options.skip_metadata:
        stamp = "LogAppendTime" if header.timestamp_type == LOG_APPEND_TIME else "CreateTime"
        parts.append(
            f"offset: {record.offset} {stamp}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
        )
        if header.magic >= MAGIC:
            sequence = -1
            if header.base_sequence >= 0:
                sequence = (header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF
            names = ",".join(name for name, _ in record.headers)
            parts.append(f"sequence: {sequence} headerKeys: [{names}]")
        if header.is_control:
            parts.append(_control(record))
    if options.data and not header.is_control:
        key, value = options.decode(record.key, record.value)
        if key is not None:
            parts.append(f"key: {key}")
        if value is not None:
            parts.append(f"payload: {value}")
    return " ".join(parts)


def _control(record: Record) -> str:
    kind = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    value = record.value or b""
    if kind in _MARKERS:
        epoch = int.from_bytes(value[2:6], "big", signed=True)
        return f"endTxnMarker: {_MARKERS[kind]} coordinatorEpoch: {epoch}"
    return f"controlType: {kind}"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _word(value: bool) -> str:
    return "true" if value else "false"


# Indexes and producer snapshots of a log, line by line as Kafka's DumpLogSegments prints them.

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


# `kafka-dump-log`

# Topics that Ottla does not have: its metadata is in ZooKeeper, and it has no remote storage.
_NOT_READ = {
    "--cluster-metadata-decoder": "__cluster_metadata",
    "--remote-log-metadata-decoder": "__remote_log_metadata",
}


@tool.entry_point()
def main(argv: list[str]) -> None:
    args = _parser().options(argv)
    tool.required(args, "files")
    for option, topic in _NOT_READ.items():
        if getattr(args, option[2:].replace("-", "_")):
            raise tool.UsageError(f"The records of {topic} are not read by this tool: omit {option}.")
    found: dict[str, list[str]] = {}
    for name in (part.strip() for part in args.files.split(",")):
        print(f"Dumping {name}")
        try:
            _dump(Path(name), args, found)
        except BrokenPipeError:
            raise  # of our output
        except OSError as error:
            raise JobError(f"{name} cannot be read: {error.strerror}.") from None
        except (KafkaError, ValueError) as error:
            raise JobError(f"{name} cannot be read any further: {error}.") from None
    sys.stdout.flush()
    for heading, lines in found.items():
        print(heading, file=sys.stderr)
        for line in lines:
            print(f"  {line}", file=sys.stderr)


def _dump(path: Path, args: argparse.Namespace, found: dict[str, list[str]]) -> None:
    if path.suffix not in (".log", ".index", ".timeindex", ".snapshot", ".txnindex"):
        print(f"Ignoring unknown file {path}", file=sys.stderr)
        return
    path.open("rb").close()
    if not path.stem.isdecimal():
        raise JobError(
            f"{path} is not a file of a log: it would have the name of its first offset, such as {0:020}{path.suffix}."
        )
    if path.suffix == ".log":
        dump_log(path, _options(args), found)
    elif path.suffix == ".index":
        dump_index(path, args.verify_index_only, args.index_sanity_check, found)
    elif path.suffix == ".timeindex":
        dump_time_index(path, args.verify_index_only, args.index_sanity_check, found)
    elif path.suffix == ".snapshot":
        dump_snapshot(path)
    else:
        dump_transaction_index(path)


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-dump-log", "Print log segments and their indexes.", """
        --files F1,F2                the files, separated by commas
        --print-data-log             print the records of .log files
        --deep-iteration             print records, not only batches
        --skip-record-metadata       print keys and values only
        --max-bytes N                read at most N bytes of .log files
        --max-message-size N         no effect: there is no size limit
        --offsets-decoder            decode records of __consumer_offsets
        --transaction-log-decoder    decode records of __transaction_state
        --share-group-state-decoder  decode records of __share_group_state
        --verify-index-only          check indexes without printing them
        --index-sanity-check         check that indexes are usable
        --key-decoder-class CLASS?   StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder
        --value-decoder-class CLASS?  StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder
        """,
        without_any="This tool helps to parse a log file and dump its contents to the console, useful for debugging "
        "a seemingly corrupt log segment.",
    )  # fmt: skip
    for option, topic in _NOT_READ.items():
        parser.add_options(f"{option}  the records of {topic} are not read")
    return parser


def _options(args: argparse.Namespace) -> Options:
    names = [
        (given or "StringDecoder").rpartition(".")[2]
        for given in (args.key_decoder_class, args.value_decoder_class)
    ]
    for name in names:
        if name not in DECODERS:
            raise tool.UsageError(f"There is no decoder '{name}': use one of {', '.join(DECODERS)}.")
    decode: Decoder = decoder(*names)
    if args.offsets_decoder:
        decode = decode_offsets
    elif args.transaction_log_decoder:
        decode = decode_transactions
    elif args.share_group_state_decoder:
        decode = decode_share_states
    internal = args.offsets_decoder or args.transaction_log_decoder or args.share_group_state_decoder
    given = args.key_decoder_class or args.value_decoder_class
    data = bool(args.print_data_log or internal or given)
    return Options(
        records=data or args.deep_iteration,
        data=data,
        skip_metadata=args.skip_record_metadata,
        max_bytes=args.max_bytes,
        decode=decode,
    )
