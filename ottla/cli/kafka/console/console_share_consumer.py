"""`kafka-console-share-consumer`"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.properties_options import add_printing, open_client, read_file

if TYPE_CHECKING:
    from ottla.cli.jobs.messages import ConsumedMessage
    from ottla.cli.jobs.share_consume import Fate, ShareMember
    from ottla.cli.kafka.console.formatters import Formatter

_GROUP = "console-share-consumer"
# Older names, and what they are called now.
_OLDER = {
    "property": "formatter-property",
    "consumer-property": "command-property",
    "consumer-config": "command-config",
}


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    args = _parser().options(argv)
    _check(args)
    from ottla.cli.kafka.console.formatters import formatter

    printing = {
        **read_file(args.formatter_config),
        **tool.key_values([*args.property, *args.formatter_property]),
    }
    for option in ("key_deserializer", "value_deserializer"):
        if getattr(args, option):
            printing[option.replace("_", ".")] = getattr(args, option)
    render = formatter(args.formatter, printing)
    args.command_config = args.command_config or args.consumer_config
    client, properties = open_client(args, [*args.consumer_property, *args.command_property], _GROUP)
    group = _group(args, properties.pop("group.id", None))
    from ottla.cli.jobs.share_consume import ShareMember
    from ottla.cli.kafka.console.console_producer import ensure_topic

    ensure_topic(client, args.topic, f"ShareConsumer clientId={_GROUP}")
    member = ShareMember(client, group, args.topic, properties)
    fate: Fate = "reject" if args.reject else "release" if args.release else "accept"
    return _Run(member, render, fate, args).run()


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-console-share-consumer", "Print the messages of a topic as a member of a share group."
    )
    parser.add_servers()
    parser.add_argument("--topic", help="the topic to consume")
    parser.add_argument("--group", help=f"the share group to join; {_GROUP} unless it is given")
    parser.add_flag("--release", help="give messages back to the group instead of accepting them")
    parser.add_flag("--reject", help="reject messages instead of accepting them")
    parser.add_flag("--reject-message-on-error", help="reject a message that cannot be printed, and go on")
    add_printing(parser)
    parser.add_argument(
        "--consumer-config", type=Path, metavar="FILE", help="older word for --command-config"
    )
    parser.add_command_config()
    parser.add_flag("--enable-systest-events", help="print shutdown_complete at the end")
    return parser


def _check(args: argparse.Namespace) -> None:
    if args.topic is None:
        raise tool.UsageError("--topic is a required argument")
    if args.reject and args.release:
        raise tool.UsageError("At most one of --reject and --release may be specified.")
    for older, newer in _OLDER.items():
        if not getattr(args, older.replace("-", "_")):
            continue
        if getattr(args, newer.replace("-", "_")):
            raise tool.UsageError(f"Options --{older} and --{newer} cannot be specified together.")
        print(
            f"Option --{older} is deprecated and will be removed in a future version. Use --{newer} instead.",
            file=sys.stderr,
        )


def _group(args: argparse.Namespace, named: str | None) -> str:
    groups = {name for name in (args.group, named) if name}
    if len(groups) > 1:
        raise tool.UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or "
            f"via '--consumer-config') do not match. Detected group ids: {', '.join(map(repr, sorted(groups)))}"
        )
    return groups.pop() if groups else _GROUP


class _Run:
    def __init__(self, member: ShareMember, render: Formatter, fate: Fate, args: argparse.Namespace) -> None:
        self._member = member
        self._render = render
        self._fate = fate
        self._args = args
        self._taken = 0
        self._code: int | None = None

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        limit, timeout = self._args.max_messages, self._args.timeout_ms
        last = time.monotonic()
        try:
            while self._code is None and (limit < 0 or self._taken < limit):
                batch = self._member.poll()
                if batch:
                    self._take(batch if limit < 0 else batch[: limit - self._taken])
                    last = time.monotonic()
                elif timeout >= 0 and (time.monotonic() - last) * 1000 >= timeout:
                    break
        finally:
            self._member.close()
            print(f"Processed a total of {self._taken} messages", file=sys.stderr, flush=True)
            if self._args.enable_systest_events:
                print("shutdown_complete", flush=True)
        return self._code or 0

    def _stop(self, number: int, _frame: object) -> None:
        self._code = 128 + number

    def _take(self, batch: list[ConsumedMessage]) -> None:
        """Print first, then decide: a message that was not printed is given to another."""
        lines: list[bytes] = []
        fates: list[tuple[ConsumedMessage, Fate]] = []
        for message in batch:
            try:
                lines.append(self._render(message))
                fates.append((message, self._fate))
            except JobError as error:
                if not self._args.reject_message_on_error:
                    raise
                print(f"Error processing message, rejecting this message: {error.message}", file=sys.stderr)
                fates.append((message, "reject"))
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()
        for message, fate in fates:
            self._member.decide(message, fate)
        self._taken += len(batch)


if __name__ == "__main__":
    main()
