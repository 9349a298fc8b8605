"""Consuming for `ottla consume` and `kafka-console-consumer`, also as a member of a share group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ottla.cli.errors import JobError, from_kafka
from ottla.cli.jobs.messages import ConsumedMessage
from ottla.cli.jobs.obstacles import Watch, undeliverable, without_coordinator
from ottla.client.admin.offsets import Partition, earliest_offsets, latest_offsets, offsets_at
from ottla.client.admin.topics import describe_topics, partitions_of
from ottla.client.coordinators import CoordinatorType
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

    from ottla.cli.client import Client
    from ottla.cli.jobs.messages import ConsumedMessage

# Consuming: partitions from a chosen position, or as a member of a group.

# librdkafka's words for places in a partition.
OFFSET_BEGINNING = -2
OFFSET_END = -1
OFFSET_TAIL_BASE = -2000

_BATCH = 500
# How long one call may block: the pace at which Ctrl-C and the end of partitions are noticed.
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Start:
    """First message to read. `value` is an offset, a number of messages before the end, or a timestamp."""

    kind: Literal["earliest", "latest", "offset", "tail", "timestamp"]
    value: int = 0
    # Where to begin if the offset is not there; None is an error.
    otherwise: Literal["earliest", "latest"] | None = None


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    start: Start = Start("latest")
    partitions: Sequence[int] = ()
    group: str | None = None
    max_messages: int | None = None
    until_end: bool = False
    isolation: str = "read_committed"
    properties: Mapping[str, str] = field(default_factory=dict)
    # Applied to each message before the caller gets it. Raises JobError for unreadable messages.
    decrypt: Callable[[ConsumedMessage], ConsumedMessage] | None = None


class Consumption:
    """One run of a consumer. Iterate over `batches`; a group commits only messages that the caller has taken."""

    def __init__(
        self,
        client: Client,
        topics: Sequence[str],
        options: ConsumeOptions,
        warn: Callable[[JobError], None] | None = None,
    ) -> None:
        """`warn` is called once for each reason that keeps messages from arriving."""
        self.options = options
        self.connected = True
        self._client = client
        self._ends: dict[Partition, int] = {}
        self._left: set[Partition] = set()
        self._assigned = False
        self._stopped = False
        self._suspect = False
        self._fatal: KafkaError | None = None
        client.ensure_reachable()
        describe_topics(client.cluster, topics)
        self._topics = list(dict.fromkeys(topics))
        self._watch = None if warn is None else Watch(self._obstacle, warn)
        self._consumer: Consumer = client.consumer(self._config())
        if options.group is None:
            self._assign()
        else:
            self._consumer.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
            )

    def _config(self) -> dict[str, Any]:
        options, start = self.options, self.options.start
        return {
            # librdkafka requires a group id; nothing is committed to this one.
            "group.id": options.group or "ottla-consume",
            "enable.auto.commit": options.group is not None,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest" if "earliest" in (start.kind, start.otherwise) else "latest",
            "enable.partition.eof": options.until_end,
            "isolation.level": options.isolation,
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 5,
            **options.properties,
            "error_cb": self._on_error,
        }

    # -- where to begin and to end -------------------------------------------------------------------------

    def _assign(self) -> None:
        from confluent_kafka import TopicPartition

        chosen = partitions_of(self._client.cluster, self._topics)
        if self.options.partitions:
            wanted = set(self.options.partitions)
            missing = wanted - {number for _, number in chosen}
            if missing:
                raise JobError(f"Topic '{self._topics[0]}' has no partition {min(missing)}.")
            chosen = [key for key in chosen if key[1] in wanted]
        starts = self._start_offsets(chosen)
        if self.options.until_end:
            self._ends = latest_offsets(self._client.cluster, chosen)
            self._left = {key for key in chosen if starts[key] < self._ends[key]}
        self._consumer.assign(
            [TopicPartition(topic, number, starts[topic, number]) for topic, number in chosen]
        )
        self._assigned = True

    def _start_offsets(self, chosen: list[Partition]) -> dict[Partition, int]:
        waiting = {} if self.options.until_end else self._without_leader(chosen)
        return self._known_offsets([key for key in chosen if key not in waiting]) | waiting

    def _without_leader(self, chosen: list[Partition]) -> dict[Partition, int]:
        """Return start positions for partitions without a leader. librdkafka resolves them once there is one."""
        start = self.options.start
        logical = {
            "earliest": OFFSET_BEGINNING,
            "latest": OFFSET_END,
            "offset": start.value,
            "tail": OFFSET_TAIL_BASE - start.value,
        }.get(start.kind)
        if logical is None:
            return {}
        topics = self._client.cluster.topics(self._topics)
        led = {
            (name, number)
            for name, topic in topics.items()
            for number, leader in topic.leaders.items()
            if leader >= 0
        }
        return {key: logical for key in chosen if key not in led}

    def _known_offsets(self, chosen: list[Partition]) -> dict[Partition, int]:
        start = self.options.start
        if start.kind == "timestamp":
            return offsets_at(self._client.cluster, chosen, start.value)
        if start.kind == "latest":
            return latest_offsets(self._client.cluster, chosen)
        earliest = earliest_offsets(self._client.cluster, chosen)
        if start.kind == "earliest":
            return earliest
        latest = latest_offsets(self._client.cluster, chosen)
        if start.kind == "tail":
            return {key: max(earliest[key], latest[key] - start.value) for key in chosen}
        starts = dict.fromkeys(chosen, start.value)
        for key in chosen:
            if earliest[key] <= start.value <= latest[key]:
                continue
            if start.otherwise is not None:
                starts[key] = earliest[key] if start.otherwise == "earliest" else latest[key]
            else:
                raise JobError(
                    f"Offset {start.value} is not in partition {key[1]} of topic '{key[0]}', "
                    f"which holds {earliest[key]} to {latest[key]}.",
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                )
        return starts

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._config()["enable.auto.commit"] in (True, "true"):
            self._commit_starts(consumer, partitions)
        self._assigned = True
        self._left |= {(partition.topic, partition.partition) for partition in partitions}

    def _commit_starts(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Commit the start positions, even of partitions from which nothing is read. Kafka's consumer does so as well;
        otherwise the next member could skip messages."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            committed = consumer.committed(partitions, timeout=self._client.timeout)
            new = [(each.topic, each.partition) for each in committed if each.offset < 0]
            starts = (earliest_offsets if self.options.start.kind == "earliest" else latest_offsets)(
                self._client.cluster, new
            )
            if starts:
                consumer.commit(
                    offsets=[TopicPartition(*key, offset) for key, offset in starts.items()],
                    asynchronous=False,
                )
        except (KafkaException, JobError):
            return  # a leader or the coordinator is moving: librdkafka finds it, and commits what we take

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._left -= {(partition.topic, partition.partition) for partition in partitions}

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.name() == "_AUTHENTICATION":
            self._fatal = error
        elif error.name() == "_ALL_BROKERS_DOWN":
            self._suspect = True

    # -- the messages --------------------------------------------------------------------------------------

    def batches(self) -> Iterator[list[ConsumedMessage]]:
        taken = 0
        limit = self.options.max_messages
        while not self._stopped and (limit is None or taken < limit):
            if self.options.until_end and self._assigned and not self._left:
                return
            # The first message as soon as it is there, then whatever else is waiting.
            first = self._consumer.poll(_POLL_SECONDS)
            if self._fatal is not None:
                raise from_kafka(self._fatal)
            if first is None:
                if self._suspect:
                    self.connected = self._probe()
                    self._suspect = not self.connected
                if self._watch is not None:
                    self._watch.look(taken)
                yield []
                continue
            polled = [first, *self._consumer.consume(_BATCH, 0)]
            batch = [message for message in map(self._accept, polled) if message is not None]
            if limit is not None:
                batch = batch[: limit - taken]
            batch, failure = self._decrypted(batch)
            taken += len(batch)
            yield batch
            self._store(batch)
            if failure is not None:
                raise failure

    def _decrypted(self, batch: list[ConsumedMessage]) -> tuple[list[ConsumedMessage], JobError | None]:
        decrypt = self.options.decrypt
        if decrypt is None:
            return batch, None
        readable: list[ConsumedMessage] = []
        try:
            for message in batch:
                readable.append(decrypt(message))
        except JobError as failure:
            return readable, failure
        return readable, None

    def _probe(self) -> bool:
        """Return True if a broker answers. librdkafka reports "all brokers down" even if only the first of several
        addresses refuses."""
        from confluent_kafka import KafkaException

        try:
            self._consumer.list_topics(self._topics[0], timeout=2.0)
        except KafkaException:
            return False
        return True

    def _obstacle(self) -> JobError | None:
        group = self.options.group
        if group is not None and (reason := without_coordinator(self._client, CoordinatorType.GROUP, group)):
            return reason
        chosen = self.options.partitions or None
        reasons = (undeliverable(self._client, topic, partitions=chosen) for topic in self._topics)
        return next((reason for reason in reasons if reason is not None), None)

    def _accept(self, message: Message[Any, Any]) -> ConsumedMessage | None:
        """Return None for events without a message, and for messages after the end at the start of the run."""
        topic, number, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
        error = message.error()
        if error is not None:
            if error.name() != "_PARTITION_EOF":
                subject = f"Topic '{topic or ', '.join(self._topics)}'"
                raise from_kafka(error, subject, self.options.group)
            self._left.discard((topic, number))
            return None
        end = self._ends.get((topic, number))
        if end is not None and offset >= end - 1:
            self._left.discard((topic, number))
        return consumed(message) if end is None or offset < end else None

    def _store(self, batch: list[ConsumedMessage]) -> None:
        """Commit only messages that the caller has taken, so that the next member skips none."""
        from confluent_kafka import KafkaException, TopicPartition

        if self.options.group is None or not batch:
            return
        following = {(message.topic, message.partition): message.offset + 1 for message in batch}
        for (topic, number), offset in following.items():
            try:
                self._consumer.store_offsets(offsets=[TopicPartition(topic, number, offset)])
            except KafkaException:
                continue  # the partition went to another member meanwhile; it begins where we committed

    def stop(self) -> None:
        """End `batches` after the current one."""
        self._stopped = True

    def close(self) -> None:
        self._consumer.close()


def consumed(message: Message[Any, Any], delivery_count: int | None = None) -> ConsumedMessage:
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE

    kind, timestamp = message.timestamp()
    known = kind != TIMESTAMP_NOT_AVAILABLE
    return ConsumedMessage(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp if known else None,
        ("LogAppendTime" if kind == TIMESTAMP_LOG_APPEND_TIME else "CreateTime") if known else None,
        message.key(),
        message.value(),
        [(name, _header_bytes(value)) for name, value in _header_pairs(message.headers())],
        # ShareFetch does not carry leader epochs; what the library reports there means nothing.
        message.leader_epoch() if delivery_count is None else None,
        delivery_count,
    )


def _header_pairs(headers: Any) -> list[tuple[str, Any]]:
    return list(headers.items()) if isinstance(headers, dict) else list(headers or ())


def _header_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


# Consuming as a member of a share group.

Fate = Literal["accept", "release", "reject"]

_COMMIT_SECONDS = 20.0


class ShareMember:
    """Every message that `poll` returned must be decided on before the next poll. Those that are not when the member
    closes are delivered to another member."""

    def __init__(self, client: Client, group: str, topic: str, properties: Mapping[str, str]) -> None:
        self._topic = topic
        self._consumer = client.share_consumer(
            {**properties, "group.id": group, "share.acknowledgement.mode": "explicit"}
        )
        self._consumer.subscribe([topic])

    def poll(self, seconds: float = _POLL_SECONDS) -> list[ConsumedMessage]:
        return [
            consumed(message, message.delivery_count())
            for message in polled(self._consumer, self._topic, seconds)
        ]

    def decide(self, message: ConsumedMessage, fate: Fate) -> None:
        """The next poll, or closing the member, sends the acknowledgement."""
        from confluent_kafka import AcknowledgeType

        self._consumer.acknowledge_offset(
            message.topic, message.partition, message.offset, AcknowledgeType[fate.upper()]
        )

    def close(self) -> None:
        from confluent_kafka import KafkaException

        try:
            self._consumer.commit_sync(_COMMIT_SECONDS)
        except KafkaException as failure:
            raise from_kafka(failure.args[0], f"Topic '{self._topic}'") from None
        finally:
            self._consumer.close()


def polled(consumer: Any, topic: str, seconds: float) -> list[Message[Any, Any]]:
    """Messages of one poll of a share consumer; errors become sentences."""
    from confluent_kafka import KafkaException

    try:
        messages = list(consumer.poll(seconds))
    except KafkaException as failure:
        raise from_kafka(failure.args[0], f"Topic '{topic}'") from None
    for message in messages:
        error = message.error()
        if error is not None:
            raise from_kafka(error, f"Topic '{topic}'")
    return messages
