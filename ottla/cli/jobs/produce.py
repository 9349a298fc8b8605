"""Producing for `ottla produce` and `kafka-console-producer`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import JobError, from_kafka
from ottla.cli.jobs.messages import Headers, OutgoingMessage, message_from_json
from ottla.cli.jobs.obstacles import Watch, named, undeliverable
from ottla.client.errors import error_code
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from ottla.cli.client import Client

# Whether a producer is idempotent: what Kafka's own decides from its properties, and in its words.

_MOST_IN_FLIGHT = 5
# librdkafka has a second name for each.
_ACKS = ("acks", "request.required.acks")
_RETRIES = ("retries", "message.send.max.retries")
_IN_FLIGHT = ("max.in.flight.requests.per.connection", "max.in.flight")


def idempotence(properties: Mapping[str, Any], default: bool = True) -> bool:
    """`default` applies without enable.idempotence.

    Conflicting settings turn it off, unless it was requested explicitly. Since 4.0 Kafka's producer refuses too many
    requests in flight, even if idempotence is only the default; older versions did as we do.
    """
    asked = "enable.idempotence" in properties
    enabled = str(properties.get("enable.idempotence", default)).lower() == "true"
    refused = [sentence for conflict, sentence in _conflicts(properties) if conflict] if enabled else []
    if asked and refused:
        raise _invalid(refused[0])
    enabled = enabled and not refused
    if not enabled and properties.get("transactional.id"):
        raise _invalid("Cannot set a transactional.id without also enabling idempotence.")
    return enabled


def _conflicts(properties: Mapping[str, Any]) -> list[tuple[bool, str]]:
    in_flight = _value(properties, _IN_FLIGHT) or ""
    return [
        (
            _value(properties, _RETRIES) == "0",
            "Must set retries to non-zero when using the idempotent producer.",
        ),
        (
            _value(properties, _ACKS) not in (None, "all", "-1"),
            "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee "
            "idempotence.",
        ),
        (
            in_flight.isdecimal() and int(in_flight) > _MOST_IN_FLIGHT,
            f"To use the idempotent producer, {_IN_FLIGHT[0]} must be set to at most {_MOST_IN_FLIGHT}. "
            f"Current value is {in_flight}.",
        ),
    ]


def acks_all(properties: Mapping[str, Any]) -> bool:
    return _value(properties, _ACKS) in (None, "all", "-1")


def _value(properties: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    found = [str(properties[name]).strip() for name in names if name in properties]
    return found[-1] if found else None


def _invalid(sentence: str) -> JobError:
    return JobError(sentence, ErrorCode.INVALID_CONFIG)


# Partitions for records without a key, chosen as Kafka's producer does (KIP-794).
#
# librdkafka changes the partition after a time. A file of some hundred kilobytes is read in less, and would go to one
# partition as a whole.

UNASSIGNED = -1  # librdkafka chooses

_BATCH_SIZE = 16_384  # Kafka's default of batch.size
_OVERHEAD = 8  # bytes of a record beside its key and value; so empty records count, too
_LOOK_AGAIN = 5.0
_LOOK_AGAIN_SOON = 0.1
_LOOKUP_SECONDS = 1.0
# A topic that was just created may be unknown for a moment.
_FIRST_LOOKUP_SECONDS = 2.0


class StickyPartitioner:
    """The same partition for about `batch_size` bytes, then another: each once, in random order, before any again.

    `look` returns the partitions that have a leader, or nothing while they are not known.
    """

    def __init__(self, look: Callable[[], Sequence[int]], batch_size: int = _BATCH_SIZE) -> None:
        self._look = look
        self._batch_size = batch_size
        self._left = 0
        self._partition = UNASSIGNED
        self._available: Sequence[int] = ()
        self._round: list[int] = []
        self._look_at = 0.0

    def choose(self, size: int) -> int:
        """The partition of a record whose key and value have `size` bytes."""
        if self._left <= 0:
            self._switch()
        self._left -= size + _OVERHEAD
        return self._partition

    def look_again(self) -> None:
        """A broker may have failed: the next switch asks for the leaders."""
        self._look_at = 0.0

    def _switch(self) -> None:
        if time.monotonic() >= self._look_at:
            # Keep the last known state while the cluster does not answer.
            available = self._look() or self._available
            self._look_at = time.monotonic() + (_LOOK_AGAIN if available else _LOOK_AGAIN_SOON)
            if available != self._available:
                self._available, self._round = available, []
        if not self._available:
            return
        if not self._round:
            self._round = self._next_round()
        self._partition = self._round.pop()
        self._left = self._batch_size

    def _next_round(self) -> list[int]:
        return random.sample(self._available, len(self._available))


class RoundRobinPartitioner(StickyPartitioner):
    """One partition after another, from a random one on, as Kafka's producer did until 2.3."""

    def __init__(self, look: Callable[[], Sequence[int]]) -> None:
        super().__init__(look, batch_size=0)
        self._first = random.random()

    def _next_round(self) -> list[int]:
        first = int(self._first * len(self._available))
        return [*self._available[first:], *self._available[:first]][::-1]


def partitioner_for(
    producer: Producer, topic: str, properties: Mapping[str, Any], *, round_robin: bool = False
) -> StickyPartitioner | None:
    """For a producer with these properties; None if they name another partitioner."""
    if "partitioner" in properties:
        return None
    lookup = Lookup(producer, topic)
    return (
        RoundRobinPartitioner(lookup) if round_robin else StickyPartitioner(lookup, _batch_size(properties))
    )


def _batch_size(properties: Mapping[str, Any]) -> int:
    try:
        return int(properties.get("batch.size", _BATCH_SIZE))
    except ValueError:
        return _BATCH_SIZE  # librdkafka reports the error


class Lookup:
    """Asks by way of the producer's own connections, which speak every security protocol that it does."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._first = True

    def __call__(self) -> list[int]:
        deadline = time.monotonic() + (_FIRST_LOOKUP_SECONDS if self._first else 0.0)
        while not (found := self._led()) and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN_SOON)
        self._first = False
        return found

    def _led(self) -> list[int]:
        from confluent_kafka import KafkaException

        try:
            topic = self._producer.list_topics(self._topic, timeout=_LOOKUP_SECONDS).topics[self._topic]
        except (KafkaException, KeyError):
            return []
        if topic.error is not None:
            return []
        led = [number for number, partition in topic.partitions.items() if partition.leader >= 0]
        return sorted(led or topic.partitions)


# Producing: messages from lines, with a count of those that were not delivered.


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
