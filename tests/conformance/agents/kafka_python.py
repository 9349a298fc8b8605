"""The kafka-python agent."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from agents.agent import Agent, Emit, MemberLog, main
from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.consumer import OffsetSpec
from records import ClientError, Record

ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
        CooperativeStickyAssignor,
    )
}
ACKS = {"0": 0, "1": 1, "all": "all"}
SPECS = {
    "earliest": OffsetSpec.EARLIEST,
    "latest": OffsetSpec.LATEST,
    "max_timestamp": OffsetSpec.MAX_TIMESTAMP,
}


class Tokens(AbstractTokenProvider):
    """Returns a fixed token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class KafkaPythonAgent(Agent):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin: KafkaAdminClient | None = None

    def use(self, bootstrap: str, settings: dict[str, Any]) -> None:
        super().use(bootstrap, settings)
        self._admin = None

    @property
    def common(self) -> dict[str, Any]:
        config: dict[str, Any] = {"bootstrap_servers": self.bootstrap, **self.settings}
        if "sasl_oauth_token_provider" in config:
            config["sasl_oauth_token_provider"] = Tokens(config["sasl_oauth_token_provider"])
        return config

    @property
    def admin(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = KafkaAdminClient(**self.common, request_timeout_ms=15_000)
        return self._admin

    def do_produce(
        self, topic: str, records: list[dict[str, Any]], codec: str, acks: str, idempotent: bool
    ) -> list[dict[str, Any]]:
        producer = KafkaProducer(
            **self.common,
            compression_type=None if codec == "none" else codec,
            acks=ACKS[acks],
            enable_idempotence=idempotent,
            linger_ms=5,
            max_request_size=8_000_000,
            delivery_timeout_ms=20_000,
            request_timeout_ms=15_000,
            max_block_ms=15_000,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
                for record in map(Record.from_json, records)
            ]
            producer.flush(20)
            return [self._delivery(future) for future in futures]
        finally:
            producer.close(5)

    def _delivery(self, future: Any) -> dict[str, Any]:
        try:
            done = future.get(25)
        except kafka_errors.KafkaError as error:
            code, message = self.describe_error(error)
            return {"partition": None, "offset": None, "error": code, "message": message}
        offset = done.offset if done.offset >= 0 else None
        return {"partition": done.partition, "offset": offset, "error": None, "message": ""}

    def do_open_producer(self) -> int:
        return self.remember_producer(KafkaProducer(**self.common, linger_ms=0, max_block_ms=15_000))

    def do_send(self, handle: int, topic: str, value: str) -> dict[str, Any]:
        return self._delivery(self.producers[handle].send(topic, value.encode(), partition=0))

    def do_close_producer(self, handle: int) -> None:
        self.producers.pop(handle).close(5)

    def do_begin_producer(self, transactional_id: str) -> int:
        producer = KafkaProducer(**self.common, transactional_id=transactional_id, linger_ms=0)
        producer.init_transactions()
        return self.remember_producer(producer)

    def do_transact(
        self, handle: int, topic: str, values: list[str], group: str | None, offset: int, outcome: str
    ) -> None:
        producer = self.producers[handle]
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value.encode(), partition=0)
        if group is not None:
            position = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
            producer.send_offsets_to_transaction(position, group)
        producer.flush(20)
        if outcome != "open":
            self.do_finish(handle, outcome == "commit")

    def do_finish(self, handle: int, commit: bool) -> None:
        producer = self.producers[handle]
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()

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
            group, auto_offset_reset=reset, isolation_level=isolation, allow_auto_create_topics=auto_create
        )
        assigned = [TopicPartition(topic, partition) for partition in partitions]
        consumer.assign(assigned)
        if start == "earliest":
            consumer.seek_to_beginning(*assigned)
        elif start == "latest":
            consumer.seek_to_end(*assigned)
        else:
            for tp in assigned:
                consumer.seek(tp, start)
        return self.remember(consumer)

    def do_poll(self, handle: int, n: int, timeout: float) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout
        while len(records) < n and (left := deadline - time.monotonic()) > 0:
            polled = self.consumers[handle].poll(
                timeout_ms=int(min(left, 0.2) * 1000) + 1, max_records=n - len(records)
            )
            records += [consumed(record).to_json() for batch in polled.values() for record in batch]
        return records

    def do_position(self, handle: int, topic: str, partition: int) -> int:
        return self.consumers[handle].position(TopicPartition(topic, partition), timeout_ms=10_000)

    def do_seek(self, handle: int, topic: str, partition: int, offset: int) -> None:
        self.consumers[handle].seek(TopicPartition(topic, partition), offset)

    def do_close(self, handle: int) -> None:
        self.consumers.pop(handle).close(autocommit=False, timeout_ms=5_000)

    def do_partitions_for(self, topic: str) -> list[int]:
        consumer = self._consumer(allow_auto_create_topics=False)
        try:
            return sorted(consumer.partitions_for_topic(topic) or ())
        finally:
            consumer.close()

    def do_offsets_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        tp = TopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            found = consumer.offsets_for_times({tp: timestamp}, timeout_ms=10_000)[tp]
        finally:
            consumer.close()
        return None if found is None else found.offset

    def do_list_offsets(self, topic: str, partition: int, spec: str) -> int:
        tp = TopicPartition(topic, partition)
        return self.admin.list_partition_offsets({tp: SPECS[spec]})[tp].offset

    def do_watermarks(self, topic: str, partition: int) -> list[int]:
        tp = TopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            return [consumer.beginning_offsets([tp])[tp], consumer.end_offsets([tp])[tp]]
        finally:
            consumer.close()

    def do_commit(self, group: str, topic: str, offsets: list[list[int]]) -> None:
        consumer = self._consumer(group)
        consumer.assign([TopicPartition(topic, partition) for partition, _ in offsets])
        try:
            consumer.commit(
                {
                    TopicPartition(topic, partition): OffsetAndMetadata(offset)
                    for partition, offset in offsets
                },
                timeout_ms=10_000,
            )
        finally:
            consumer.close(autocommit=False)

    def do_committed(self, group: str, topic: str, partitions: list[int]) -> list[int | None]:
        consumer = self._consumer(group)
        try:
            return [
                consumer.committed(TopicPartition(topic, partition), timeout_ms=10_000)
                for partition in partitions
            ]
        finally:
            consumer.close(autocommit=False)

    def do_create_topic(
        self,
        name: str,
        partitions: int,
        replication: int,
        configs: dict[str, str],
        validate_only: bool,
    ) -> None:
        topic = {"num_partitions": partitions, "replication_factor": replication, "configs": configs}
        self.admin.create_topics({name: topic}, validate_only=validate_only)

    def do_delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])

    def do_create_partitions(self, name: str, total: int) -> None:
        self.admin.create_partitions({name: total})

    def do_list_topics(self) -> list[str]:
        return sorted(self.admin.list_topics())

    def do_describe_topic(self, name: str) -> dict[str, Any]:
        topic = self.admin.describe_topics([name])[0]
        if topic["error_code"]:
            raise ClientError(topic["error_code"], f"{name} cannot be described")
        return {
            "id": str(topic["topic_id"]),
            "partitions": [
                {
                    "partition": partition["partition_index"],
                    "leader": partition["leader_id"],
                    "replicas": partition["replica_nodes"],
                    "isr": partition["isr_nodes"],
                }
                for partition in topic["partitions"]
            ],
        }

    def do_describe_configs(self, kind: str, name: str) -> dict[str, Any]:
        found = self.admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        return {
            key: {
                "value": entry["value"],
                "default": entry["config_source"] == "DEFAULT_CONFIG",
                "read_only": entry["read_only"],
                "sensitive": entry["is_sensitive"],
            }
            for key, entry in found[kind][name].items()
        }

    def do_alter_configs(self, kind: str, name: str, configs: dict[str, str]) -> None:
        # The client's alter_configs merges the current values before it calls the old API. It cannot show that
        # AlterConfigs replaces all values; the other clients do.
        self._alter(kind, name, configs, incremental=False)

    def do_incremental_alter_configs(self, kind: str, name: str, changes: list[list[Any]]) -> None:
        self._alter(kind, name, {key: (op, value) for op, key, value in changes}, incremental=True)

    def _alter(self, kind: str, name: str, configs: dict[str, Any], *, incremental: bool) -> None:
        resource = ConfigResource(kind, name, configs)
        result = self.admin.alter_configs([resource], incremental=incremental, raise_on_unknown=False)
        outcome = result[kind][name]
        if outcome != "OK":
            code = re.match(r"\[Error (\d+)\]", outcome)
            raise ClientError(int(code[1]) if code else None, outcome)

    def do_list_groups(self) -> list[str]:
        return [group["group_id"] for group in self.admin.list_groups()]

    def do_list_share_groups(self) -> list[str]:
        return [group["group_id"] for group in self.admin.list_groups(types_filter=["share"])]

    def do_describe_group(self, group: str) -> dict[str, Any]:
        found = self.admin.describe_groups([group])[group]
        if found["error"]:
            raise ClientError(None, found["error"])
        return {
            "state": found["group_state"],
            "assignor": found["protocol_data"],
            "members": [
                {
                    "id": member["member_id"],
                    "instance": member["group_instance_id"],
                    "partitions": [
                        [topic["topic"], partition]
                        for topic in (member["member_assignment"] or {}).get("assigned_partitions", ())
                        for partition in topic["partitions"]
                    ],
                }
                for member in found["members"]
            ],
        }

    def do_delete_group(self, group: str) -> None:
        outcome = self.admin.delete_groups([group])[group]
        if outcome != "OK":
            raise ClientError(getattr(kafka_errors, outcome).errno, outcome)

    def do_group_offsets(self, group: str) -> list[list[Any]]:
        found = self.admin.list_group_offsets(group)[group]
        return sorted([tp.topic, tp.partition, committed.offset] for tp, committed in found.items())

    def do_alter_group_offsets(self, group: str, topic: str, offsets: list[list[int]]) -> None:
        self.admin.alter_group_offsets(
            group,
            {TopicPartition(topic, partition): OffsetAndMetadata(offset) for partition, offset in offsets},
        )

    def do_delete_group_offsets(self, group: str, topic: str, partitions: list[int]) -> None:
        self.admin.delete_group_offsets(group, [TopicPartition(topic, partition) for partition in partitions])

    def do_delete_records(self, topic: str, partition: int, before: int) -> int:
        tp = TopicPartition(topic, partition)
        return self.admin.delete_records({tp: before}, timeout_ms=10_000)[tp]["low_watermark"]

    def do_describe_cluster(self) -> dict[str, Any]:
        cluster = self.admin.describe_cluster()
        return {
            "id": cluster["cluster_id"],
            "controller": cluster["controller_id"],
            "brokers": [[node["broker_id"], node["host"], node["port"]] for node in cluster["brokers"]],
        }

    def do_log_dirs(self, topic: str) -> list[dict[str, Any]]:
        return [
            {
                "path": directory["log_dir"],
                "error": directory["error_code"],
                "partitions": sorted(
                    [partition["partition_index"], partition["partition_size"]]
                    for found in directory["topics"]
                    if found["name"] == topic
                    for partition in found["partitions"]
                ),
            }
            for broker in self.admin.describe_log_dirs([topic])
            for directory in broker["log_dirs"]
        ]

    def do_describe_producers(self, topic: str, partition: int) -> list[dict[str, Any]]:
        tp = TopicPartition(topic, partition)
        return [
            {
                "id": producer.producer_id,
                "epoch": producer.producer_epoch,
                "last_sequence": producer.last_sequence,
            }
            for producer in self.admin.describe_producers([tp])[tp].active_producers
        ]

    def run_member(self, options: dict[str, Any], emit: Emit, stopping: threading.Event) -> None:
        log = MemberLog(emit, options["limit"])
        consumer = self._consumer(
            options["group"],
            group_instance_id=options["instance"],
            auto_offset_reset="earliest",
            partition_assignment_strategy=[ASSIGNORS[options["assignor"]]],
            session_timeout_ms=options["session_timeout_ms"],
            heartbeat_interval_ms=options["heartbeat_interval_ms"],
        )
        # A leader that assigns before it knows the partitions assigns none, and does not notice later.
        consumer.partitions_for_topic(options["topic"])
        consumer.subscribe([options["topic"]], listener=Listener(log))
        while not stopping.is_set() and not log.full:
            # Long polls: this client loses a join that completes just as poll() times out.
            polled = consumer.poll(timeout_ms=1000)
            log.assignment(consumer.assignment())
            records = log.take([record for batch in polled.values() for record in batch])
            log.records([consumed(record) for record in records])
            if records and options["commit"]:
                offsets = {record.partition: record.offset + 1 for record in records}
                try:
                    consumer.commit(to_commit(options["topic"], offsets.items()))
                except (kafka_errors.CommitFailedError, kafka_errors.RebalanceInProgressError):
                    # A rebalance overtook the commit; the partition's new owner reads the records again.
                    continue
                log.committed(offsets)
        consumer.close(autocommit=False, timeout_ms=5_000)

    def _consumer(self, group: str | None = None, **config: Any) -> KafkaConsumer:
        return KafkaConsumer(
            **self.common,
            group_id=group,
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            **config,
        )


class Listener(ConsumerRebalanceListener):
    def __init__(self, log: MemberLog) -> None:
        self.log = log

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.log.callback("revoked", revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.log.callback("assigned", assigned)


def to_commit(topic: str, offsets: Iterable[Sequence[int]]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(topic, partition): OffsetAndMetadata(offset) for partition, offset in offsets}


def consumed(record: Any) -> Record:
    return Record(
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        partition=record.partition,
        timestamp=record.timestamp,
        offset=record.offset,
    )


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main(KafkaPythonAgent)
