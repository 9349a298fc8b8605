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
_CREATION_SECONDS = 5.0


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    args = _parser().options(argv)
    if not args.topic:
        raise tool.UsageError('Missing required argument "[topic]"')
    if args.compression_codec not in _CODECS:
        raise tool.UsageError(
            f"'{args.compression_codec}' is not a compression codec: use one of {', '.join(_CODECS)}."
        )
    from ottla.cli.jobs.produce import Production
    from ottla.cli.kafka.line_reader import LineReader

    if args.property:
        print(
            "Warning: --property is deprecated and will be removed in a future version. "
            "Use --reader-property instead.",
            file=sys.stderr,
        )
    reading = {
        **read_file(args.reader_config),
        **tool.key_values([*args.property, *args.reader_property]),
    }
    reader = LineReader.from_properties(reading)
    client, properties = open_client(
        args, [*args.producer_property, *args.command_property], "console-producer"
    )
    ensure_topic(client, args.topic, "Producer clientId=console-producer")
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
    for ignored in ("--max-block-ms", "--max-memory-bytes", "--max-partition-memory-bytes",
                    "--metadata-expiry-ms", "--socket-buffer-size", "--line-reader"):  # fmt: skip
        parser.add_argument(ignored, help=argparse.SUPPRESS)
    return parser


def _options(args: argparse.Namespace, properties: dict[str, str]) -> ProduceOptions:
    from ottla.cli.jobs.produce import ProduceOptions

    acks = properties.pop("acks", args.request_required_acks)
    extra = {"linger.ms": str(args.timeout), **properties}
    for option, name in (
        ("batch_size", "batch.size"),
        ("message_send_max_retries", "retries"),
        ("retry_backoff_ms", "retry.backoff.ms"),
        ("request_timeout_ms", "request.timeout.ms"),
    ):
        if getattr(args, option) is not None:
            extra.setdefault(name, str(getattr(args, option)))
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


def ensure_topic(client: Client, topic: str, who: str) -> None:
    """Let the broker create the topic if it does so on its own, with the warning that Kafka's clients give."""
    from ottla.protocol.errors import ErrorCode

    deadline = time.monotonic() + _CREATION_SECONDS
    warned = False
    attempt = 0
    while True:
        attempt += 1
        [found] = client.brokers.metadata([topic], create=True).topics
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
