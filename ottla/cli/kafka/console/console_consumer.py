"""`kafka-console-consumer` and `kafka-console-share-consumer`"""

from __future__ import annotations

import argparse
import re
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from uuid import UUID

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.jobs.consume import ConsumeOptions, Consumption, Fate, ShareMember, Start
from ottla.cli.jobs.messages import ConsumedMessage
from ottla.cli.jobs.obstacles import Watch, named, undeliverable, without_coordinator
from ottla.cli.kafka import tool
from ottla.cli.kafka.console.console_producer import ensure_topic, tool_kind, tool_name
from ottla.cli.kafka.tool import open_client, read_file
from ottla.client.admin.topics import topic_names
from ottla.client.coordinators import CoordinatorType

# How `kafka-console-consumer` prints messages.

Formatter = Callable[["ConsumedMessage"], bytes]
Deserializer = Callable[[bytes], bytes]


def _number(layout: str) -> Deserializer:
    return lambda data: str(struct.unpack(f">{layout}", data)[0]).encode()


_DESERIALIZERS: dict[str, Deserializer] = {
    "String": bytes,
    "ByteArray": bytes,
    "Bytes": bytes,
    "ByteBuffer": bytes,
    "Short": _number("h"),
    "Integer": _number("i"),
    "Long": _number("q"),
    "Float": _number("f"),
    "Double": _number("d"),
    "Boolean": lambda data: b"true" if data != b"\0" else b"false",
    "UUID": lambda data: str(UUID(data.decode())).encode(),
}


def deserializer(name: str | None) -> Deserializer:
    if not name:
        return bytes
    short = name.rpartition(".")[2].removesuffix("Deserializer")
    if short not in _DESERIALIZERS:
        raise JobError(f"There is no deserializer '{name}': use one of {', '.join(_DESERIALIZERS)}.")
    return _DESERIALIZERS[short]


def formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    short = name.rpartition(".")[2].rpartition("$")[2]
    if short == "DefaultMessageFormatter":
        return default_formatter(properties)
    if short == "NoOpMessageFormatter":
        return lambda message: b""
    if short == "LoggingMessageFormatter":
        return _logging_formatter(default_formatter(properties))
    if short in (
        "OffsetsMessageFormatter",
        "GroupMetadataMessageFormatter",
        "TransactionLogMessageFormatter",
        "ShareGroupStateMessageFormatter",
    ):
        from ottla.client.internal_records import line_of

        return line_of(short.removesuffix("MessageFormatter"))
    if short in ("AvroMessageFormatter", "JsonSchemaMessageFormatter", "ProtobufMessageFormatter"):
        from ottla.cli.kafka.console.schemas import schema_formatter

        return schema_formatter(properties)
    raise JobError(f"There is no formatter '{name}'.")


def default_formatter(
    properties: Mapping[str, str],
    read_key: Deserializer | None = None,
    read_value: Deserializer | None = None,
) -> Formatter:
    def flag(name: str, default: bool = False) -> bool:
        return properties.get(name, str(default)).strip().lower() == "true"

    separator = properties.get("key.separator", "\t").encode()
    end = properties.get("line.separator", "\n").encode()
    between_headers = properties.get("headers.separator", ",").encode()
    null = properties.get("null.literal", "null").encode()
    of_key = read_key or deserializer(properties.get("key.deserializer"))
    of_value = read_value or deserializer(properties.get("value.deserializer"))
    read_header = deserializer(properties.get("headers.deserializer"))

    def text(data: bytes | None, read: Deserializer) -> bytes:
        try:
            return null if data is None else read(data)
        except (struct.error, ValueError):
            raise JobError("A message does not fit the deserializer that was named.") from None

    def headers(message: ConsumedMessage) -> bytes:
        pairs = [name.encode() + b":" + text(value, read_header) for name, value in message.headers]
        return between_headers.join(pairs) or b"NO_HEADERS"

    def timestamp(message: ConsumedMessage) -> bytes:
        if message.timestamp is None:
            return b"NO_TIMESTAMP"
        return f"{message.timestamp_type}:{message.timestamp}".encode()

    parts: list[Formatter] = []
    if flag("print.timestamp"):
        parts.append(timestamp)
    if flag("print.partition"):
        parts.append(lambda message: b"Partition:%d" % message.partition)
    if flag("print.offset"):
        parts.append(lambda message: b"Offset:%d" % message.offset)
    if flag("print.delivery"):
        parts.append(lambda message: b"Delivery:" + _present(message.delivery_count))
    if flag("print.epoch"):
        parts.append(lambda message: b"Epoch:" + _present(message.leader_epoch))
    if flag("print.headers"):
        parts.append(headers)
    if flag("print.key"):
        parts.append(lambda message: text(message.key, of_key))
    if flag("print.value", default=True):
        parts.append(lambda message: text(message.value, of_value))
    return lambda message: separator.join([part(message) for part in parts]) + end


