"""`kafka-producer-perf-test`"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import JobError, from_kafka
from ottla.cli.kafka import tool
from ottla.cli.kafka.properties_options import open_client

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_WINDOW_SECONDS = 5.0
_MB = 1024 * 1024


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    args = _parser().parse_args(argv)
    if not args.topic or args.num_records is None:
        raise tool.UsageError("The options --topic and --num-records are required.")
    if args.num_records <= 0:
        raise tool.UsageError("--num-records should be greater than zero")
    if sum([args.record_size is not None, args.payload_file is not None, args.payload_monotonic]) != 1:
        raise tool.UsageError("One of --record-size, --payload-file or --payload-monotonic is required.")
    client, properties = open_client(
        args, [*args.producer_props, *args.command_property], "perf-producer-client"
    )
    payload = _payload(args)
    stats = Stats()
    producer = client.producer(
        {
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 256 * 1024,
            **properties,
        }
    )
    began = time.perf_counter()
    throughput = args.throughput
    for number in range(args.num_records):
        value = payload(number)
        while True:
            try:
                producer.produce(args.topic, value, on_delivery=stats.delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if not number & 0x3FF:
            producer.poll(0)
            stats.print_window_when_due()
        if throughput > 0:
            ahead = (number + 1) / throughput - (time.perf_counter() - began)
            if ahead > 0:
                producer.poll(ahead)
                stats.print_window_when_due()
    while producer.flush(1.0):
        stats.print_window_when_due()
    stats.print_total(time.perf_counter() - began)
    if stats.error is not None:
        raise JobError(f"{stats.failed} records were not delivered: {stats.error}")
    return 0


def _parser() -> tool.Parser:
    parser = tool.Parser("kafka-producer-perf-test", "Measure how fast records can be produced.")
    parser.add_servers()
    parser.add_argument("--topic", help="the topic to produce to")
    parser.add_argument("--num-records", type=int, metavar="N", help="how many records")
    parser.add_argument("--record-size", type=int, metavar="BYTES", help="how large each of them is")
    parser.add_argument(
        "--payload-file", type=Path, metavar="FILE", help="take records at random from this file"
    )
    parser.add_argument("--payload-delimiter", default="\\n", help="what is between them")
    parser.add_flag("--payload-monotonic", help="records are 0, 1, 2, …")
    parser.add_argument(
        "--throughput", type=float, default=-1, metavar="N", help="records per second; -1: all"
    )
    parser.add_argument(
        "--producer-props",
        nargs="+",
        action="extend",
        default=[],
        metavar="K=V",
        help="properties of the producer",
    )
    parser.add_many("--command-property", metavar="K=V", help="a property of the producer")
    parser.add_command_config("--producer.config")
    parser.add_flag("--print-metrics", help=argparse.SUPPRESS)
    parser.add_argument("--warmup-records", type=int, default=0, help=argparse.SUPPRESS)
    return parser


def _payload(args: argparse.Namespace) -> Callable[[int], bytes]:
    if args.payload_monotonic:
        return lambda number: str(number).encode()
    if args.payload_file is not None:
        delimiter = args.payload_delimiter.encode().decode("unicode_escape")
        choices = [line.encode() for line in tool.read_text(args.payload_file).split(delimiter) if line]
        if not choices:
            raise JobError(f"File does not exist or empty file provided: {args.payload_file}")
        return lambda number: random.choice(choices)
    value = bytes(random.choices(range(65, 91), k=args.record_size))
    return lambda number: value


class Stats:
    """Latencies of what was delivered, in windows of five seconds and in total."""

    def __init__(self) -> None:
        self.failed = 0
        self.error: str | None = None
        self.latencies: list[float] = []
        self.bytes = 0
        self._window_began = time.perf_counter()
        self._window_from = 0
        self._window_bytes = 0

    def delivered(self, error: KafkaError | None, message: Message[Any, Any]) -> None:
        if error is not None:
            self.failed += 1
            self.error = self.error or from_kafka(error, f"Topic '{message.topic()}'").message
            return
        self.latencies.append((message.latency() or 0.0) * 1000)
        self.bytes += len(message.value() or b"")

    def print_window_when_due(self) -> None:
        now = time.perf_counter()
        seconds = now - self._window_began
        if seconds < _WINDOW_SECONDS:
            return
        window = self.latencies[self._window_from :]
        size = self.bytes - self._window_bytes
        average = sum(window) / len(window) if window else 0.0
        print(
            f"{len(window)} records sent, {len(window) / seconds:.1f} records/sec "
            f"({size / seconds / _MB:.2f} MB/sec), {average:.1f} ms avg latency, "
            f"{max(window, default=0.0):.1f} ms max latency.",
            flush=True,
        )
        self._window_began, self._window_from, self._window_bytes = now, len(self.latencies), self.bytes

    def print_total(self, seconds: float) -> None:
        ordered = sorted(self.latencies)
        count = len(ordered)
        average = f"{sum(ordered) / count:.2f}" if count else "NaN"
        p50, p95, p99, p999 = (
            int(ordered[min(int(count * part), count - 1)]) if count else 0
            for part in (0.5, 0.95, 0.99, 0.999)
        )
        print(
            f"{count} records sent, {count / seconds:f} records/sec ({self.bytes / seconds / _MB:.2f} MB/sec), "
            f"{average} ms avg latency, {ordered[-1] if count else 0.0:.2f} ms max latency, "
            f"{p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
        )


if __name__ == "__main__":
    main()
