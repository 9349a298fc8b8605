"""`kafka-dump-log`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool

if TYPE_CHECKING:
    from ottla.cli.kafka.dump.dump_records import Options


# Topics that Ottla does not have: it keeps its metadata elsewhere and has no remote storage.
_NOT_READ = {
    "--cluster-metadata-decoder": "__cluster_metadata",
    "--remote-log-metadata-decoder": "__remote_log_metadata",
}


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    if not argv:
        raise tool.UsageError(
            "This tool helps to parse a log file and dump its contents to the console, useful for debugging a "
            "seemingly corrupt log segment."
        )
    args = _parser().options(argv)
    tool.required(args, "files")
    for option, topic in _NOT_READ.items():
        if getattr(args, option[2:].replace("-", "_")):
            raise tool.UsageError(f"The records of {topic} are not read by this tool: leave {option} out.")
    from ottla.cli.kafka.dump import dump_indexes, dump_records

    found: dict[str, list[str]] = {}
    for name in (part.strip() for part in args.files.split(",")):
        path = Path(name)
        print(f"Dumping {name}")
        try:
            if path.suffix == ".log":
                dump_records.dump_log(path, _options(args), found)
            elif path.suffix == ".index":
                dump_indexes.dump_index(path, args.verify_index_only, args.index_sanity_check, found)
            elif path.suffix == ".timeindex":
                dump_indexes.dump_time_index(path, args.verify_index_only, args.index_sanity_check, found)
            elif path.suffix == ".snapshot":
                dump_indexes.dump_snapshot(path)
            elif path.suffix == ".txnindex":
                dump_indexes.dump_transaction_index(path)
            else:
                print(f"Ignoring unknown file {name}", file=sys.stderr)
        except OSError as error:
            raise JobError(f"{name} cannot be read: {error.strerror}.") from None
        except ValueError as error:
            raise JobError(f"{name} is not a file of a log: {error}.") from None
    sys.stdout.flush()
    for heading, lines in found.items():
        print(heading, file=sys.stderr)
        for line in lines:
            print(f"  {line}", file=sys.stderr)
    return 0


def _parser() -> tool.Parser:
    parser = tool.Parser("kafka-dump-log", "Print the files of a log: what is in a segment and its indexes.")
    parser.add_argument("--files", metavar="F1,F2", help="the files, separated by commas")
    parser.add_flag("--print-data-log", help="print the records of .log files")
    parser.add_flag("--deep-iteration", help="look at the records and not only at the batches")
    parser.add_flag("--skip-record-metadata", help="print keys and values only")
    parser.add_argument("--max-bytes", type=int, metavar="N", help="only so much of .log files")
    parser.add_argument(
        "--max-message-size",
        type=int,
        default=5 * 1024 * 1024,
        metavar="N",
        help="has no effect: messages of any size are read",
    )
    parser.add_flag("--offsets-decoder", help="read the records as those of __consumer_offsets")
    parser.add_flag("--transaction-log-decoder", help="read the records as those of __transaction_state")
    parser.add_flag("--share-group-state-decoder", help="read the records as those of __share_group_state")
    parser.add_flag("--verify-index-only", help="check indexes without printing them")
    parser.add_flag("--index-sanity-check", help="check that indexes can be used")
    decoders = "StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder"
    parser.add_argument("--key-decoder-class", nargs="?", metavar="CLASS", help=decoders)
    parser.add_argument("--value-decoder-class", nargs="?", metavar="CLASS", help=decoders)
    for option, topic in _NOT_READ.items():
        parser.add_flag(option, help=f"the records of {topic} are not read")
    return parser


def _options(args: argparse.Namespace) -> Options:
    from ottla.cli.jobs.internal_records import decode_offsets, decode_share_states, decode_transactions
    from ottla.cli.kafka.dump.dump_records import DECODERS, Decoder, Options, decoder

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


if __name__ == "__main__":
    main()
