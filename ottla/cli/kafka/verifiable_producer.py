"""`kafka-verifiable-producer`"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import JobError
from ottla.cli.jobs.produce import (
    UNASSIGNED,
    StickyPartitioner,
    acks_all,
    idempotence,
    not_delivered,
    partitioner_for,
)
from ottla.cli.kafka import tool
from ottla.cli.kafka.tool import open_client
from ottla.cli.kafka.verifiable_consumer import say, stop_on_signals, text

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer


@tool.entry_point()
def main(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-verifiable-producer", "Produce counted values and report what became of each.", """
        --bootstrap-server, --broker-list
        --topic TOPIC           the topic to produce to
        --max-messages N        number of records; -1 means no limit
        --throughput N:float    messages per second
        """,
    )  # fmt: skip
    parser.add_argument(
        "--acks", type=int, default=-1, choices=(-1, 0, 1), help="acks setting of the producer"
    )
    parser.add_options(
        """
        --message-create-time, -T MS  the first timestamp
        --value-prefix N              values are N.0, N.1, …
        --repeating-keys N            keys are 0 … N-1, again and again
        --command-property K=V*       producer property
        --command-config, --producer.config
        """
    )
    parser.set_defaults(max_messages=-1, throughput=-1, message_create_time=-1)
    args = parser.parse_args(argv)
    if not args.topic:
        raise tool.UsageError("The option --topic is required.")
    client, properties = open_client(args, args.command_property, "verifiable-producer")
    # Kafka's tool never sends twice, so that each value is reported once: without retries no idempotence.
    chosen = {"acks": str(args.acks), "retries": "0", **properties}
    is_idempotent = idempotence(chosen)
    producer = client.producer(
        {"partitioner": "murmur2_random", "linger.ms": 0, **chosen, "enable.idempotence": is_idempotent}
    )
    partitioner = partitioner_for(producer, args.topic, properties)
    explain = partial(not_delivered, client, acks=acks_all(chosen))
    _Run(producer, partitioner, explain, args).run()


class _Run:
    def __init__(
        self,
        producer: Producer,
        partitioner: StickyPartitioner | None,
        explain: Callable[[KafkaError, Message[Any, Any]], JobError],
        args: argparse.Namespace,
    ) -> None:
        self._producer = producer
        self._partitioner = partitioner
        self._explain = explain
        self._reasons: dict[tuple[str, int | None], str] = {}
        self._args = args
        self._stopped = False
        self._acked = 0

    def run(self) -> None:
        args = self._args
        stop_on_signals(self._stop)
        say("startup_complete")
        began = time.perf_counter()
        sent = 0
        created = args.message_create_time
        while not self._stopped and (args.max_messages < 0 or sent < args.max_messages):
            value = str(sent) if args.value_prefix is None else f"{args.value_prefix}.{sent}"
            key = None if args.repeating_keys is None else str(sent % args.repeating_keys)
            stamp = (
                {} if created < 0 else {"timestamp": created + round((time.perf_counter() - began) * 1000)}
            )
            partition = UNASSIGNED
            if key is None and self._partitioner is not None:
                partition = self._partitioner.choose(len(value))
            try:
                self._producer.produce(
                    args.topic, value, key, partition=partition, on_delivery=self._on_delivery, **stamp
                )
            except BufferError:
                self._producer.poll(0.05)
                continue
            sent += 1
            wait = sent / args.throughput - (time.perf_counter() - began) if args.throughput > 0 else 0.0
            self._producer.poll(max(wait, 0.0))
        while self._producer.flush(0.1):
            pass
        seconds = max(time.perf_counter() - began, 1e-9)
        say("shutdown_complete")
        say(
            "tool_data",
            sent=sent,
            acked=self._acked,
            target_throughput=int(args.throughput),
            avg_throughput=self._acked / seconds,
        )

    def _stop(self) -> None:
        self._stopped = True

    def _on_delivery(self, error: KafkaError | None, message: Message[Any, Any]) -> None:
        texts: dict[str, object] = {"key": text(message.key()), "value": text(message.value())}
        if error is None:
            self._acked += 1
            where = {"offset": message.offset(), "topic": message.topic(), "partition": message.partition()}
            say("producer_send_success", **texts, **where)
        else:
            what = {"exception": error.name(), "message": self._why(error, message)}
            say("producer_send_error", **texts, topic=message.topic(), **what)

    def _why(self, error: KafkaError, message: Message[Any, Any]) -> str:
        """Ask the cluster once per partition, not once per message."""
        key = (error.name(), message.partition())
        if key not in self._reasons:
            self._reasons[key] = self._explain(error, message).message
        return self._reasons[key]
