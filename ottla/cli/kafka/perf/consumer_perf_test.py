"""`kafka-consumer-perf-test` and `kafka-share-consumer-perf-test`"""

from __future__ import annotations

import argparse
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import JobError, from_kafka
from ottla.cli.jobs.consume import polled
from ottla.cli.kafka import tool
from ottla.cli.kafka.perf.measurement import DATE_FORMAT, MB, date_format, print_metrics
from ottla.cli.kafka.tool import open_client

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, ShareConsumer

_COLUMNS = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, "
    "fetch.nMsg.sec"
)
_SHARE_COLUMNS = "data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"


@tool.entry_point()
def main(argv: list[str]) -> None:
    args = _parser().options(argv)
    if (args.num_records is None) == (args.messages is None):
        raise tool.UsageError("Exactly one of the following arguments is required: [messages], [num-records]")
    if (args.topic is None) == (args.include is None):
        raise tool.UsageError("Exactly one of the following arguments is required: [topic], [include]")
    tool.renamed(
        args, ("--messages", "--num-records"), said="Warning: {old} is deprecated. Use {new} instead."
    )
    args.num_records = args.messages if args.num_records is None else args.num_records
    tool.renamed(args, ("--consumer.config", "--command-config"), said=tool.DEPRECATED)
    date_format(args.date_format)  # refuse a wrong one before anything is opened
    client, properties = open_client(args, args.command_property, "perf-consumer-client")
    consumer = client.consumer(
        {
            "group.id": args.group,
            "auto.offset.reset": "latest" if args.from_latest else "earliest",
            "enable.auto.commit": True,
            "check.crcs": False,
            "fetch.message.max.bytes": args.fetch_size,
            "queued.min.messages": 1_000_000,
            "socket.receive.buffer.bytes": args.socket_buffer_size,
            "fetch.queue.backoff.ms": 1,
            **properties,
        }
    )
    if not args.hide_header:
        print(f"{'time, threadId' if args.show_detailed_stats else 'start.time, end.time'}, {_COLUMNS}")
    measurement = _Measurement(consumer, args)
    measurement.run()
    if args.print_metrics:
        kind = "consumer-fetch-manager-metrics"
        print_metrics(measurement.metrics(), client.properties["client.id"], kind)


