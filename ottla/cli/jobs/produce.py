"""Producing: messages from lines, with a count of those that were not delivered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import JobError, from_kafka
from ottla.cli.jobs.messages import Headers, OutgoingMessage, message_from_json
from ottla.cli.jobs.obstacles import Watch, named, undeliverable
from ottla.cli.jobs.producer_properties import acks_all, idempotence
from ottla.cli.jobs.sticky_partitioner import partitioner_for
from ottla.client.errors import error_code

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from ottla.cli.client import Client


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How a line becomes a message."""

    key: bytes | None = None
    key_separator: bytes | None = None
    null_marker: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    json_lines: bool = False


@dataclass(slots=True)
class ProduceSummary:
    messages: int = 0  # acknowledged by the broker (with acks=0: sent)
    bytes: int = 0  # of keys and values
    seconds: float = 0.0
    failed: int = 0
    first_error: str | None = None


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    acks: str = "all"
    compression: str = "none"
    # Never twice, unless the properties exclude it; librdkafka needs half a second or more to get ready for it.
    idempotent: bool = False
    timeout: float = 30.0  # until a message counts as failed
    properties: Mapping[str, str] = field(default_factory=dict)
    # Applied to each message before it is sent. Raises JobError for invalid messages.
    encrypt: Callable[[str, OutgoingMessage], OutgoingMessage] | None = None
    # Messages without a key go to one partition after another, not to the same one for a batch.
    round_robin: bool = False


def read_messages(lines: Iterable[bytes], line_format: LineFormat) -> Iterator[OutgoingMessage]:
    """One message per line, without its line end; JobError for a line that does not fit the format."""
    for number, raw in enumerate(lines, 1):
        line = raw[:-2] if raw.endswith(b"\r\n") else raw.removesuffix(b"\n")
        if line_format.json_lines:
            if not line.strip():
                continue
            message = message_from_json(line, number)
            yield OutgoingMessage(
                message.value,
                line_format.key if message.key is None else message.key,
                (*message.headers, *line_format.headers),
                message.partition if line_format.partition is None else line_format.partition,
                message.timestamp,
            )
            continue
        key: bytes | None = line_format.key
        value: bytes | None = line
        if line_format.key_separator is not None:
            key, separator, value = line.partition(line_format.key_separator)
            if not separator:
                shown = line_format.key_separator.decode(errors="replace")
                raise JobError(f"Line {number} has no key: '{shown}' does not occur in it.")
        if line_format.null_marker is not None:
            key = None if key == line_format.null_marker else key
            value = None if value == line_format.null_marker else value
        yield OutgoingMessage(value, key, line_format.headers, line_format.partition)


# Final errors of librdkafka for which the cluster may know the reason.
_GAVE_UP = frozenset(
    {"_MSG_TIMED_OUT", "_TRANSPORT", "_TIMED_OUT", "NOT_ENOUGH_REPLICAS", "LEADER_NOT_AVAILABLE"}
)


def not_delivered(
    client: Client,
    error: KafkaError,
    message: Message[Any, Any],
    *,
    acks: bool,
    before: JobError | None = None,
) -> JobError:
    """Why a message was not delivered; the cluster is asked where librdkafka only knows how long it has tried.

    `acks`: all in-sync replicas had to acknowledge it. `before` is what kept messages waiting, for the case that it has
    ended right now.
    """
    topic = message.topic() or ""
    failure = from_kafka(error, f"Topic '{topic}'")
    if error.name() in _GAVE_UP:
        number = message.partition()
        partitions = None if number is None or number < 0 else [number]
        reason = undeliverable(client, topic, partitions=partitions, acks_all=acks) or before
        if reason is not None:
            return JobError(named(reason), reason.code)
    return failure


