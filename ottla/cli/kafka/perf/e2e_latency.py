"""`kafka-e2e-latency`"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ottla.cli.client import Client
from ottla.cli.errors import JobError, from_kafka
from ottla.cli.jobs.produce import UNASSIGNED, Lookup, StickyPartitioner, idempotence, not_delivered
from ottla.cli.kafka import tool
from ottla.cli.kafka.perf.measurement import letters
from ottla.cli.kafka.tool import open_client
from ottla.client.admin.offsets import latest_offsets
from ottla.client.admin.topics import create_topic, partitions_of, topic_names

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_POLL_SECONDS = 60.0
_PROGRESS = 1000
_POSITIONAL = ("--bootstrap-server", "--topic", "--num-records", "--producer-acks", "--record-size")
_DEPRECATED = (
    "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named "
    "arguments instead: --bootstrap-server, --topic, --num-records, --producer-acks, --record-size, --command-config"
)


@tool.entry_point()
def main(argv: list[str]) -> None:
    args = _parser().parse_args(_with_names(argv))
    for name in _POSITIONAL:
        if getattr(args, name[2:].replace("-", "_")) is None:
            raise tool.missing(name[2:])
    if args.producer_acks not in ("1", "all"):
        raise tool.UsageError(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. "
            "Please use '1' or 'all'."
        )
    if args.num_records <= 0:
        raise tool.UsageError("Value for --num-records must be a positive integer.")
    for name in ("record-size", "record-key-size", "record-header-key-size", "num-headers"):
        if getattr(args, name.replace("-", "_")) < 0:
            raise tool.UsageError(f"Value for --{name} must be a non-negative integer.")
    if args.record_header_size < -1:
        raise tool.UsageError(
            "Value for --record-header-size must be a non-negative integer or -1 for null header value."
        )
    client, properties = open_client(args, (), "e2e-latency")
    of_producer = {**properties, "acks": args.producer_acks}
    is_idempotent = idempotence(of_producer, default=False)
    consumer = _consumer(client, args.topic, properties)
    producer = client.producer(
        {
            **of_producer,
            "enable.idempotence": is_idempotent,
            "partitioner": "murmur2_random",
            "linger.ms": 0,
        }
    )
    partitioner = StickyPartitioner(Lookup(producer, args.topic))
    latencies = []
    for number in range(args.num_records):
        key = letters(args.record_key_size) if args.record_key_size else None
        value = letters(args.record_size)
        headers: list[tuple[str, str | bytes | None]] = [
            (
                letters(args.record_header_key_size).decode(),
                None if args.record_header_size == -1 else letters(args.record_header_size),
            )
            for _ in range(args.num_headers)
        ]
        delivery = _Delivery()
        partition = partitioner.choose(len(value)) if key is None else UNASSIGNED
        began = time.perf_counter_ns()
        producer.produce(args.topic, value, key, partition=partition, headers=headers, on_delivery=delivery)
        producer.flush()
        if delivery.failed is not None:
            raise not_delivered(client, *delivery.failed, acks=args.producer_acks == "all")
        _check(consumer, key, value, headers)
        elapsed = time.perf_counter_ns() - began
        if number % _PROGRESS == 0:
            print(f"{number}\t{elapsed / 1_000_000}", flush=True)
        latencies.append(elapsed)
    consumer.close()
    _print_results(latencies)


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-e2e-latency", "Measure the latency from producer to consumer.", """
        --bootstrap-server, --broker-list
        --topic TOPIC                   topic to use; created if missing
        --num-records N                 number of records, sent one after another
        --producer-acks 1|all           acks setting of the producer
        --record-size BYTES             size of a record
        --record-key-size BYTES         size of the key; 0 means no key
        --num-headers N                 number of headers per record
        --record-header-key-size BYTES
        --record-header-size BYTES      size of a header value; -1 means null
        --command-config
        """,
    )  # fmt: skip
    parser.set_defaults(record_key_size=0, num_headers=0, record_header_key_size=0, record_header_size=0)
    return parser


def _with_names(argv: list[str]) -> list[str]:
    """Older versions took all arguments by position."""
    if not argv or any(each.startswith("-") for each in argv):
        return argv
    if len(argv) not in (5, 6):
        raise tool.UsageError(
            f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got {len(argv)}. Usage: "
            "bootstrap-server topic num-records producer-acks record-size [optional] command-config"
        )
    print(_DEPRECATED)
    names = (*_POSITIONAL, "--command-config")
    return [part for name, value in zip(names, argv, strict=False) for part in (name, value)]


class _Delivery:
    failed: tuple[KafkaError, Message[Any, Any]] | None = None

    def __call__(self, error: KafkaError | None, message: Message[Any, Any]) -> None:
        if error is not None:
            self.failed = error, message


def _consumer(client: Client, topic: str, properties: dict[str, str]) -> Consumer:
    from confluent_kafka import TopicPartition

    if topic not in topic_names(client.cluster, include_internal=True):
        print(
            f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
        )
        create_topic(client.cluster, topic, partitions=1, replication_factor=1)
    consumer = client.consumer(
        {
            "group.id": f"test-group-{time.time_ns() // 1_000_000}",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "fetch.wait.max.ms": 0,
            **properties,
        }
    )
    ends = latest_offsets(client.cluster, partitions_of(client.cluster, [topic]))
    consumer.assign([TopicPartition(name, number, offset) for (name, number), offset in ends.items()])
    return consumer


def _check(consumer: Consumer, key: bytes | None, value: bytes, headers: list[Any]) -> None:
    message = consumer.poll(_POLL_SECONDS)
    if message is None:
        raise JobError("poll() timed out before finding a result (timeout:[60000ms])")
    error = message.error()
    if error is not None:
        raise from_kafka(error, f"Topic '{message.topic()}'")
    read = message.value()
    if read != value:
        raise JobError(f"The message value read [{read!r}] did not match the message value sent [{value!r}]")
    if message.key() != key:
        raise JobError(
            f"The message key read [{message.key()!r}] did not match the message key sent [{key!r}]"
        )
    if (message.headers() or []) != headers:
        raise JobError("The message headers read did not match the message headers sent")


def _print_results(nanoseconds: list[int]) -> None:
    count = len(nanoseconds)
    print(f"Avg latency: {sum(nanoseconds) / count / 1_000_000:.4f} ms")
    ordered = sorted(each // 1_000_000 for each in nanoseconds)
    p50, p99, p999 = (ordered[int(count * part)] for part in (0.5, 0.99, 0.999))
    print(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")
