"""`kafka-console-producer`"""

from __future__ import annotations

import argparse
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from ottla.cli.client import Client
from ottla.cli.errors import JobError, TopicNotFound
from ottla.cli.jobs.messages import Headers, OutgoingMessage
from ottla.cli.jobs.obstacles import named
from ottla.cli.jobs.produce import ProduceOptions, Production
from ottla.cli.kafka import tool
from ottla.cli.kafka.tool import open_client, read_file
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.cli.kafka.console.schemas import SchemaReader

# Lines as `kafka-console-producer` reads them: headers, key and value with separators between.


@dataclass(frozen=True, slots=True)
class LineReader:
    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    ignore_error: bool = False
    null_marker: bytes | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LineReader:
        def flag(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        marker = properties.get("null.marker")
        reader = cls(
            flag("parse.key"),
            properties.get("key.separator", "\t").encode(),
            flag("parse.headers"),
            properties.get("headers.delimiter", "\t").encode(),
            properties.get("headers.separator", ",").encode(),
            properties.get("headers.key.separator", ":").encode(),
            flag("ignore.error"),
            None if marker is None else marker.encode(),
        )
        reader.check()
        return reader

    def check(self) -> None:
        names = {
            "headers.delimiter": self.headers_delimiter,
            "headers.separator": self.headers_separator,
            "headers.key.separator": self.headers_key_separator,
        }
        if self.null_marker is not None:
            names = {"null.marker": self.null_marker, "key.separator": self.key_separator, **names}
        for one, other in combinations(names, 2):
            if names[one] == names[other] and one != "key.separator":
                raise JobError(f"{one} and {other} may not be equal")

    def messages(self, lines: Iterable[bytes]) -> Iterator[OutgoingMessage]:
        for number, raw in enumerate(lines, 1):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            if self.parse_key or self.parse_headers:
                yield self._parse(line, number)
            else:
                yield OutgoingMessage(self._or_null(line))

    def _parse(self, line: bytes, number: int) -> OutgoingMessage:
        headers: Headers = ()
        key: bytes | None = None
        rest = line
        if self.parse_headers:
            text, rest = self._split(rest, self.headers_delimiter, "headers delimiter", line, number)
            if text is not None and text != self.null_marker:
                headers = [self._header(pair, number) for pair in self._pairs(text)]
        if self.parse_key:
            text, rest = self._split(rest, self.key_separator, "key separator", line, number)
            key = self._or_null(text)
        return OutgoingMessage(self._or_null(rest), key, headers)

    def _pairs(self, text: bytes) -> list[bytes]:
        pairs = text.split(self.headers_separator)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        return pairs

    def _split(
        self, text: bytes, separator: bytes, what: str, line: bytes, number: int
    ) -> tuple[bytes | None, bytes]:
        if not separator:
            return b"", text
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self.ignore_error:
            return None, text
        shown = line.decode(errors="replace")
        raise JobError(f"No {what} found on line number {number}: '{shown}'")

    def _header(self, pair: bytes, number: int) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(self.headers_key_separator)
        if not found and not self.ignore_error:
            shown = pair.decode(errors="replace")
            raise JobError(f"No header key separator found in pair '{shown}' on line number {number}")
        return name.decode(errors="replace"), self._or_null(value) if found else None

    def _or_null(self, text: bytes | None) -> bytes | None:
        return None if text is None or text == self.null_marker else text


# `kafka-console-producer`

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS = ("all", "-1", "0", "1")
_CREATION_SECONDS = 5.0
_IDLE_SECONDS = 0.5
_CHUNK = 1 << 20
_READER = "org.apache.kafka.tools.LineMessageReader"
_RENAMED = (
    ("--property", "--reader-property"),
    ("--producer-property", "--command-property"),
    ("--producer.config", "--command-config"),
)
_WHO = "Producer clientId=console-producer"
_TOGETHER = "Options {new} and {old} cannot be specified together."
_DEPRECATED = "Warning: {old} is deprecated and will be removed in a future version. Use {new} instead."


@tool.entry_point()
def main(argv: list[str]) -> int:
    args = _parser().options(argv)
    tool.required(args, "topic")
    tool.renamed(args, *_RENAMED, said=_DEPRECATED, both=_TOGETHER)
    if args.max_partition_memory_bytes is not None:
        print(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. Use "
            "--batch-size instead.",
            file=sys.stderr,
        )
    if args.compress and args.compression_codec is None:
        args.compression_codec = "gzip"  # the flag of the first console producers
    args.compression_codec = args.compression_codec or "none"
    if args.compression_codec not in _CODECS:
        raise tool.UsageError(
            f"Invalid value {args.compression_codec} for configuration compression.type: String must be one of: "
            f"{', '.join(_CODECS)}"
        )
    reading = {
        **read_file(args.reader_config),
        **tool.key_values([*args.property, *args.reader_property]),
    }
    reader = _reader(args.line_reader, args.topic, reading)
    client, properties = open_client(
        args, [*args.producer_property, *args.command_property], "console-producer"
    )
    patience = _CREATION_SECONDS if args.max_block_ms is None else args.max_block_ms / 1000
    options = _options(args, properties)
    ensure_topic(client, args.topic, _WHO, patience)
    production = Production(client, args.topic, options, _warn)
    interrupted = False
    try:
        for message in reader.messages(_lines(production.idle)):
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


def main_with_schemas() -> None:
    """`kafka-avro-console-producer`, `kafka-json-schema-console-producer` and `kafka-protobuf-console-producer`"""
    from ottla.cli.kafka.console.schemas import KINDS, READERS

    kind = KINDS[tool_kind()]
    name = next(name for name, of in READERS.items() if of == kind)
    sys.argv[1:1] = ["--line-reader", name]
    main()


def tool_name(what: str) -> str:
    name = os.path.basename(sys.argv[0]).removesuffix(".sh")
    return name if name.endswith(f"-{what}") else f"kafka-{what}"


def tool_kind() -> str:
    return os.path.basename(sys.argv[0]).removeprefix("kafka-").partition("-console-")[0]


def _reader(name: str, topic: str, properties: dict[str, str]) -> LineReader | SchemaReader:
    short = name.rpartition(".")[2].rpartition("$")[2]
    if short == "LineMessageReader":
        return LineReader.from_properties(properties)
    from ottla.cli.kafka.console.schemas import READERS, SchemaReader, short_names

    kind = short_names(READERS).get(short)
    if kind is None:
        raise tool.UsageError(f"There is no line reader '{name}': lines are read by {_READER}.")
    return SchemaReader(kind, topic, properties)


def _parser() -> tool.Parser:
    parser = tool.Parser(
        tool_name("console-producer"), "Send each line of standard input as a message.", """
        --bootstrap-server, --broker-list
        --topic TOPIC                       the topic to produce to
        """,
        without_any="This tool helps to read data from standard input and publish it to Kafka.",
    )  # fmt: skip
    parser.add_argument("--compression-codec", nargs="?", const="gzip", help=f"one of {', '.join(_CODECS)}")
    parser.add_options(
        """
        --compress                          (hidden)
        --request-required-acks ACKS        0, 1 or all
        --timeout MS                        time that messages wait to fill a batch
        --batch-size BYTES                  batch size
        --message-send-max-retries N        number of retries
        --retry-backoff-ms MS               time between retries
        --request-timeout-ms MS             time to wait for a broker's answer
        --sync                              wait for the acknowledgement of each message
        --property K=V*                     old name of --reader-property
        --reader-property K=V*              input properties: parse.key, key.separator, parse.headers,
                                            headers.delimiter, headers.separator, headers.key.separator,
                                            ignore.error, null.marker
        --reader-config FILE                file with these properties
        --producer-property K=V*            old name of --command-property
        --command-property K=V*             producer property
        --command-config, --producer.config
        --max-block-ms MS                   time to wait for a topic to exist
        --max-memory-bytes BYTES            memory for unsent messages
        --max-partition-memory-bytes BYTES  old name of --batch-size
        --metadata-expiry-ms MS             time between metadata refreshes
        --socket-buffer-size BYTES          size of the send buffer
        --line-reader CLASS                 class name of Kafka's line reader
        """
    )
    parser.set_defaults(request_required_acks="-1", timeout=5, line_reader=_READER)
    return parser


def _options(args: argparse.Namespace, properties: dict[str, str]) -> ProduceOptions:
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
        # As Kafka's producer does by default: every line once, even if an answer is lost.
        idempotent=True,
        properties=extra,
        # A person who types lines wants to see them shared by the members of a group.
        round_robin=sys.stdin.isatty(),
    )


