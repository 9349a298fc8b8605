"""`kafka-share-consumer-perf-test`"""

from __future__ import annotations

import argparse
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.client_properties import open_client
from ottla.cli.kafka.perf.date_format import DATE_FORMAT, date_format

if TYPE_CHECKING:
    from confluent_kafka import ShareConsumer

_MB = 1024 * 1024
_HEADER = "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    args = _parser().options(argv)
    if args.topic is None:
        raise tool.UsageError('Missing required argument "[topic]"')
    if args.num_records is None:
        raise tool.UsageError("The option --num-records is required.")
    if args.threads < 1 or args.reporting_interval < 1:
        raise tool.UsageError("--threads and --reporting-interval must be at least 1.")
    client, properties = open_client(args, args.command_property, "perf-share-consumer-client")
    if not args.hide_header:
        print(_HEADER, flush=True)
    members = []
    for number in range(1, args.threads + 1):
        name = (
            client.properties["client.id"]
            if args.threads == 1
            else f"{client.properties['client.id']}-{number}"
        )
        consumer = client.share_consumer(
            {
                "client.id": name,
                "check.crcs": False,
                "fetch.max.bytes": args.fetch_size,
                "socket.receive.buffer.bytes": args.socket_buffer_size,
                **properties,
                "group.id": args.group,
            }
        )
        members.append(_Member(consumer, name, number))
    _Measurement(members, args).run()
    return 0


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-share-consumer-perf-test", "Measure how fast a share group can consume records."
    )
    parser.add_servers()
    parser.add_argument("--topic", help="the topic to consume")
    parser.add_argument(
        "--num-records", "--messages", dest="num_records", type=int, metavar="N", help="how many"
    )
    parser.add_argument("--group", default="perf-share-consumer", help="the share group")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="how many members")
    parser.add_argument(
        "--timeout", type=int, default=10_000, metavar="MS", help="give up after so long without any"
    )
    parser.add_argument(
        "--fetch-size", type=int, default=_MB, metavar="BYTES", help="how much one fetch may return"
    )
    parser.add_argument("--socket-buffer-size", type=int, default=2 * _MB, metavar="BYTES")
    parser.add_flag("--hide-header", help="print figures only")
    parser.add_flag("--show-detailed-stats", help="a line for every --reporting-interval")
    parser.add_flag("--show-consumer-stats", help="a line for every member")
    parser.add_argument("--reporting-interval", type=int, default=5000, metavar="MS", help="how often")
    parser.add_many("--command-property", metavar="K=V", help="a property of the consumer")
    parser.add_command_config("--consumer.config")
    parser.add_flag("--print-metrics", help="taken, and prints none: the client tells none")
    parser.add_argument("--date-format", default=DATE_FORMAT, metavar="FORMAT", help="in Java's letters")
    return parser


@dataclass(slots=True)
class _Member:
    """Used by one thread, and looked at when that has ended."""

    consumer: ShareConsumer
    name: str
    number: int
    records: int = 0
    size: int = 0


class _Measurement:
    def __init__(self, members: list[_Member], args: argparse.Namespace) -> None:
        self._members = members
        self._args = args
        self._stamp = date_format(args.date_format)
        self._left = args.num_records
        self._lock = threading.Lock()
        self._failure: JobError | None = None

    def run(self) -> None:
        args, members = self._args, self._members
        for member in members:
            member.consumer.subscribe([args.topic])
        threads = [threading.Thread(target=self._consume, args=(member,), daemon=True) for member in members]
        began = time.time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended = time.time()
        if self._failure is not None:
            raise self._failure
        if args.show_consumer_stats:
            for member in members:
                figures = self._figures(began, ended, member.records, member.size)
                print(
                    f"Share consumer {member.number} having client id {member.name} consumption metrics- {figures}"
                )
        if self._left > 0:
            print(
                "WARNING: Exiting before consuming the expected number of records: timeout "
                f"({args.timeout} ms) exceeded. You can use the --timeout option to increase the timeout."
            )
        for member in members:
            member.consumer.commit_sync()
        records, size = (sum(getattr(each, name) for each in members) for name in ("records", "size"))
        print(self._figures(began, ended, records, size), flush=True)
        for member in members:
            member.consumer.close()

    def _consume(self, member: _Member) -> None:
        from ottla.cli.jobs.share_consume import polled

        args = self._args
        last = reported = time.time()
        before = (0, 0)
        try:
            while self._left > 0 and self._failure is None and (time.time() - last) * 1000 <= args.timeout:
                messages = polled(member.consumer, args.topic, 0.1)
                now = time.time()
                if not messages:
                    continue
                last = now
                member.records += len(messages)
                member.size += sum(len(each.key() or b"") + len(each.value() or b"") for each in messages)
                with self._lock:
                    self._left -= len(messages)
                if args.show_detailed_stats and (now - reported) * 1000 >= args.reporting_interval:
                    self._print_progress(member, reported, now, before)
                    reported, before = now, (member.records, member.size)
        except JobError as error:
            self._failure = error

    def _print_progress(self, member: _Member, began: float, now: float, before: tuple[int, int]) -> None:
        seconds = now - began
        records, size = member.records - before[0], (member.size - before[1]) / _MB
        print(
            f"{self._stamp(began)}, {self._stamp(now)}, {member.size / _MB:.4f}, {size / seconds:.4f}, "
            f"{records / seconds:.4f}, {member.records}, {round(seconds * 1000)} for share consumer {member.number}",
            flush=True,
        )

    def _figures(self, began: float, ended: float, records: int, size: int) -> str:
        seconds = max(ended - began, 0.001)
        megabytes = size / _MB
        return (
            f"{self._stamp(began)}, {self._stamp(ended)}, {megabytes:.4f}, {megabytes / seconds:.4f}, "
            f"{records / seconds:.4f}, {records}, {round(seconds * 1000)}"
        )


if __name__ == "__main__":
    main()
