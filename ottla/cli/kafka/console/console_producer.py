"""`kafka-console-producer`"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError, TopicNotFound
from ottla.cli.kafka import tool
from ottla.cli.kafka.properties_options import open_client, read_file

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.cli.jobs.produce import ProduceOptions

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS = ("all", "-1", "0", "1")
_CREATION_SECONDS = 5.0
_READER = "org.apache.kafka.tools.LineMessageReader"
_RENAMED = (
    ("--property", "--reader-property"),
    ("--producer-property", "--command-property"),
    ("--producer.config", "--command-config"),
)
_TOGETHER = "Options {new} and {old} cannot be specified together."
_DEPRECATED = "Warning: {old} is deprecated and will be removed in a future version. Use {new} instead."


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    if not argv:
        raise tool.UsageError("This tool helps to read data from standard input and publish it to Kafka.")
    args = _parser().options(argv)
    tool.required(args, "topic")
    tool.renamed(args, *_RENAMED, said=_DEPRECATED, both=_TOGETHER)
    if args.max_partition_memory_bytes is not None:
        print(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. Use "
            "--batch-size instead.",
            file=sys.stderr,
        )
    if args.compression_codec not in _CODECS:
        raise tool.UsageError(
            f"Invalid value {args.compression_codec} for configuration compression.type: String must be one of: "
            f"{', '.join(_CODECS)}"
        )
    if args.line_reader.rpartition(".")[2].rpartition("$")[2] != "LineMessageReader":
        raise tool.UsageError(f"There is no line reader '{args.line_reader}': lines are read by {_READER}.")
    from ottla.cli.jobs.produce import Production
    from ottla.cli.kafka.console.line_reader import LineReader

    reading = {
        **read_file(args.reader_config),
        **tool.key_values([*args.property, *args.reader_property]),
    }
    reader = LineReader.from_properties(reading)
    client, properties = open_client(
        args, [*args.producer_property, *args.command_property], "console-producer"
    )
    patience = _CREATION_SECONDS if args.max_block_ms is None else args.max_block_ms / 1000
    ensure_topic(client, args.topic, "Producer clientId=console-producer", patience)
    production = Production(client, args.topic, _options(args, properties))
    interrupted = False
    try:
        for message in reader.messages(_lines()):
            production.send(message)
            if args.sync:
                production.flush()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        summary = production.finish()
    if summary.failed:
        raise JobError(f"{summary.failed} messages were not delivered: {summary.first_error}")
    return 130 if interrupted else 0


def _parser() -> tool.Parser:
    parser = tool.Parser("kafka-console-producer", "Send each line of the standard input as a message.")
    parser.add_servers()
    parser.add_argument("--topic", help="the topic to produce to")
    parser.add_argument(
        "--compression-codec", nargs="?", const="gzip", default="none", help=f"one of {', '.join(_CODECS)}"
    )
    parser.add_argument("--request-required-acks", default="-1", metavar="ACKS", help="0, 1 or all")
    parser.add_argument(
        "--timeout", type=int, default=5, metavar="MS", help="how long messages wait for others"
    )
    parser.add_argument("--batch-size", type=int, metavar="BYTES", help="the size of a batch")
    parser.add_argument("--message-send-max-retries", type=int, metavar="N", help="how often to send again")
    parser.add_argument("--retry-backoff-ms", type=int, metavar="MS", help="the pause before sending again")
    parser.add_argument("--request-timeout-ms", type=int, metavar="MS", help="how long a broker may take")
    parser.add_flag("--sync", help="wait for each message before the next is sent")
    parser.add_many("--property", metavar="K=V", help="older word for --reader-property")
    parser.add_many("--reader-property", metavar="K=V", help=(
        "how lines are read: parse.key, key.separator, parse.headers,\n"
        "headers.delimiter, headers.separator, headers.key.separator,\nignore.error, null.marker"))  # fmt: skip
    parser.add_argument("--reader-config", type=Path, metavar="FILE", help="a file with them")
    parser.add_many("--producer-property", metavar="K=V", help="older word for --command-property")
    parser.add_many("--command-property", metavar="K=V", help="a property of the producer")
    parser.add_command_config("--producer.config")
    parser.add_argument(
        "--max-block-ms", type=int, metavar="MS", help="how long to wait for a topic to be there"
    )
    parser.add_argument(
        "--max-memory-bytes", type=int, metavar="BYTES", help="of messages that wait to be sent"
    )
    parser.add_argument(
        "--max-partition-memory-bytes", type=int, metavar="BYTES", help="older word for --batch-size"
    )
    parser.add_argument(
        "--metadata-expiry-ms", type=int, metavar="MS", help="how often leaders are asked for"
    )
    parser.add_argument(
        "--socket-buffer-size", type=int, metavar="BYTES", help="of the connection's sending side"
    )
    parser.add_argument(
        "--line-reader", default=_READER, metavar="CLASS", help="Kafka's name of what reads lines"
    )
    return parser


def _options(args: argparse.Namespace, properties: dict[str, str]) -> ProduceOptions:
    from ottla.cli.jobs.produce import ProduceOptions

    acks = properties.pop("acks", args.request_required_acks)
    if acks not in _ACKS:
        raise tool.UsageError(
            f"Invalid value {acks} for configuration acks: String must be one of: {', '.join(_ACKS)}"
        )
    extra = {"linger.ms": str(args.timeout), **properties}
    for option, name in (
        ("batch_size", "batch.size"),
        ("max_partition_memory_bytes", "batch.size"),
        ("metadata_expiry_ms", "topic.metadata.refresh.interval.ms"),
        ("socket_buffer_size", "socket.send.buffer.bytes"),
        ("message_send_max_retries", "retries"),
        ("retry_backoff_ms", "retry.backoff.ms"),
        ("request_timeout_ms", "request.timeout.ms"),
    ):
        if getattr(args, option) is not None:
            extra.setdefault(name, str(getattr(args, option)))
    if args.max_memory_bytes is not None:
        extra.setdefault("queue.buffering.max.kbytes", str(max(1, args.max_memory_bytes // 1024)))
    return ProduceOptions(
        acks="all" if acks == "-1" else acks,
        compression=extra.pop("compression.type", args.compression_codec),
        # As Kafka's producer does unless it is told otherwise: every line once, even if an answer is lost.
        idempotent=acks in ("-1", "all") and extra.pop("enable.idempotence", "true").lower() == "true",
        properties=extra,
    )


def _lines() -> Iterator[bytes]:
    stdin = sys.stdin.buffer
    prompt = sys.stdin.isatty()
    while True:
        if prompt:
            print(">", end="", flush=True)
        line = stdin.readline()
        if not line:
            return
        yield line


def ensure_topic(client: Client, topic: str, who: str, patience: float = _CREATION_SECONDS) -> None:
    """Let the broker create the topic if it does so on its own, with the warning that Kafka's clients give."""
    from ottla.protocol.errors import ErrorCode

    deadline = time.monotonic() + patience
    warned = False
    attempt = 0
    while True:
        attempt += 1
        [found] = client.cluster.metadata([topic], create=True).topics
        error = ErrorCode(found.error_code)
        if error == ErrorCode.NONE and all(partition.leader_id >= 0 for partition in found.partitions):
            return
        if error == ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise JobError(f"'{topic}' is not a valid name for a topic.")
        if error not in (
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.LEADER_NOT_AVAILABLE,
        ):
            raise JobError(f"Topic '{topic}': {error.name}.")
        if not warned:
            warned = True
            name = "LEADER_NOT_AVAILABLE" if error == ErrorCode.NONE else error.name
            moment = time.strftime("%Y-%m-%d %H:%M:%S")
            print(
                f"[{moment},000] WARN [{who}] Error while fetching metadata with correlation id {attempt} : "
                f"{{{topic}={name}}} (org.apache.kafka.clients.NetworkClient)",
                file=sys.stderr,
            )
        if time.monotonic() > deadline:
            raise TopicNotFound(topic)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
