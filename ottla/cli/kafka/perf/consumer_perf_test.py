"""`kafka-consumer-perf-test`"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import from_kafka
from ottla.cli.kafka import tool
from ottla.cli.kafka.client_properties import open_client
from ottla.cli.kafka.perf.date_format import DATE_FORMAT, date_format

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_MB = 1024 * 1024
_HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_DETAILED_HEADER = (
    "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    if not argv:
        raise tool.UsageError("This tool is used to verify the consumer performance.")
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
    write_time = date_format(args.date_format)
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
        print(_DETAILED_HEADER if args.show_detailed_stats else _HEADER)
    measurement = _Measurement(consumer, args, write_time)
    measurement.run()
    if args.print_metrics:
        from ottla.cli.kafka.perf.producer_perf_test import print_metrics

        kind = "consumer-fetch-manager-metrics"
        print_metrics(measurement.metrics(), client.properties["client.id"], kind)
    return 0


def _parser() -> tool.Parser:
    parser = tool.Parser("kafka-consumer-perf-test", "Measure how fast records can be consumed.")
    parser.add_servers()
    parser.add_argument("--topic", help="the topic to consume")
    parser.add_argument("--include", metavar="REGEX", help="the topics to consume")
    parser.add_argument("--num-records", type=int, metavar="N", help="how many")
    parser.add_argument("--messages", type=int, metavar="N", help="older word for --num-records")
    parser.add_argument(
        "--group", default=f"perf-consumer-{random.randrange(100_000)}", help="the consumer group"
    )
    parser.add_argument(
        "--timeout", type=int, default=10_000, metavar="MS", help="give up after so long without any"
    )
    parser.add_argument(
        "--fetch-size", type=int, default=_MB, metavar="BYTES", help="how much one fetch may return"
    )
    parser.add_flag("--from-latest", help="begin with what comes from now on")
    parser.add_flag("--hide-header", help="print figures only")
    parser.add_flag("--show-detailed-stats", help="a line for every --reporting-interval")
    parser.add_argument("--reporting-interval", type=int, default=5000, metavar="MS", help="how often")
    parser.add_many(
        "--command-property", "--consumer-property", metavar="K=V", help="a property of the consumer"
    )
    parser.add_command_config("--consumer.config")
    parser.add_flag("--print-metrics", help="print what the consumer counted, too")
    parser.add_argument("--date-format", default=DATE_FORMAT, metavar="FORMAT", help="in Java's letters")
    parser.add_argument(
        "--socket-buffer-size", type=int, default=2 * _MB, metavar="BYTES", help="of the receiving side"
    )
    return parser


class _Measurement:
    def __init__(
        self, consumer: Consumer, args: argparse.Namespace, write_time: Callable[[float], str]
    ) -> None:
        self._consumer = consumer
        self._stamp = write_time
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
                    raise from_kafka(error, f"Topic '{message.topic() or args.topic}'")
                self._records += 1
                self._bytes += len(message.value() or b"") + len(message.key() or b"")
            if messages:
                last = now
            elif (now - last) * 1000 > args.timeout:
                print(
                    "WARNING: Exiting before consuming the expected number of records: timeout "
                    f"({args.timeout} ms) exceeded. You can use the --timeout option to increase the timeout."
                )
                break
            if args.show_detailed_stats and (now - reported) * 1000 >= args.reporting_interval:
                self._print_progress(now, now - reported, before)
                reported, before = now, (self._records, self._bytes)
        self._consumer.close()
        self._seconds = time.time() - began
        if not args.show_detailed_stats:
            self._print_total(began, time.time())

    def metrics(self) -> dict[str, float]:
        """Those of Kafka's consumer that can be told from what was taken."""
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
        records, size = self._records - before[0], (self._bytes - before[1]) / _MB
        print(
            f"{self._stamp(now)}, 0, {self._bytes / _MB:.4f}, {size / seconds:.4f}, {self._records}, "
            f"{records / seconds:.4f}, 0, {round(seconds * 1000)}, {size / seconds:.4f}, {records / seconds:.4f}",
            flush=True,
        )

    def _print_total(self, began: float, ended: float) -> None:
        seconds = ended - began
        joining = round(self._joining_ms)
        fetching = max(round(seconds * 1000) - joining, 1)
        size = self._bytes / _MB
        print(
            f"{self._stamp(began)}, {self._stamp(ended)}, {size:.4f}, {size / seconds:.4f}, {self._records}, "
            f"{self._records / seconds:.4f}, {joining}, {fetching}, {size / fetching * 1000:.4f}, "
            f"{self._records / fetching * 1000:.4f}"
        )


if __name__ == "__main__":
    main()
