"""`kafka-dump-log`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.dump.dump_indexes import (
    dump_index,
    dump_snapshot,
    dump_time_index,
    dump_transaction_index,
)
from ottla.cli.kafka.dump.dump_records import DECODERS, Decoder, Options, decoder, dump_log
from ottla.client.internal_records import decode_offsets, decode_share_states, decode_transactions
from ottla.protocol.errors import KafkaError

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