def _present(number: int | None) -> bytes:
    return b"NOT_PRESENT" if number is None else b"%d" % number


def _logging_formatter(inner: Formatter) -> Formatter:
    def render(message: ConsumedMessage) -> bytes:
        stamp = "" if message.timestamp is None else f"{message.timestamp_type}:{message.timestamp}, "
        key = "null" if message.key is None else message.key.decode(errors="replace")
        value = "null" if message.value is None else message.value.decode(errors="replace")
        print(f"{stamp}key:{key}, value:{value}", file=sys.stderr)
        return inner(message)

    return render


# `kafka-console-consumer` and `kafka-console-share-consumer`

_WHO = "Consumer clientId=console-consumer"
_RENAMED = (("--property", "--formatter-property"), ("--consumer-property", "--command-property"))
_TOGETHER = "Options {old} and {new} cannot be specified together."
_DEPRECATED = "Option {old} is deprecated and will be removed in a future version. Use {new} instead."
_LOOK_AGAIN = 0.5
_EARLIEST = ("earliest", "smallest")
_RESETS = (*_EARLIEST, "latest", "largest", "none")
_ISOLATIONS = ("read_committed", "read_uncommitted")
_SHARE_GROUP = "console-share-consumer"
_SHARE_WHO = f"ShareConsumer clientId={_SHARE_GROUP}"
_DEFAULTS = {"max_messages": -1, "timeout_ms": -1, "formatter": "DefaultMessageFormatter"}
# When to end, and how messages are printed.
_PRINTING = """
    --max-messages N           stop after N messages
    --timeout-ms MS            stop after this time without messages
    --property K=V*            old name of --formatter-property
    --formatter-property K=V*  output properties: print.timestamp, print.key, print.offset,
                               print.delivery, print.epoch, print.partition, print.headers, print.value,
                               key.separator, line.separator, headers.separator, null.literal,
                               key.deserializer, value.deserializer, headers.deserializer
    --formatter-config FILE    file with these properties
    --formatter CLASS          class name of Kafka's formatter
    --key-deserializer CLASS
    --value-deserializer CLASS
    --consumer-property K=V*   old name of --command-property
    --command-property K=V*    consumer property
"""


@tool.entry_point()
def main(argv: list[str]) -> int:
    args = _parser().options(argv)
    _check(args)
    config = ("--consumer.config", "--command-config")
    tool.renamed(args, _RENAMED[1], config, _RENAMED[0], said=_DEPRECATED, both=_TOGETHER)
    printer, client, properties = _open(args, "console-consumer")
    topics = _topics(client, args)
    if not topics:
        print("Processed a total of 0 messages", file=sys.stderr)
        return 0
    consumption = Consumption(client, topics, _options(args, properties), partial(_warn, _WHO))
    return printer.run(consumption, printer.print_batch)


def main_with_schemas() -> None:
    """`kafka-avro-console-consumer`, `kafka-json-schema-console-consumer` and `kafka-protobuf-console-consumer`"""
    from ottla.cli.kafka.console.schemas import FORMATTERS, KINDS

    kind = KINDS[tool_kind()]
    name = next(name for name, of in FORMATTERS.items() if of == kind)
    sys.argv[1:1] = ["--formatter", name]
    main()


@tool.entry_point()
def main_share(argv: list[str]) -> int:
    args = _share_parser().options(argv)
    if args.topic is None:
        raise tool.UsageError("--topic is a required argument")
    if args.reject and args.release:
        raise tool.UsageError("At most one of --reject and --release may be specified.")
    config = ("--consumer-config", "--command-config")
    tool.renamed(args, *_RENAMED, config, said=_DEPRECATED, both=_TOGETHER)
    printer, client, properties = _open(args, _SHARE_GROUP)
    group = _group(args, properties, "--consumer-config") or _SHARE_GROUP
    ensure_topic(client, args.topic, _SHARE_WHO)
    member = ShareMember(client, group, args.topic, properties)

    def obstacle() -> JobError | None:
        return without_coordinator(client, CoordinatorType.GROUP, group) or undeliverable(client, args.topic)

    return printer.run(
        _ShareConsumption(member, args.max_messages, Watch(obstacle, partial(_warn, _SHARE_WHO))),
        lambda batch: printer.print_shared(batch, member),
    )