@tool.entry_point()
def main_share(argv: list[str]) -> None:
    args = _share_parser().options(argv)
    if args.topic is None:
        raise tool.missing("topic")
    if args.num_records is None:
        raise tool.UsageError("The option --num-records is required.")
    if args.threads < 1 or args.reporting_interval < 1:
        raise tool.UsageError("--threads and --reporting-interval must be at least 1.")
    client, properties = open_client(args, args.command_property, "perf-share-consumer-client")
    if not args.hide_header:
        print(f"start.time, end.time, {_SHARE_COLUMNS}", flush=True)
    members = []
    for number in range(1, args.threads + 1):
        name = client.properties["client.id"] + (f"-{number}" if args.threads > 1 else "")
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
        members.append(_ShareMember(consumer, name, number))
    _ShareMeasurement(members, args).run()


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-consumer-perf-test", "Measure how fast records can be consumed.", """
        --bootstrap-server, --broker-list
        --topic TOPIC               the topic to consume
        --include REGEX             the topics to consume
        --num-records N             how many
        --messages N                old name of --num-records
        --group GROUP               the consumer group
        --timeout MS                stop after this time without records
        --fetch-size BYTES          maximum bytes per fetch
        --from-latest               start at the end
        --hide-header               print no header
        --show-detailed-stats       print a line every --reporting-interval
        --reporting-interval MS     how often
        --command-property, --consumer-property K=V*  consumer property
        --command-config, --consumer.config
        --print-metrics             print the consumer's metrics
        --date-format FORMAT        date format, as a Java pattern
        --socket-buffer-size BYTES  size of the receive buffer
        """,
        without_any="This tool is used to verify the consumer performance.",
    )  # fmt: skip
    _set_defaults(parser, f"perf-consumer-{random.randrange(100_000)}")
    return parser


def _share_parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-share-consumer-perf-test", "Measure how fast a share group can consume records.", """
        --bootstrap-server, --broker-list
        --topic TOPIC                the topic to consume
        --num-records, --messages N  how many
        --group GROUP                the share group
        --threads N                  how many members
        --timeout MS                 stop after this time without records
        --fetch-size BYTES           maximum bytes per fetch
        --socket-buffer-size BYTES
        --hide-header                print no header
        --show-detailed-stats        print a line every --reporting-interval
        --show-consumer-stats        print a line per member
        --reporting-interval MS      how often
        --command-property K=V*      consumer property
        --command-config, --consumer.config
        --print-metrics              no effect: the client has no metrics
        --date-format FORMAT         date format, as a Java pattern
        """,
    )  # fmt: skip
    _set_defaults(parser, "perf-share-consumer")
    parser.set_defaults(threads=1)
    return parser


def _set_defaults(parser: tool.Parser, group: str) -> None:
    parser.set_defaults(
        group=group,
        timeout=10_000,
        fetch_size=MB,
        reporting_interval=5000,
        date_format=DATE_FORMAT,
        socket_buffer_size=2 * MB,
    )


def _size(message: Message[Any, Any]) -> int:
    return len(message.key() or b"") + len(message.value() or b"")


def _warn_of_timeout(milliseconds: int) -> None:
    print(
        "WARNING: Exiting before consuming the expected number of records: timeout "
        f"({milliseconds} ms) exceeded. You can use the --timeout option to increase the timeout."
    )


class _Measurement:
    def __init__(self, consumer: Consumer, args: argparse.Namespace) -> None:
        self._consumer = consumer
        self._stamp = date_format(args.date_format)
        self._seconds = 0.0
        self._args = args
        self._joining_since: float | None = None
        self._joining_ms = 0.0
        self._records = 0
        self._bytes = 0

    def run(self) -> None:
        args = self._args
        self._joining_since = time.time()
        topics = [args.topic] if args.topic else [f"^({args.include})$"]
        self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke)
        began = last = reported = time.time()
        before = (0, 0)
        while self._records < args.num_records:
            messages = self._consumer.consume(min(5000, args.num_records - self._records), 0.05)
            now = time.time()
            for message in messages:
                error = message.error()
                if error is not None:
                    raise from_kafka(error, f"Topic '{message.topic() or args.topic}'", args.group)
                self._records += 1
                self._bytes += _size(message)
            if messages:
                last = now
            elif (now - last) * 1000 > args.timeout:
                _warn_of_timeout(args.timeout)
                break
            if args.show_detailed_stats and (now - reported) * 1000 >= args.reporting_interval:
                self._print_progress(now, now - reported, before)
                reported, before = now, (self._records, self._bytes)
        self._consumer.close()
        self._seconds = time.time() - began
        if not args.show_detailed_stats:
            self._print_total(began, time.time())

    def metrics(self) -> dict[str, float]:
        """Return metrics of Kafka's consumer that follow from the consumed records."""
        return {
            "bytes-consumed-rate": self._bytes / self._seconds,
            "bytes-consumed-total": self._bytes,
            "records-consumed-rate": self._records / self._seconds,
            "records-consumed-total": self._records,
        }

    def _on_assign(self, _consumer: Consumer, _partitions: list[Any]) -> None:
        if self._joining_since is not None:
            self._joining_ms += (time.time() - self._joining_since) * 1000
            self._joining_since = None

    def _on_revoke(self, _consumer: Consumer, _partitions: list[Any]) -> None:
        self._joining_since = time.time()

    def _print_progress(self, now: float, seconds: float, before: tuple[int, int]) -> None:
        records, size = self._records - before[0], (self._bytes - before[1]) / MB
        print(
            f"{self._stamp(now)}, 0, {self._bytes / MB:.4f}, {size / seconds:.4f}, {self._records}, "
            f"{records / seconds:.4f}, 0, {round(seconds * 1000)}, {size / seconds:.4f}, {records / seconds:.4f}",
            flush=True,
        )

    def _print_total(self, began: float, ended: float) -> None:
        seconds = ended - began
        joining = round(self._joining_ms)
        fetching = max(round(seconds * 1000) - joining, 1)
        size = self._bytes / MB
        print(
            f"{self._stamp(began)}, {self._stamp(ended)}, {size:.4f}, {size / seconds:.4f}, {self._records}, "
            f"{self._records / seconds:.4f}, {joining}, {fetching}, {size / fetching * 1000:.4f}, "
            f"{self._records / fetching * 1000:.4f}"
        )


@dataclass(slots=True)
class _ShareMember:
    """Used by one thread, and looked at when that has ended."""

    consumer: ShareConsumer
    name: str
    number: int
    records: int = 0
    size: int = 0


class _ShareMeasurement:
    def __init__(self, members: list[_ShareMember], args: argparse.Namespace) -> None:
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
            _warn_of_timeout(args.timeout)
        for member in members:
            member.consumer.commit_sync()
        records, size = (sum(getattr(each, name) for each in members) for name in ("records", "size"))
        print(self._figures(began, ended, records, size), flush=True)
        for member in members:
            member.consumer.close()

    def _consume(self, member: _ShareMember) -> None:
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
                member.size += sum(map(_size, messages))
                with self._lock:
                    self._left -= len(messages)
                if args.show_detailed_stats and (now - reported) * 1000 >= args.reporting_interval:
                    self._print_progress(member, reported, now, before)
                    reported, before = now, (member.records, member.size)
        except JobError as error:
            self._failure = error

    def _print_progress(
        self, member: _ShareMember, began: float, now: float, before: tuple[int, int]
    ) -> None:
        seconds = now - began
        records, size = member.records - before[0], (member.size - before[1]) / MB
        print(
            f"{self._stamp(began)}, {self._stamp(now)}, {member.size / MB:.4f}, {size / seconds:.4f}, "
            f"{records / seconds:.4f}, {member.records}, {round(seconds * 1000)} for share consumer {member.number}",
            flush=True,
        )

    def _figures(self, began: float, ended: float, records: int, size: int) -> str:
        seconds = max(ended - began, 0.001)
        megabytes = size / MB
        return (
            f"{self._stamp(began)}, {self._stamp(ended)}, {megabytes:.4f}, {megabytes / seconds:.4f}, "
            f"{records / seconds:.4f}, {records}, {round(seconds * 1000)}"
        )
