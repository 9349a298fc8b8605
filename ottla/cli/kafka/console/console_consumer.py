"""`kafka-console-consumer`"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.properties_options import add_printing, open_client, read_file

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.cli.jobs.consume import ConsumeOptions, Consumption, Start
    from ottla.cli.jobs.messages import ConsumedMessage
    from ottla.cli.kafka.console.formatters import Formatter


_RENAMED = (
    ("--consumer-property", "--command-property"),
    ("--consumer.config", "--command-config"),
    ("--property", "--formatter-property"),
)
_TOGETHER = "Options {old} and {new} cannot be specified together."
_DEPRECATED = "Option {old} is deprecated and will be removed in a future version. Use {new} instead."
_LOOK_AGAIN = 0.5
_RESETS = ("earliest", "latest", "none", "smallest", "largest")
_ISOLATIONS = ("read_committed", "read_uncommitted")


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    if not argv:
        raise tool.UsageError(
            "This tool helps to read data from Kafka topics and outputs it to standard output."
        )
    args = _parser().options(argv)
    _check(args)
    tool.renamed(args, *_RENAMED, said=_DEPRECATED, both=_TOGETHER)
    from ottla.cli.kafka.console.formatters import formatter

    printing = {
        **read_file(args.formatter_config),
        **tool.key_values([*args.property, *args.formatter_property]),
    }
    for option in ("key_deserializer", "value_deserializer"):
        if getattr(args, option):
            printing[option.replace("_", ".")] = getattr(args, option)
    render = formatter(args.formatter, printing)
    client, properties = open_client(
        args, [*args.consumer_property, *args.command_property], "console-consumer"
    )
    topics = _topics(client, args)
    if not topics:
        print("Processed a total of 0 messages", file=sys.stderr)
        return 0
    from ottla.cli.jobs.consume import Consumption

    return _print_all(Consumption(client, topics, _options(args, properties)), render, args)


def _parser() -> tool.Parser:
    parser = tool.Parser("kafka-console-consumer", "Print the messages of a topic.")
    parser.add_servers(zookeeper=True)
    parser.add_argument("--topic", help="the topic to consume")
    parser.add_argument("--include", "--whitelist", metavar="REGEX", help="the topics to consume")
    parser.add_argument("--partition", type=int, metavar="N", help="only this partition")
    parser.add_argument("--offset", metavar="N|earliest|latest", help="where in the partition to begin")
    parser.add_flag("--from-beginning", help="begin with the earliest message unless the group has an offset")
    parser.add_argument("--group", help="the consumer group to join")
    parser.add_argument("--isolation-level", default="read_uncommitted", help="or read_committed")
    add_printing(parser)
    parser.add_command_config("--consumer.config")
    parser.add_flag("--skip-message-on-error", help="go on after a message that cannot be printed")
    parser.add_flag("--enable-systest-events", help="print shutdown_complete at the end")
    parser.add_flag("--new-consumer", help=argparse.SUPPRESS)
    return parser


def _check(args: argparse.Namespace) -> None:
    if (args.topic is None) == (args.include is None):
        raise tool.UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if args.partition is not None and args.topic is None:
        raise tool.UsageError("The topic is required when partition is specified.")
    if args.offset is not None and args.partition is None:
        raise tool.UsageError("The partition is required when offset is specified.")
    if args.offset is not None and args.from_beginning:
        raise tool.UsageError("Options from-beginning and offset cannot be specified together.")
    if args.group is not None and args.partition is not None:
        raise tool.UsageError("Options group and partition cannot be specified together.")
    if (
        args.offset is not None
        and args.offset.lower() not in ("earliest", "latest")
        and not args.offset.isdecimal()
    ):
        raise tool.UsageError(
            f"The provided offset value '{args.offset}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )


def _topics(client: Client, args: argparse.Namespace) -> list[str]:
    if args.topic is not None:
        from ottla.cli.kafka.console.console_producer import ensure_topic

        ensure_topic(client, args.topic, "Consumer clientId=console-consumer")
        return [args.topic]
    from ottla.client.admin.topics import topic_names

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


def _options(args: argparse.Namespace, properties: dict[str, str]) -> ConsumeOptions:
    from ottla.cli.jobs.consume import ConsumeOptions

    named = {name for name in (args.group, properties.pop("group.id", None)) if name}
    if len(named) > 1:
        raise tool.UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or "
            f"via '--consumer.config') do not match. Detected group ids: {', '.join(map(repr, sorted(named)))}"
        )
    group = None if args.partition is not None else next(iter(named), None)
    isolation = properties.pop("isolation.level", args.isolation_level)
    if isolation not in _ISOLATIONS:
        raise tool.UsageError(
            f"Invalid value {isolation} for configuration isolation.level: String must be one of: "
            f"{', '.join(_ISOLATIONS)}"
        )
    return ConsumeOptions(
        start=_start(args, properties),
        partitions=() if args.partition is None else (args.partition,),
        group=group,
        max_messages=args.max_messages if args.max_messages >= 0 else None,
        isolation=isolation,
        properties=properties,
    )


def _start(args: argparse.Namespace, properties: dict[str, str]) -> Start:
    from ottla.cli.jobs.consume import Start

    reset = properties.pop("auto.offset.reset", None)
    if args.from_beginning and reset not in (None, "earliest", "smallest"):
        raise tool.UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    if reset is not None and reset not in _RESETS and not reset.startswith("by_duration:"):
        raise tool.UsageError(
            f"Invalid value {reset} for configuration auto.offset.reset: use one of earliest, latest, none."
        )
    if args.offset is not None and args.offset.isdecimal():
        return Start(
            "offset", int(args.offset), "earliest" if reset in ("earliest", "smallest") else "latest"
        )
    if args.from_beginning or reset in ("earliest", "smallest") or (args.offset or "").lower() == "earliest":
        return Start("earliest")
    return Start("latest")


def _print_all(consumption: Consumption, render: Formatter, args: argparse.Namespace) -> int:
    code = 0

    def stop(number: int, _frame: object) -> None:
        nonlocal code
        code = 128 + number
        consumption.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    taken = 0
    last = time.monotonic()
    try:
        for batch in consumption.batches():
            if batch:
                for message in batch:
                    taken += 1
                    _print_one(message, render, args.skip_message_on_error)
                sys.stdout.buffer.flush()
                last = time.monotonic()
            elif args.timeout_ms >= 0 and (time.monotonic() - last) * 1000 >= args.timeout_ms:
                break
    finally:
        consumption.close()
        print(f"Processed a total of {taken} messages", file=sys.stderr, flush=True)
        if args.enable_systest_events:
            print("shutdown_complete", flush=True)
    return code


def _print_one(message: ConsumedMessage, render: Formatter, skip: bool) -> None:
    try:
        sys.stdout.buffer.write(render(message))
    except JobError as error:
        if not skip:
            raise
        where = f"offset {message.offset} of partition {message.partition} of topic '{message.topic}'"
        print(f"Error processing message, skipping this message: {where}: {error.message}", file=sys.stderr)


if __name__ == "__main__":
    main()