def _parser() -> tool.Parser:
    parser = tool.Parser(
        tool_name("console-consumer"), "Print the messages of a topic.", f"""
        --bootstrap-server, --broker-list
        --zookeeper
        --topic TOPIC                 the topic to consume
        --include, --whitelist REGEX  the topics to consume
        --partition N                 read only this partition
        --offset N|earliest|latest    first offset to read
        --from-beginning              start at the earliest message unless the group has an offset
        --group GROUP                 the consumer group to join
        --isolation-level ISOLATION_LEVEL  or read_committed
        {_PRINTING}
        --command-config, --consumer.config
        --skip-message-on-error       continue after a message that cannot be printed
        --enable-systest-events       print shutdown_complete at the end
        --new-consumer                (hidden)
        """,
        without_any="This tool helps to read data from Kafka topics and outputs it to standard output.",
    )  # fmt: skip
    parser.set_defaults(**_DEFAULTS, isolation_level="read_uncommitted")
    return parser


def _share_parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-console-share-consumer", "Print the messages of a topic as a member of a share group.", f"""
        --bootstrap-server, --broker-list
        --topic TOPIC              the topic to consume
        --group GROUP              the share group to join; {_SHARE_GROUP} unless it is given
        --release                  release messages instead of accepting them
        --reject                   reject messages instead of accepting them
        --reject-message-on-error  reject a message that cannot be printed, and continue
        {_PRINTING}
        --command-config, --consumer-config
        --enable-systest-events    print shutdown_complete at the end
        """,
    )  # fmt: skip
    parser.set_defaults(**_DEFAULTS)
    return parser


def _warn(who: str, reason: JobError) -> None:
    print(tool.log_line("WARN", f"[{who}] {named(reason)} (ottla.cli)"), file=sys.stderr, flush=True)


def _open(args: argparse.Namespace, client_id: str) -> tuple[_Printer, Client, dict[str, str]]:
    printer = _Printer(args)
    return printer, *open_client(args, [*args.consumer_property, *args.command_property], client_id)


def _check(args: argparse.Namespace) -> None:
    if (args.topic is None) == (args.include is None):
        raise tool.UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if args.partition is not None and args.topic is None:
        raise tool.UsageError("The topic is required when partition is specified.")
    if args.group is not None and args.partition is not None and args.offset is None:
        raise tool.UsageError("Options group and partition cannot be specified together.")
    if args.offset is None:
        return
    if args.partition is None:
        raise tool.UsageError("The partition is required when offset is specified.")
    if args.from_beginning:
        raise tool.UsageError("Options from-beginning and offset cannot be specified together.")
    if args.group is not None:
        raise tool.UsageError("Options group and partition cannot be specified together.")
    if args.offset.lower() not in ("earliest", "latest") and not args.offset.isdecimal():
        raise tool.UsageError(
            f"The provided offset value '{args.offset}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )


def _topics(client: Client, args: argparse.Namespace) -> list[str]:
    if args.topic is not None:
        ensure_topic(client, args.topic, _WHO)
        return [args.topic]
    try:
        pattern = re.compile(args.include.replace(",", "|"))
    except re.error:
        raise JobError(f"{args.include} is an invalid regex.") from None
    # Topics may be created yet; Kafka's tool waits for them, too.
    deadline = time.monotonic() + args.timeout_ms / 1000
    while True:
        topics = [name for name in topic_names(client.cluster) if pattern.fullmatch(name)]
        if topics or (args.timeout_ms >= 0 and time.monotonic() > deadline):
            return topics
        time.sleep(_LOOK_AGAIN)


def _group(args: argparse.Namespace, properties: dict[str, str], config_option: str) -> str | None:
    groups = {name for name in (args.group, properties.pop("group.id", None)) if name}
    if len(groups) > 1:
        raise tool.UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or "
            f"via '{config_option}') do not match. Detected group ids: {', '.join(map(repr, sorted(groups)))}"
        )
    return groups.pop() if groups else None


def _options(args: argparse.Namespace, properties: dict[str, str]) -> ConsumeOptions:
    group = _group(args, properties, "--consumer.config")
    isolation = properties.pop("isolation.level", args.isolation_level)
    if isolation not in _ISOLATIONS:
        raise tool.UsageError(
            f"Invalid value {isolation} for configuration isolation.level: String must be one of: "
            f"{', '.join(_ISOLATIONS)}"
        )
    return ConsumeOptions(
        start=_start(args, properties),
        partitions=() if args.partition is None else (args.partition,),
        group=group if args.partition is None else None,
        max_messages=args.max_messages if args.max_messages >= 0 else None,
        isolation=isolation,
        properties=properties,
    )


def _start(args: argparse.Namespace, properties: dict[str, str]) -> Start:
    reset = properties.pop("auto.offset.reset", None)
    if args.from_beginning and reset not in (None, *_EARLIEST):
        raise tool.UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    if reset is not None and reset not in _RESETS and not reset.startswith("by_duration:"):
        raise tool.UsageError(
            f"Invalid value {reset} for configuration auto.offset.reset: use one of earliest, latest, none."
        )
    if args.offset is not None and args.offset.isdecimal():
        return Start("offset", int(args.offset), "earliest" if reset in _EARLIEST else "latest")
    if args.from_beginning or reset in _EARLIEST or (args.offset or "").lower() == "earliest":
        return Start("earliest")
    return Start("latest")


class _ShareConsumption:
    """A member of a share group, used as `Consumption` is."""

    def __init__(self, member: ShareMember, limit: int, watch: Watch) -> None:
        self._member = member
        self._watch = watch
        self._limit = limit
        self._stopped = False
        self.close = member.close

    def batches(self) -> Iterator[list[ConsumedMessage]]:
        taken = 0
        while not self._stopped and (self._limit < 0 or taken < self._limit):
            batch = self._member.poll()
            if self._limit >= 0:
                batch = batch[: self._limit - taken]
            taken += len(batch)
            self._watch.look(taken)
            yield batch

    def stop(self) -> None:
        self._stopped = True


class _Printer:
    """Prints messages until a limit, a timeout or a signal."""

    def __init__(self, args: argparse.Namespace) -> None:
        properties = {
            **read_file(args.formatter_config),
            **tool.key_values([*args.property, *args.formatter_property]),
        }
        for option in ("key_deserializer", "value_deserializer"):
            if getattr(args, option):
                properties[option.replace("_", ".")] = getattr(args, option)
        self._render: Formatter = formatter(args.formatter, properties)
        self._args = args
        self._taken = 0

    def run(
        self, consumption: Consumption | _ShareConsumption, take: Callable[[list[ConsumedMessage]], None]
    ) -> int:
        code = 0

        def stop(number: int, _frame: object) -> None:
            nonlocal code
            code = 128 + number
            consumption.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        timeout = self._args.timeout_ms
        last = time.monotonic()
        try:
            for batch in consumption.batches():
                if batch:
                    take(batch)
                    last = time.monotonic()
                elif timeout >= 0 and (time.monotonic() - last) * 1000 >= timeout:
                    break
        finally:
            consumption.close()
            print(f"Processed a total of {self._taken} messages", file=sys.stderr, flush=True)
            if self._args.enable_systest_events:
                print("shutdown_complete", flush=True)
        return code

    def print_batch(self, batch: list[ConsumedMessage]) -> None:
        for message in batch:
            self._taken += 1
            try:
                sys.stdout.buffer.write(self._render(message))
            except JobError as error:
                if not self._args.skip_message_on_error:
                    raise
                where = f"offset {message.offset} of partition {message.partition} of topic '{message.topic}'"
                print(
                    f"Error processing message, skipping this message: {where}: {error.message}",
                    file=sys.stderr,
                )
        sys.stdout.buffer.flush()

    def print_shared(self, batch: list[ConsumedMessage], member: ShareMember) -> None:
        """Print first, then decide: a message that was not printed is delivered to another member."""
        fate: Fate = "reject" if self._args.reject else "release" if self._args.release else "accept"
        lines: list[bytes] = []
        fates: list[tuple[ConsumedMessage, Fate]] = []
        for message in batch:
            try:
                lines.append(self._render(message))
                fates.append((message, fate))
            except JobError as error:
                if not self._args.reject_message_on_error:
                    raise
                print(f"Error processing message, rejecting this message: {error.message}", file=sys.stderr)
                fates.append((message, "reject"))
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()
        for message, decided in fates:
            member.decide(message, decided)
        self._taken += len(batch)
