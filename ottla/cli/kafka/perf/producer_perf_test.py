"""`kafka-producer-perf-test`"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ottla.cli.client import Client
from ottla.cli.errors import JobError, from_kafka
from ottla.cli.jobs.obstacles import without_coordinator
from ottla.cli.jobs.produce import UNASSIGNED, acks_all, idempotence, not_delivered, partitioner_for
from ottla.cli.kafka import tool
from ottla.cli.kafka.perf.measurement import MB, letters, print_metrics
from ottla.cli.kafka.tool import open_client
from ottla.client.coordinators import CoordinatorType

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

_DEFAULT_TRANSACTION_MS = 3000
_RENAMED = (("--producer-props", "--command-property"), ("--producer.config", "--command-config"))


@tool.entry_point()
def main(argv: list[str]) -> None:
    args = _parser().parse_args(argv)
    tool.renamed(args, *_RENAMED, said=tool.DEPRECATED)
    if not args.topic or args.num_records is None:
        raise tool.UsageError("The options --topic and --num-records are required.")
    if args.num_records <= 0:
        raise tool.UsageError("--num-records should be greater than zero.")
    if args.warmup_records >= args.num_records:
        raise tool.UsageError(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records."
        )
    if args.transaction_duration_ms is not None and args.transaction_duration_ms <= 0:
        raise tool.UsageError("--transaction-duration-ms should be greater than zero.")
    if sum([args.record_size is not None, args.payload_file is not None, args.payload_monotonic]) != 1:
        raise tool.UsageError("One of --record-size, --payload-file or --payload-monotonic is required.")
    client, properties = open_client(
        args, [*args.producer_props, *args.command_property], "perf-producer-client"
    )
    payload = _payload(args)
    if args.transactional_id or args.transaction_duration_ms:
        properties["transactional.id"] = args.transactional_id or properties.get(
            "transactional.id", f"performance-producer-{uuid4()}"
        )
    is_idempotent = idempotence(properties, default="transactional.id" in properties)
    producer = client.producer(
        {
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 256 * 1024,
            **properties,
            "enable.idempotence": is_idempotent,
        }
    )
    partitioner = partitioner_for(producer, args.topic, properties)
    transactions = None
    if "transactional.id" in properties:
        duration = args.transaction_duration_ms or _DEFAULT_TRANSACTION_MS
        transactions = _Transactions(client, producer, properties["transactional.id"], duration / 1000)
    if args.warmup_records > 0:
        print(
            f"Warmup first {args.warmup_records} records. Steady state results will print after the complete test "
            "summary.",
            flush=True,
        )
    stats = Stats(
        args.reporting_interval / 1000,
        args.warmup_records,
        partial(not_delivered, client, acks=acks_all(properties)),
    )
    began = time.perf_counter()
    throughput = args.throughput
    for number in range(args.num_records):
        value = payload(number)
        if transactions is not None:
            transactions.before_record()
        partition = UNASSIGNED if partitioner is None else partitioner.choose(len(value))
        while True:
            try:
                producer.produce(args.topic, value, partition=partition, on_delivery=stats.delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if not number & 0x3FF:
            producer.poll(0)
            stats.print_window_when_due()
        if throughput > 0:
            # A delivery report ends a poll early.
            while (ahead := (number + 1) / throughput - (time.perf_counter() - began)) > 0:
                producer.poll(ahead)
                stats.print_window_when_due()
    if transactions is not None:
        transactions.end()
    while producer.flush(1.0):
        stats.print_window_when_due()
    ended = time.perf_counter()
    stats.print_total(ended - began)
    if stats.steady_since is not None:
        stats.print_steady(ended - stats.steady_since)
    if args.print_metrics:
        print_metrics(stats.metrics(ended - began), client.properties["client.id"], "producer-metrics")
    if stats.error is not None:
        raise JobError(f"{stats.failed} records were not delivered: {stats.error}")


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-producer-perf-test", "Measure how fast records can be produced.", """
        --bootstrap-server, --broker-list
        --topic TOPIC                          the topic to produce to
        --num-records N                        how many records
        --record-size BYTES                    size of a record
        --payload-file FILE                    pick records at random from this file
        --payload-delimiter PAYLOAD_DELIMITER  delimiter of records in the file
        --payload-monotonic                    send 0, 1, 2, … as records
        --throughput N:float                   records per second; -1 means no limit
        --producer-props K=V+                  properties of the producer
        --command-property K=V+                properties of the producer
        --command-config, --producer.config
        --print-metrics                        print the producer's metrics
        --transactional-id ID                  produce in transactions with this transactional id
        --transaction-duration-ms MS           time between commits (3000)
        --warmup-records N                     records to leave out of the second summary
        --reporting-interval MS                time between progress lines
        """,
    )  # fmt: skip
    parser.set_defaults(payload_delimiter="\\n", throughput=-1, warmup_records=0, reporting_interval=5000)
    return parser


class _Transactions:
    """Commits each transaction when it has lasted long enough; the next record begins a new one."""

    def __init__(self, client: Client, producer: Producer, transactional_id: str, seconds: float) -> None:
        self._client = client
        self._producer = producer
        self._id = transactional_id
        self._seconds = seconds
        self._open_since: float | None = None
        self._call(producer.init_transactions, client.timeout)

    def before_record(self) -> None:
        if self._open_since is not None and time.perf_counter() - self._open_since >= self._seconds:
            self.end()
        if self._open_since is None:
            self._call(self._producer.begin_transaction)
            self._open_since = time.perf_counter()

    def end(self) -> None:
        if self._open_since is not None:
            self._call(self._producer.commit_transaction)
            self._open_since = None

    def _call(self, step: Callable[..., None], *args: float) -> None:
        from confluent_kafka import KafkaException

        try:
            step(*args)
        except KafkaException as failure:
            reason = without_coordinator(self._client, CoordinatorType.TRANSACTION, self._id)
            raise reason or from_kafka(failure.args[0], "The transaction") from None


def _payload(args: argparse.Namespace) -> Callable[[int], bytes]:
    if args.payload_monotonic:
        return lambda number: str(number).encode()
    if args.payload_file is not None:
        delimiter = args.payload_delimiter.encode().decode("unicode_escape")
        choices = [line.encode() for line in tool.read_text(args.payload_file).split(delimiter) if line]
        if not choices:
            raise JobError(f"File does not exist or empty file provided: {args.payload_file}")
        return lambda number: random.choice(choices)
    value = letters(args.record_size)
    return lambda number: value


class Stats:
    """Latencies of delivered records, in windows and in total; those after the first `warmup` have a second total."""

    def __init__(
        self, window_seconds: float, warmup: int, explain: Callable[[KafkaError, Message[Any, Any]], JobError]
    ) -> None:
        self._explain = explain
        self._window_seconds = window_seconds
        self._warmup = warmup
        self._warmup_bytes = 0
        self.steady_since: float | None = None
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
            self.error = self.error or self._explain(error, message).message
            return
        self.latencies.append((message.latency() or 0.0) * 1000)
        self.bytes += len(message.value() or b"")
        if self._warmup and len(self.latencies) == self._warmup:
            self.steady_since, self._warmup_bytes = time.perf_counter(), self.bytes

    def print_window_when_due(self) -> None:
        now = time.perf_counter()
        seconds = now - self._window_began
        if seconds < self._window_seconds:
            return
        window = self.latencies[self._window_from :]
        size = self.bytes - self._window_bytes
        average = sum(window) / len(window) if window else 0.0
        print(
            f"{len(window)} records sent, {len(window) / seconds:.1f} records/sec "
            f"({size / seconds / MB:.2f} MB/sec), {average:.1f} ms avg latency, "
            f"{max(window, default=0.0):.1f} ms max latency.",
            flush=True,
        )
        self._window_began, self._window_from, self._window_bytes = now, len(self.latencies), self.bytes

    def print_total(self, seconds: float) -> None:
        self._print_summary("", self.latencies, self.bytes, seconds)

    def print_steady(self, seconds: float) -> None:
        steady = self.latencies[self._warmup :]
        self._print_summary(" steady state", steady, self.bytes - self._warmup_bytes, seconds)

    def metrics(self, seconds: float) -> dict[str, float]:
        """Return metrics of Kafka's producer that follow from the delivered records."""
        count = len(self.latencies)
        return {
            "record-error-rate": self.failed / seconds,
            "record-error-total": self.failed,
            "record-send-rate": count / seconds,
            "record-send-total": count,
            "record-size-avg": self.bytes / count if count else 0.0,
        }

    def _print_summary(self, which: str, latencies: list[float], size: int, seconds: float) -> None:
        ordered = sorted(latencies)
        count = len(ordered)
        average = f"{sum(ordered) / count:.2f}" if count else "NaN"
        p50, p95, p99, p999 = (
            int(ordered[min(int(count * part), count - 1)]) if count else 0
            for part in (0.5, 0.95, 0.99, 0.999)
        )
        print(
            f"{count}{which} records sent, {count / seconds:f} records/sec ({size / seconds / MB:.2f} MB/sec), "
            f"{average} ms avg latency, {ordered[-1] if count else 0.0:.2f} ms max latency, "
            f"{p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
        )
