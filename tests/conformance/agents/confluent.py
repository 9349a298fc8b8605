"""The confluent-kafka (librdkafka) agent."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

from agents.agent import Emit, MemberLog, main
from agents.confluent_share import ShareGroups
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from records import ClientError, Record

START = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
RESET = {"earliest": "earliest", "latest": "latest", "none": "error"}
OVERTAKEN = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
)
REFUSALS = (KafkaError._AUTHENTICATION, KafkaError._SSL)
SPECS = {
    "earliest": OffsetSpec.earliest,
    "latest": OffsetSpec.latest,
    "max_timestamp": OffsetSpec.max_timestamp,
}


class ConfluentAgent(ShareGroups):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 4}
        self.refusal: KafkaError | None = None
        self._admin: AdminClient | None = None

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(self.common)
        return self._admin

    def use(self, bootstrap: str, settings: dict[str, Any]) -> None:
        super().use(bootstrap, settings)
        self.common = {"bootstrap.servers": bootstrap, "log_level": 4, "error_cb": self._note, **settings}
        self.refusal, self._admin = None, None

    def _note(self, error: KafkaError) -> None:
        # The broker's verdict on a certificate arrives after the handshake, as a TLS alert.
        if error.code() in REFUSALS or "SSL alert" in error.str():
            self.refusal = error

    def describe_error(self, error: Exception) -> tuple[int | None, str]:
        if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
            return error.args[0].code(), error.args[0].str()
        return None, f"{type(error).__name__}: {error}"

    def do_produce(
        self, topic: str, records: list[dict[str, Any]], codec: str, acks: str, idempotent: bool
    ) -> list[dict[str, Any]]:
        producer = Producer(
            self.common
            | {
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "linger.ms": 5,
                "message.max.bytes": 8_000_000,
                "message.timeout.ms": 20_000,
                "topic.metadata.refresh.fast.interval.ms": 50,
            }
        )
        deliveries: list[Any] = [None] * len(records)
        for index, record in enumerate(map(Record.from_json, records)):
            arguments: dict[str, Any] = {}
            if record.partition is not None:
                arguments["partition"] = record.partition
            if record.timestamp is not None:
                arguments["timestamp"] = record.timestamp

            def delivered(error: KafkaError | None, message: Message, index: int = index) -> None:
                deliveries[index] = delivery(error, message)

            producer.produce(
                topic,
                record.value,
                record.key,
                headers=list(record.headers) or None,
                on_delivery=delivered,
                **arguments,
            )
            producer.poll(0)
        self._flush(producer)
        return deliveries

    def _flush(self, producer: Producer, timeout: float = 25) -> None:
        """Flush until every record is delivered or the broker refuses the client, which would retry forever."""
        deadline = time.monotonic() + timeout
        while producer.flush(0.1) and time.monotonic() < deadline:
            if self.refusal is not None:
                producer.purge()
            raise_for(self.refusal)

    def do_open_producer(self) -> int:
        config = {"linger.ms": 0, "message.timeout.ms": 20_000, "topic.metadata.refresh.fast.interval.ms": 50}
        return self.remember_producer(Producer(self.common | config))

    def do_send(self, handle: int, topic: str, value: str) -> dict[str, Any]:
        deliveries: list[dict[str, Any]] = []
        producer = self.producers[handle]
        producer.produce(
            topic, value, partition=0, on_delivery=lambda *result: deliveries.append(delivery(*result))
        )
        self._flush(producer)
        return deliveries[0]

    def do_close_producer(self, handle: int) -> None:
        self.producers.pop(handle)

    def do_begin_producer(self, transactional_id: str) -> int:
        producer = Producer(self.common | {"transactional.id": transactional_id, "linger.ms": 0})
        producer.init_transactions(20)
        return self.remember_producer(producer)

    def do_transact(
        self, handle: int, topic: str, values: list[str], group: str | None, offset: int, outcome: str
    ) -> None:
        producer = self.producers[handle]
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        if group is not None:
            reader = self._consumer(group, {})
            reader.assign([])
            member = reader.consumer_group_metadata()
            producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], member, 20)
            reader.close()
        producer.flush(20)
        if outcome != "open":
            self.do_finish(handle, outcome == "commit")

    def do_finish(self, handle: int, commit: bool) -> None:
        producer = self.producers[handle]
        if commit:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)

    def do_open(
        self,
        topic: str,
        partitions: list[int],
        start: str | int,
        reset: str,
        isolation: str,
        group: str | None,
        auto_create: bool,
    ) -> int:
        consumer = self._consumer(
            group,
            {
                "auto.offset.reset": RESET[reset],
                "isolation.level": isolation,
                "allow.auto.create.topics": auto_create,
                "topic.metadata.propagation.max.ms": 500,
            },
        )
        offset = start if isinstance(start, int) else START[start]
        consumer.assign([TopicPartition(topic, partition, offset) for partition in partitions])
        return self.remember(consumer)

    def do_poll(self, handle: int, n: int, timeout: float) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout
        while len(records) < n and (left := deadline - time.monotonic()) > 0:
            raise_for(self.refusal)
            for message in self.consumers[handle].consume(n - len(records), min(left, 0.1)):
                if message.error() is None:
                    records.append(consumed(message).to_json())
                else:
                    raise ClientError(message.error().code(), message.error().str())
        return records

    def do_position(self, handle: int, topic: str, partition: int) -> int:
        return self.consumers[handle].position([TopicPartition(topic, partition)])[0].offset

    def do_seek(self, handle: int, topic: str, partition: int, offset: int) -> None:
        self.consumers[handle].seek(TopicPartition(topic, partition, offset))

    def do_close(self, handle: int) -> None:
        self.consumers.pop(handle).close()

    def do_partitions_for(self, topic: str) -> list[int]:
        consumer = self._consumer(config={"allow.auto.create.topics": False})
        found = consumer.list_topics(topic, timeout=10).topics[topic]
        consumer.close()
        if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise_for(found.error)
        return sorted(found.partitions)

    def do_offsets_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = self._consumer()
        found = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=10)[0]
        consumer.close()
        raise_for(found.error)
        return found.offset if found.offset >= 0 else None

    def do_list_offsets(self, topic: str, partition: int, spec: str) -> int:
        tp = TopicPartition(topic, partition)
        return self.admin.list_offsets({tp: SPECS[spec]()}, request_timeout=10)[tp].result().offset

    def do_watermarks(self, topic: str, partition: int) -> list[int]:
        consumer = self._consumer()
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        consumer.close()
        return [low, high]

    def do_commit(self, group: str, topic: str, offsets: list[list[int]]) -> None:
        consumer = self._consumer(group)
        committed = consumer.commit(
            offsets=[TopicPartition(topic, partition, offset) for partition, offset in offsets],
            asynchronous=False,
        )
        consumer.close()
        for tp in committed:
            raise_for(tp.error)

    def do_committed(self, group: str, topic: str, partitions: list[int]) -> list[int | None]:
        consumer = self._consumer(group)
        found = consumer.committed([TopicPartition(topic, partition) for partition in partitions], timeout=10)
        consumer.close()
        return [tp.offset if tp.offset >= 0 else None for tp in found]

    def do_create_topic(
        self,
        name: str,
        partitions: int,
        replication: int,
        configs: dict[str, str],
        validate_only: bool,
    ) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=configs)
        self.admin.create_topics([topic], validate_only=validate_only)[name].result(15)

    def do_delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(15)

    def do_create_partitions(self, name: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(name, total)])[name].result(15)

    def do_list_topics(self) -> list[str]:
        return sorted(self.admin.list_topics(timeout=10).topics)

    def do_describe_topic(self, name: str) -> dict[str, Any]:
        topic = self.admin.describe_topics(TopicCollection([name]))[name].result(15)
        return {
            "id": str(topic.topic_id),
            "partitions": [
                {
                    "partition": partition.id,
                    "leader": partition.leader.id,
                    "replicas": [node.id for node in partition.replicas],
                    "isr": [node.id for node in partition.isr],
                }
                for partition in topic.partitions
            ],
        }

    def do_describe_configs(self, kind: str, name: str) -> dict[str, Any]:
        resource = ConfigResource(kind, name)
        entries = self.admin.describe_configs([resource])[resource].result(15)
        return {
            entry.name: {
                "value": entry.value,
                "default": entry.source == ConfigSource.DEFAULT_CONFIG.value,
                "read_only": bool(entry.is_read_only),
                "sensitive": bool(entry.is_sensitive),
            }
            for entry in entries.values()
        }

    def do_alter_configs(self, kind: str, name: str, configs: dict[str, str]) -> None:
        resource = ConfigResource(kind, name, set_config=configs)
        self.admin.alter_configs([resource])[resource].result(15)

    def do_incremental_alter_configs(self, kind: str, name: str, changes: list[list[Any]]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType[operation])
            for operation, key, value in changes
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(15)

    def do_list_groups(self) -> list[str]:
        result = self.admin.list_consumer_groups(request_timeout=10).result(15)
        if result.errors:
            raise result.errors[0]
        return [group.group_id for group in result.valid]

    def do_describe_group(self, group: str) -> dict[str, Any]:
        found = self.admin.describe_consumer_groups([group], request_timeout=10)[group].result(15)
        return {
            "state": found.state.name.title().replace("_", ""),
            "assignor": found.partition_assignor,
            "members": [
                {
                    "id": member.member_id,
                    "instance": member.group_instance_id,
                    "partitions": [[tp.topic, tp.partition] for tp in member.assignment.topic_partitions],
                }
                for member in found.members
            ],
        }

    def do_delete_group(self, group: str) -> None:
        self.admin.delete_consumer_groups([group], request_timeout=10)[group].result(15)

    def do_group_offsets(self, group: str) -> list[list[Any]]:
        asked = ConsumerGroupTopicPartitions(group)
        found = self.admin.list_consumer_group_offsets([asked])[group].result(15)
        return sorted([tp.topic, tp.partition, tp.offset] for tp in found.topic_partitions)

    def do_alter_group_offsets(self, group: str, topic: str, offsets: list[list[int]]) -> None:
        wanted = ConsumerGroupTopicPartitions(
            group, [TopicPartition(topic, partition, offset) for partition, offset in offsets]
        )
        for tp in self.admin.alter_consumer_group_offsets([wanted])[group].result(15).topic_partitions:
            raise_for(tp.error)

    def do_delete_records(self, topic: str, partition: int, before: int) -> int:
        tp = TopicPartition(topic, partition, before)
        return self.admin.delete_records([tp])[tp].result(15).low_watermark

    def do_describe_cluster(self) -> dict[str, Any]:
        cluster = self.admin.describe_cluster().result(15)
        return {
            "id": cluster.cluster_id,
            "controller": cluster.controller.id,
            "brokers": [[node.id, node.host, node.port] for node in cluster.nodes],
        }

    def run_member(self, options: dict[str, Any], emit: Emit, stopping: threading.Event) -> None:
        log = MemberLog(emit, options["limit"])
        config = {"auto.offset.reset": "earliest"}
        if options["assignor"].startswith("broker:"):
            config |= {
                "group.protocol": "consumer",
                "group.remote.assignor": options["assignor"].removeprefix("broker:"),
            }
        else:
            config |= {
                "partition.assignment.strategy": options["assignor"],
                "session.timeout.ms": options["session_timeout_ms"],
                "heartbeat.interval.ms": options["heartbeat_interval_ms"],
            }
        if options["instance"]:
            config["group.instance.id"] = options["instance"]
        consumer = self._consumer(options["group"], config)
        consumer.subscribe(
            [options["topic"]],
            on_assign=lambda _, partitions: log.callback("assigned", partitions),
            on_revoke=lambda _, partitions: log.callback("revoked", partitions),
            on_lost=lambda _, partitions: log.callback("lost", partitions),
        )
        while not stopping.is_set() and not log.full:
            messages = consumer.consume(100, 0.05)
            log.assignment(consumer.assignment())
            for message in messages:
                if message.error() is not None:
                    raise_for(message.error())
            messages = log.take(messages)
            log.records([consumed(message) for message in messages])
            if messages and options["commit"]:
                offsets = {
                    (message.topic(), message.partition()): message.offset() + 1 for message in messages
                }
                try:
                    consumer.commit(
                        offsets=[TopicPartition(*place, offset) for place, offset in offsets.items()],
                        asynchronous=False,
                    )
                except KafkaException as error:
                    # A rebalance overtook the commit; the partition's new owner reads the records again.
                    if error.args[0].code() not in (
                        KafkaError.REBALANCE_IN_PROGRESS,
                        KafkaError.ILLEGAL_GENERATION,
                        KafkaError.STALE_MEMBER_EPOCH,
                    ):
                        raise
                else:
                    log.committed({partition: offset for (_, partition), offset in offsets.items()})
        consumer.close()

    def _consumer(self, group: str | None = None, config: dict[str, Any] | None = None) -> Consumer:
        return Consumer(
            self.common
            | {
                "group.id": group or f"unused-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
                "topic.metadata.refresh.fast.interval.ms": 50,
            }
            | (config or {})
        )


def delivery(error: KafkaError | None, message: Message) -> dict[str, Any]:
    offset = message.offset()
    return {
        "partition": message.partition(),
        "offset": offset if offset is not None and offset >= 0 else None,
        "error": None if error is None else error.code(),
        "message": "" if error is None else error.str(),
    }


def consumed(message: Message) -> Record:
    return Record(
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        partition=message.partition(),
        timestamp=message.timestamp()[1],
        offset=message.offset(),
    )


def raise_for(error: KafkaError | None) -> None:
    if error is not None:
        raise ClientError(error.code(), error.str())


if __name__ == "__main__":
    main(ConfluentAgent)