class Production:
    """One run of producing to a topic; `summary` is complete after `finish`.

    `warn` is called with what keeps messages waiting, once for each reason.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        options: ProduceOptions,
        warn: Callable[[JobError], None] | None = None,
    ) -> None:
        client.ensure_reachable()
        self.topic = topic
        self.summary = ProduceSummary()
        self._client = client
        self._fatal: KafkaError | None = None
        self._started = time.perf_counter()
        self._sent = 0
        self._encrypt = options.encrypt
        properties = {"acks": options.acks, **options.properties}
        self._acks_all = acks_all(properties)
        self._producer: Producer = client.producer(
            self._config(options, idempotence(properties, default=options.idempotent))
        )
        self._partitioner = partitioner_for(
            self._producer, topic, options.properties, round_robin=options.round_robin
        )
        self._watch = None
        if warn is not None:
            self._watch = Watch(lambda: undeliverable(client, topic, acks_all=self._acks_all), warn)

    def _config(self, options: ProduceOptions, idempotent: bool) -> dict[str, Any]:
        return {
            "acks": options.acks,
            # Without idempotence only this keeps the order when a request has to be sent again.
            "max.in.flight.requests.per.connection": 5 if idempotent else 1,
            "compression.type": options.compression,
            # Java's partitioner, so that a key goes to the same partition as from a Java producer.
            "partitioner": "murmur2_random",
            "message.timeout.ms": round(options.timeout * 1000),
            # How long a topic that was just created may stay unknown to its brokers.
            "topic.metadata.propagation.max.ms": 5000,
            "linger.ms": 5,
            "delivery.report.only.error": True,
            "message.max.bytes": 1_000_000_000,  # the broker decides on the maximum size
            "queue.buffering.max.messages": 500_000,
            **options.properties,
            "enable.idempotence": idempotent,
            "on_delivery": self._on_delivery,
            "error_cb": self._on_error,
        }

    def _on_delivery(self, error: KafkaError | None, message: Message[Any, Any]) -> None:
        if error is not None:
            self.summary.failed += 1
            if self.summary.first_error is None:
                before = None if self._watch is None else self._watch.last
                failure = not_delivered(self._client, error, message, acks=self._acks_all, before=before)
                self.summary.first_error = failure.message
            self.summary.bytes -= len(message.value() or b"") + len(message.key() or b"")

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error
        elif self._partitioner is not None:
            self._partitioner.look_again()

    def send(self, message: OutgoingMessage) -> None:
        from confluent_kafka import KafkaException

        if self._encrypt is not None:
            message = self._encrypt(self.topic, message)
        arguments: dict[str, Any] = {}
        size = len(message.value or b"") + len(message.key or b"")
        if message.headers:
            arguments["headers"] = list(message.headers)
        if message.partition is not None:
            arguments["partition"] = message.partition
        elif message.key is None and self._partitioner is not None:
            arguments["partition"] = self._partitioner.choose(size)
        if message.timestamp is not None:
            arguments["timestamp"] = message.timestamp
        self._sent += 1
        while True:
            try:
                self._producer.produce(self.topic, message.value, message.key, **arguments)
            except BufferError:
                self._producer.poll(0.1)
                self._look()
            except KafkaException as failure:
                self.summary.failed += 1
                if self.summary.first_error is None:
                    error = from_kafka(failure.args[0], f"Topic '{self.topic}'")
                    self.summary.first_error = error.message
                return
            else:
                break
        self.summary.bytes += size
        if not self._sent & 0xFF:
            self._producer.poll(0)
        if self._fatal is not None:
            raise self._fatal_error(self._fatal)

    def idle(self) -> None:
        self._producer.poll(0)
        if len(self._producer):
            self._look()

    def flush(self) -> None:
        # In short slices: successes are not reported, so nothing would wake a longer wait. Each message has
        # an end by message.timeout.ms.
        while self._flush_some():
            self._look()

    def _flush_some(self) -> int:
        from confluent_kafka import KafkaException

        try:
            return self._producer.flush(0.01)
        except KafkaException as failure:  # a fatal error, after which nothing is sent
            raise self._fatal_error(failure.args[0]) from None

    def _fatal_error(self, error: KafkaError) -> JobError:
        if error.name() == "CLUSTER_AUTHORIZATION_FAILED":
            return JobError(
                f"Not authorized to write to topic '{self.topic}': an ACL must allow Write on it.",
                error_code(error.code()),
            )
        return from_kafka(error, f"Topic '{self.topic}'")

    def _look(self) -> None:
        if self._watch is not None:
            self._watch.look(len(self._producer))

    def finish(self) -> ProduceSummary:
        self.flush()
        self.summary.seconds = time.perf_counter() - self._started
        self.summary.messages = self._sent - self.summary.failed
        return self.summary
