"""Data that clients store in a cluster, with checks that it survives: records, transactions, offsets, configs."""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = 250  # per codec and call
KEYS = 20
_SECONDS = 90.0

Partition = tuple[str, int]


def quiet(servers: str, **settings: Any) -> dict[str, Any]:
    """Return client settings that log nothing about brokers coming and going."""
    return {"bootstrap.servers": servers, "log_level": 0, "logger": None} | {
        name.replace("_", "."): value for name, value in settings.items()
    }


class ClientState:
    """All written data, in the order of the acknowledgements. Invariant: one writer at a time."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin: AdminClient
        self.transactional: Producer
        self.committed: dict[Partition, list[bytes]] = defaultdict(list)
        self.written: dict[Partition, list[bytes]] = defaultdict(list)  # with aborted and open transactions
        self.latest: dict[bytes, bytes | None] = {}
        self.offsets: dict[str, dict[Partition, int]] = defaultdict(dict)
        self.starts: dict[Partition, int] = {}
        self.configs: dict[tuple[ResourceType, str], dict[str, str]] = defaultdict(dict)
        self.topic_ids: dict[str, str] = {}
        self.partitions: dict[str, int] = {}
        # These clients live through every move.
        self.steady = Producer(
            quiet(
                servers,
                enable_idempotence=True,
                delivery_timeout_ms=300_000,
                # A freshly started Kafka knows no topics yet.
                topic_metadata_propagation_max_ms=300_000,
            )
        )
        self.follower = Consumer(
            quiet(servers, group_id="followers", auto_offset_reset="earliest", enable_auto_commit=False)
        )
        self._numbers = 0
        self._followed = 0
        self._random = random.Random(39)

    def meet(self, brokers: int = 3) -> None:
        """Connect to the current brokers.

        Coordinators need new clients: librdkafka waits forever for coordinators that disappeared with all brokers.
        """
        self.admin = AdminClient(quiet(self.servers))
        deadline = time.monotonic() + _SECONDS
        while len(self._brokers()) < brokers:
            assert time.monotonic() < deadline, "not all brokers come"
            time.sleep(0.1)
        self.transactional = Producer(
            quiet(self.servers, transactional_id="accounts", transaction_timeout_ms=600_000)
        )
        self.transactional.init_transactions(_SECONDS)

    def _brokers(self) -> Collection[int]:
        with contextlib.suppress(KafkaException):  # a fresh broker may return no metadata
            return self.admin.list_topics(timeout=5).brokers
        return ()

    # Topics and configs

    def create(
        self, name: str, partitions: int = 1, *, assignment: list[list[int]] | None = None, **configs: str
    ) -> None:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, partitions, 3, config=settings)
        if assignment is not None:
            topic = NewTopic(name, partitions, replica_assignment=assignment, config=settings)
        for made in self.admin.create_topics([topic]).values():
            made.result(_SECONDS)
        self.partitions[name] = partitions
        self.configs[ResourceType.TOPIC, name].update(settings)
        [described] = self.admin.describe_topics(TopicCollection([name])).values()
        self.topic_ids[name] = str(described.result(_SECONDS).topic_id)

    def forget(self, name: str) -> None:
        for gone in self.admin.delete_topics([name]).values():
            gone.result(_SECONDS)
        del self.partitions[name], self.topic_ids[name], self.configs[ResourceType.TOPIC, name]

    def extend(self, name: str, partitions: int) -> None:
        for done in self.admin.create_partitions([NewPartitions(name, partitions)]).values():
            done.result(_SECONDS)
        self.partitions[name] = partitions

    def configure(self, kind: ResourceType, name: str, **configs: str) -> None:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in settings.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result(_SECONDS)
        if kind is not ResourceType.GROUP:  # only Kafka 4 has group configs
            self.configs[kind, name].update(settings)

    # Records

    def write_every_codec(self, who: str) -> None:
        for partition, codec in enumerate(CODECS):
            producer = Producer(
                quiet(
                    self.servers,
                    compression_type=codec,
                    enable_idempotence=True,
                    linger_ms=20,
                    batch_size=20_000,
                )
            )
            values = [self._text(f"{who}-{codec}-{number}") for number in range(RECORDS)]
            for value in values:
                producer.produce(
                    "codecs", value, value[:10], partition, headers={"codec": codec}, on_delivery=delivered
                )
            assert producer.flush(_SECONDS) == 0
            self.note("codecs", partition, values)

    def _text(self, name: str) -> bytes:
        return f"{name}:{self._random.randbytes(400).hex()}".encode()

    def note(self, topic: str, partition: int, values: Iterable[bytes], *, committed: bool = True) -> None:
        values = list(values)
        self.written[topic, partition] += values
        if committed:
            self.committed[topic, partition] += values

    def write_on(self, count: int = 200) -> None:
        """Write more numbers with the producer that lives through every move. It may have to wait for brokers."""
        for _ in range(count):
            self.steady.produce("steady", str(self._numbers).encode(), partition=0, on_delivery=delivered)
            self.note("steady", 0, [str(self._numbers).encode()])
            self._numbers += 1

    def flush(self) -> None:
        assert self.steady.flush(_SECONDS) == 0

    def follow(self) -> None:
        """Check that the consumer that lives through every move gets each number once."""
        while self._followed < self._numbers:
            message = self.follower.poll(_SECONDS)
            assert message is not None, f"no number {self._followed} comes"
            if message.error():
                continue
            assert message.value() == str(self._followed).encode()
            self._followed += 1
        self.follower.commit(asynchronous=False)
        self.offsets["followers"]["steady", 0] = self._followed

    def write_keys(self, who: str) -> None:
        """Write the same keys repeatedly, to give compaction work, and delete a few."""
        producer = Producer(
            quiet(self.servers, enable_idempotence=True, compression_type="lz4", batch_size=5000)
        )
        for number in range(40):
            for key in (f"key-{index}".encode() for index in range(KEYS)):
                value = self._text(f"{who}-{number}") if number < 39 or key != b"key-3" else None
                producer.produce("compacted", value, key, 0, on_delivery=delivered)
                self.latest[key] = value
        # Not compacted, because the active segment never is.
        producer.produce(
            "compacted", self._text("end" * 100), f"{who}-end".encode(), 0, on_delivery=delivered
        )
        assert producer.flush(_SECONDS) == 0

    # Transactions

    def transact(self, who: str) -> None:
        """Run three transactions: committed with offsets, aborted, committed."""
        for name, commit in (("first", True), ("aborted", False), ("second", True)):
            values = [f"{who}-{name}-{number}".encode() for number in range(5)]
            self.transactional.begin_transaction()
            for value in values:
                self.transactional.produce("accounts", value, partition=0)
            assert self.transactional.flush(_SECONDS) == 0
            reader = Consumer(quiet(self.servers, group_id="auditors"))
            offset = len(self.written["accounts", 0])
            self.transactional.send_offsets_to_transaction(
                [TopicPartition("codecs", 1, offset)], reader.consumer_group_metadata(), _SECONDS
            )
            reader.close()
            if commit:
                self.transactional.commit_transaction(_SECONDS)
                self.offsets["auditors"]["codecs", 1] = offset
            else:
                self.transactional.abort_transaction(_SECONDS)
            self.note("accounts", 0, values, committed=commit)

    def leave_open(self, who: str) -> None:
        """Leave a transaction open. The next producer with the same id aborts it, under any broker."""
        producer = Producer(quiet(self.servers, transactional_id="forgetful", transaction_timeout_ms=600_000))
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        producer.produce("open", f"{who}-open".encode(), partition=0)
        assert producer.flush(_SECONDS) == 0
        self.note("open", 0, [f"{who}-open".encode()], committed=False)
        self._forgetful = producer  # dropped with the next one: an orderly close would abort

    # Groups and log start offsets

    def commit(self, group: str, topic: str, partition: int, offset: int, **settings: Any) -> None:
        consumer = Consumer(quiet(self.servers, group_id=group, **settings))
        patiently(
            lambda: consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        )
        consumer.close()
        self.offsets[group][topic, partition] = offset

    def write_and_trim(self, offset: int) -> None:
        values = [str(number).encode() for number in range(100)]
        producer = Producer(quiet(self.servers, enable_idempotence=True))
        for value in values:
            producer.produce("trimmed", value, partition=0, on_delivery=delivered)
        assert producer.flush(_SECONDS) == 0
        self.note("trimmed", 0, values)
        self.trim("trimmed", 0, offset - 50)

    def trim(self, topic: str, partition: int, offset: int) -> None:
        def delete() -> None:
            admin = AdminClient(quiet(self.servers))
            for done in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
                done.result(_SECONDS)

        patiently(delete)
        self.starts[topic, partition] = offset

    # Checks

    def check(self, *, by_kafka: bool) -> None:
        """Check that everything is present, record by record."""
        self.check_topics()
        self.check_configs(everything=by_kafka)
        self.check_records()
        self.check_offsets()

    def check_topics(self) -> None:
        described = self.admin.describe_topics(TopicCollection(list(self.partitions)))
        topics = {name: future.result(_SECONDS) for name, future in described.items()}
        assert {name: len(topic.partitions) for name, topic in topics.items()} == self.partitions
        assert {name: str(topic.topic_id) for name, topic in topics.items()} == self.topic_ids

    def check_configs(self, *, everything: bool) -> None:
        for (kind, name), wanted in self.configs.items():
            [described] = self.admin.describe_configs([ConfigResource(kind, name)]).values()
            found = described.result(_SECONDS)
            # Ottla keeps configs that only Kafka 3.9 knows; only Kafka shows them.
            expected = {key: value for key, value in wanted.items() if key in found or everything}
            assert {key: found[key].value for key in expected} == expected, name

    def check_records(self) -> None:
        for isolation, expected in (("read_committed", self.committed), ("read_uncommitted", self.written)):
            for (topic, partition), values in expected.items():
                start = self.starts.get((topic, partition), 0)
                found = [each.value() for each in self.read(topic, partition, isolation)]
                expected_here = values[start:]
                where = f"{topic}-{partition} under {isolation}"
                assert [each[:40] for each in found] == [each[:40] for each in expected_here], where
                assert found == expected_here, where
        if "compacted" in self.partitions:
            self.check_keys()
        for (topic, partition), start in self.starts.items():
            assert patiently(lambda at=(topic, partition): self._earliest(*at)) == start

    def _earliest(self, topic: str, partition: int) -> int:
        """Return the earliest offset, with a new client: others may cache an old leader."""
        admin = AdminClient(quiet(self.servers))
        asked = {TopicPartition(topic, partition): OffsetSpec.earliest()}
        [answer] = admin.list_offsets(asked).values()
        return int(answer.result(_SECONDS).offset)

    def check_keys(self) -> None:
        keys = {each.key(): each.value() for each in self.read("compacted", 0)}
        found = {key: keys.get(key) for key in self.latest}
        assert found == self.latest

    def read(self, topic: str, partition: int, isolation: str = "read_committed") -> list[Any]:
        """Return all messages of a partition up to the end visible to the reader."""
        consumer = Consumer(
            quiet(
                self.servers,
                group_id=str(uuid.uuid4()),
                isolation_level=isolation,
                enable_partition_eof=True,
                auto_offset_reset="earliest",
                check_crcs=True,
                enable_auto_commit=False,
            )
        )
        consumer.assign([TopicPartition(topic, partition, self.starts.get((topic, partition), 0))])
        messages: list[Any] = []
        deadline = time.monotonic() + _SECONDS
        while True:
            message = consumer.poll(1)
            assert time.monotonic() < deadline, f"{topic}-{partition} has no end"
            if message is None:
                continue
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return messages

    def check_offsets(self) -> None:
        for group, expected in self.offsets.items():
            asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*each) for each in expected])

            def found(asked: ConsumerGroupTopicPartitions = asked) -> dict[Partition, int]:
                [answer] = self.admin.list_consumer_group_offsets([asked]).values()
                return {
                    (each.topic, each.partition): each.offset
                    for each in answer.result(_SECONDS).topic_partitions
                }

            assert patiently(found) == expected, group


def delivered(error: KafkaError | None, message: Any) -> None:
    assert error is None, f"{message.topic()}: {error}"


def patiently(attempt: Callable[[], Any]) -> Any:
    """Retry while new coordinators load and leaders change."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return attempt()
        except KafkaException as refused:
            if not refused.args[0].retriable() and refused.args[0].code() not in _PASSING:
                raise
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


_PASSING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