def _warn(reason: JobError) -> None:
    print(tool.log_line("WARN", f"[{_WHO}] {named(reason)} (ottla.cli)"), file=sys.stderr, flush=True)


def _lines(idle: Callable[[], None]) -> Iterator[bytes]:
    """The lines of the standard input, without their ends; `idle` is called while somebody thinks about the next."""
    source = sys.stdin.fileno()
    prompt = sys.stdin.isatty()
    begun: list[bytes] = []  # of a line whose end has not been read
    while True:
        if prompt and not begun:
            print(">", end="", flush=True)
        while not select.select([source], [], [], _IDLE_SECONDS)[0]:
            idle()
        data = os.read(source, _CHUNK)
        if not data:
            break
        first, *others = data.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun)
            *complete, last = others
            yield from complete
            begun = [last] if last else []
    if begun:
        yield b"".join(begun)


def ensure_topic(client: Client, topic: str, who: str, patience: float = _CREATION_SECONDS) -> None:
    """Let the broker create the topic if it does so on its own, with the warning that Kafka's clients give.

    One whose partitions have no leader is there all the same: who produces or consumes waits for them.
    """
    deadline = time.monotonic() + patience
    warned = False
    attempt = 0
    while True:
        attempt += 1
        [found] = client.cluster.metadata([topic], create=True).topics
        error = ErrorCode(found.error_code)
        if error == ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise JobError(f"'{topic}' is not a valid name for a topic.")
        if error not in (
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.LEADER_NOT_AVAILABLE,
        ):
            raise JobError(f"Topic '{topic}': {error.name}.")
        is_led = all(partition.leader_id >= 0 for partition in found.partitions)
        if not warned and (error != ErrorCode.NONE or not is_led):
            warned = True
            name = "LEADER_NOT_AVAILABLE" if error == ErrorCode.NONE else error.name
            print(
                tool.log_line(
                    "WARN",
                    f"[{who}] Error while fetching metadata with correlation id {attempt} : {{{topic}={name}}} "
                    "(org.apache.kafka.clients.NetworkClient)",
                ),
                file=sys.stderr,
                flush=True,
            )
        if error == ErrorCode.NONE:
            return
        if time.monotonic() > deadline:
            raise TopicNotFound(topic)
        time.sleep(0.1)
