"""The aiokafka agent."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agents.agent import Agent, Emit, MemberLog, main
from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from aiokafka import errors as aiokafka_errors
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.helpers import create_ssl_context
from records import ClientError, Record

ASSIGNORS = {
    assignor.name: assignor
    for assignor in (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
}
ACKS = {"0": 0, "1": 1, "all": "all"}
DEFAULT_CONFIG = 5


class Tokens(AbstractTokenProvider):
    """Returns a fixed token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class AiokafkaAgent(Agent):
    """Runs the event loop only during commands; nothing here needs heartbeats in between."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.loop = asyncio.new_event_loop()

    @property
    def common(self) -> dict[str, Any]:
        config: dict[str, Any] = {"bootstrap_servers": self.bootstrap, **self.settings}
        ca_file, certificate = config.pop("cafile", None), config.pop("certfile", None)
        if ca_file is not None:
            config["ssl_context"] = create_ssl_context(cafile=ca_file, certfile=certificate)
        if "sasl_oauth_token_provider" in config:
            config["sasl_oauth_token_provider"] = Tokens(config["sasl_oauth_token_provider"])
        return config

    def call(self, operation: str, arguments: dict[str, Any]) -> Any:
        return self.loop.run_until_complete(super().call(operation, arguments))

    def run_member(self, options: dict[str, Any], emit: Emit, stopping: threading.Event) -> None:
        self.loop.run_until_complete(self._run_member(options, emit, stopping))

    async def do_produce(
        self, topic: str, records: list[dict[str, Any]], codec: str, acks: str, idempotent: bool
    ) -> list[dict[str, Any]]:
        producer = AIOKafkaProducer(
            **self.common,
            compression_type=None if codec == "none" else codec,
            acks=ACKS[acks],
            enable_idempotence=idempotent,
            linger_ms=5,
            max_batch_size=500_000,
            max_request_size=8_000_000,
            request_timeout_ms=15_000,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
                for record in map(Record.from_json, records)
            ]
            return [await self._delivery(future) for future in futures]
        finally:
            await producer.stop()

    async def _delivery(self, future: Any) -> dict[str, Any]:
        try:
            done = await future
        except aiokafka_errors.KafkaError as error:
            code, message = self.describe_error(error)
            return {"partition": None, "offset": None, "error": code, "message": message}
        if done is None:
            return {"partition": None, "offset": None, "error": None, "message": ""}
        offset = done.offset if done.offset is not None and done.offset >= 0 else None
        return {"partition": done.partition, "offset": offset, "error": None, "message": ""}

    async def do_open_producer(self) -> int:
        producer = AIOKafkaProducer(**self.common, linger_ms=0, request_timeout_ms=15_000)
        await producer.start()
        return self.remember_producer(producer)

    async def do_send(self, handle: int, topic: str, value: str) -> dict[str, Any]:
        try:
            future = await self.producers[handle].send(topic, value.encode(), partition=0)
        except aiokafka_errors.KafkaError as error:
            code, message = self.describe_error(error)
            return {"partition": None, "offset": None, "error": code, "message": message}
        return await self._delivery(future)

    async def do_close_producer(self, handle: int) -> None:
        await self.producers.pop(handle).stop()

    async def do_begin_producer(self, transactional_id: str) -> int:
        producer = AIOKafkaProducer(**self.common, transactional_id=transactional_id, linger_ms=0)
        await producer.start()
        return self.remember_producer(producer)

    async def do_transact(
        self, handle: int, topic: str, values: list[str], group: str | None, offset: int, outcome: str
    ) -> None:
        producer = self.producers[handle]
        await producer.begin_transaction()
        for value in values:
            await producer.send_and_wait(topic, value.encode(), partition=0)
        if group is not None:
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, group)
        if outcome != "open":
            await self.do_finish(handle, outcome == "commit")

    async def do_finish(self, handle: int, commit: bool) -> None:
        producer = self.producers[handle]
        if commit:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()

    async def do_open(
        self,
        topic: str,
        partitions: list[int],
        start: str | int,
        reset: str,
        isolation: str,
        group: str | None,
        auto_create: bool,
    ) -> int:
        consumer = self._consumer(group, auto_offset_reset=reset, isolation_level=isolation)
        assigned = [TopicPartition(topic, partition) for partition in partitions]
        await consumer.start()
        consumer.assign(assigned)
        if start == "earliest":
            await consumer.seek_to_beginning(*assigned)
        elif start == "latest":
            await consumer.seek_to_end(*assigned)
        else:
            for tp in assigned:
                consumer.seek(tp, start)
        return self.remember(consumer)

    async def do_poll(self, handle: int, n: int, timeout: float) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout
        while len(records) < n and (left := deadline - time.monotonic()) > 0:
            polled = await self.consumers[handle].getmany(
                timeout_ms=int(min(left, 0.2) * 1000) + 1, max_records=n - len(records)
            )
            records += [consumed(record).to_json() for batch in polled.values() for record in batch]
        return records

    async def do_position(self, handle: int, topic: str, partition: int) -> int:
        return await self.consumers[handle].position(TopicPartition(topic, partition))

    async def do_seek(self, handle: int, topic: str, partition: int, offset: int) -> None:
        self.consumers[handle].seek(TopicPartition(topic, partition), offset)

    async def do_close(self, handle: int) -> None:
        await self.consumers.pop(handle).stop()

    async def do_offsets_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        tp = TopicPartition(topic, partition)
        async with self._started(self._consumer()) as consumer:
            found = (await consumer.offsets_for_times({tp: timestamp}))[tp]
        return None if found is None else found.offset

    async def do_watermarks(self, topic: str, partition: int) -> list[int]:
        tp = TopicPartition(topic, partition)
        async with self._started(self._consumer()) as consumer:
            low, high = await consumer.beginning_offsets([tp]), await consumer.end_offsets([tp])
        return [low[tp], high[tp]]

    async def do_commit(self, group: str, topic: str, offsets: list[list[int]]) -> None:
        async with self._started(self._consumer(group)) as consumer:
            consumer.assign([TopicPartition(topic, partition) for partition, _ in offsets])
            await consumer.commit(
                {
                    TopicPartition(topic, partition): OffsetAndMetadata(offset, "")
                    for partition, offset in offsets
                }
            )

    async def do_committed(self, group: str, topic: str, partitions: list[int]) -> list[int | None]:
        async with self._started(self._consumer(group)) as consumer:
            return [await consumer.committed(TopicPartition(topic, partition)) for partition in partitions]

    async def do_create_topic(
        self,
        name: str,
        partitions: int,
        replication: int,
        configs: dict[str, str],
        validate_only: bool,
    ) -> None:
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=replication, topic_configs=configs
        )
        async with self._admin() as admin:
            response = await admin.create_topics([topic], validate_only=validate_only)
        for _, code, message in response.topic_errors:
            raise_for(code, message)

    async def do_delete_topic(self, name: str) -> None:
        async with self._admin() as admin:
            response = await admin.delete_topics([name])
        for _, code in response.topic_error_codes:
            raise_for(code, name)

    async def do_create_partitions(self, name: str, total: int) -> None:
        async with self._admin() as admin:
            await admin.create_partitions({name: NewPartitions(total)})

    async def do_list_topics(self) -> list[str]:
        async with self._admin() as admin:
            return sorted(await admin.list_topics())

    async def do_describe_topic(self, name: str) -> dict[str, Any]:
        async with self._admin() as admin:
            topic = (await admin.describe_topics([name]))[0]
        raise_for(topic["error_code"], name)
        return {
            "id": None,
            "partitions": [
                {
                    "partition": partition["partition"],
                    "leader": partition["leader"],
                    "replicas": partition["replicas"],
                    "isr": partition["isr"],
                }
                for partition in topic["partitions"]
            ],
        }

    async def do_describe_configs(self, kind: str, name: str) -> dict[str, Any]:
        async with self._admin() as admin:
            response = (
                await admin.describe_configs([ConfigResource(ConfigResourceType[kind.upper()], name)])
            )[0]
        [(code, message, _, _, entries)] = response.resources
        raise_for(code, message)
        return {
            key: {
                "value": value,
                "default": source == DEFAULT_CONFIG,
                "read_only": read_only,
                "sensitive": sensitive,
            }
            for key, value, read_only, source, sensitive, *_ in entries
        }

    async def do_alter_configs(self, kind: str, name: str, configs: dict[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType[kind.upper()], name, configs)
        async with self._admin() as admin:
            response = (await admin.alter_configs([resource]))[0]
        for code, message, *_ in response.resources:
            raise_for(code, message)

    async def do_list_groups(self) -> list[str]:
        async with self._admin() as admin:
            return [group for group, _ in await admin.list_consumer_groups()]

    async def do_describe_group(self, group: str) -> dict[str, Any]:
        async with self._admin() as admin:
            response = (await admin.describe_consumer_groups([group]))[0]
        [(code, name, state, _, assignor, members, *_)] = response.groups
        raise_for(code, name)
        return {
            "state": state,
            "assignor": assignor,
            "members": [
                {
                    "id": member_id,
                    "instance": None,
                    "partitions": [
                        [tp.topic, tp.partition]
                        for tp in ConsumerProtocolMemberAssignment.decode(assignment).partitions()
                    ]
                    if assignment
                    else [],
                }
                for member_id, _, _, _, assignment in members
            ],
        }

    async def do_group_offsets(self, group: str) -> list[list[Any]]:
        async with self._admin() as admin:
            found = await admin.list_consumer_group_offsets(group)
        return sorted([tp.topic, tp.partition, committed.offset] for tp, committed in found.items())

    async def do_delete_records(self, topic: str, partition: int, before: int) -> int:
        tp = TopicPartition(topic, partition)
        async with self._admin() as admin:
            return (await admin.delete_records({tp: RecordsToDelete(before)}))[tp]

    async def do_describe_cluster(self) -> dict[str, Any]:
        async with self._admin() as admin:
            cluster = await admin.describe_cluster()
        return {
            "id": cluster["cluster_id"],
            "controller": cluster["controller_id"],
            "brokers": [[node["node_id"], node["host"], node["port"]] for node in cluster["brokers"]],
        }

    async def _run_member(self, options: dict[str, Any], emit: Emit, stopping: threading.Event) -> None:
        log = MemberLog(emit, options["limit"])
        consumer = self._consumer(
            options["group"],
            group_instance_id=options["instance"],
            auto_offset_reset="earliest",
            partition_assignment_strategy=[ASSIGNORS[options["assignor"]]],
            session_timeout_ms=options["session_timeout_ms"],
            heartbeat_interval_ms=options["heartbeat_interval_ms"],
        )
        consumer.subscribe([options["topic"]], listener=Listener(log))
        await consumer.start()
        while not stopping.is_set() and not log.full:
            polled = await consumer.getmany(timeout_ms=50)
            log.assignment(consumer.assignment())
            records = log.take([record for batch in polled.values() for record in batch])
            log.records([consumed(record) for record in records])
            if records and options["commit"]:
                offsets = {record.partition: record.offset + 1 for record in records}
                try:
                    await consumer.commit(to_commit(options["topic"], offsets.items()))
                except (aiokafka_errors.CommitFailedError, aiokafka_errors.IllegalStateError):
                    # A rebalance overtook the commit; the partition's new owner reads the records again.
                    continue
                log.committed(offsets)
        await consumer.stop()

    def _consumer(self, group: str | None = None, **config: Any) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            **self.common,
            group_id=group,
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            **config,
        )

    @asynccontextmanager
    async def _started(self, consumer: AIOKafkaConsumer) -> AsyncIterator[AIOKafkaConsumer]:
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(**self.common, request_timeout_ms=15_000)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()


class Listener(ConsumerRebalanceListener):
    def __init__(self, log: MemberLog) -> None:
        self.log = log

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.log.callback("revoked", revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.log.callback("assigned", assigned)


def to_commit(topic: str, offsets: Iterable[Sequence[int]]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(topic, partition): OffsetAndMetadata(offset, "") for partition, offset in offsets}


def consumed(record: Any) -> Record:
    return Record(
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        partition=record.partition,
        timestamp=record.timestamp,
        offset=record.offset,
    )


def raise_for(code: int, message: str | None) -> None:
    if code:
        raise ClientError(code, message or "")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main(AiokafkaAgent)
