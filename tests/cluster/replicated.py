"""Several real brokers in one event loop that replicate to each other; the test plays the controller.

Brokers, logs, sockets and fetches are real. The test supplies the decisions of the controller and its store: leaders,
ISRs and live brokers.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from ottla.broker.lifecycle.server import Server
from ottla.cluster.partitions.partition import Partition
from ottla.cluster.peers import PeerConnection
from ottla.metadata.cluster_image import BrokerImage, PartitionImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.stores.store import BadVersion, StoreError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records import Record, build_batch, read_records


async def until(condition: Callable[[], Any], what: str = "", seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what or 'a condition'}"
        await asyncio.sleep(0.005)


def batch(*values: str, **options: Any) -> bytearray:
    return build_batch([Record(i, 0, None, value.encode()) for i, value in enumerate(values)], **options)


class Brokers:
    """The cluster, and the store that its leaders ask for ISR changes."""

    def __init__(self, path: Path, config: Mapping[str, str]) -> None:
        self._path = path
        self._config = config
        self.servers: dict[int, Server] = {}
        self.topics: dict[str, TopicImage] = {}
        self.altered: list[tuple[int, ...]] = []
        self.refuse_alter: StoreError | None = None
        self._peers: list[PeerConnection] = []

    # Brokers

    async def start(self, broker_id: int, **config: str) -> None:
        overrides = {
            "broker.id": str(broker_id),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self._path / str(broker_id)),
            "log.cleaner.enable": "false",
            "replica.fetch.backoff.ms": "100",
            **self._config,
            **config,
        }
        server = Server(BrokerConfig.embedded(overrides))

        async def nothing(*_: Any) -> None:
            """Do nothing. A standalone broker would lead every log it finds."""

        with mock.patch("ottla.broker.lifecycle.server.take_over_topics", nothing):
            await server.start()
        server.broker.replicas.on_offline = server.broker.replicas.on_full = None
        server.broker.replicas.leader_context.isr_store = self
        self.servers[broker_id] = server
        self._tell_brokers()
        for topic in self.topics.values():
            await self.tell(topic)

    async def kill(self, broker_id: int) -> None:
        """Stop like SIGKILL: flush and store nothing."""
        server = self.servers.pop(broker_id)
        assert server._housekeeping is not None
        for task in server._housekeeping._tasks:
            task.cancel()
        if server.broker.cleaner is not None:
            await server.broker.cleaner.stop()
        server.broker.close()
        await server.broker.replicas.close()
        await server._abandon()
        self._tell_brokers()

    async def stop(self, broker_id: int) -> None:
        await self.servers.pop(broker_id).stop()
        self._tell_brokers()

    def _tell_brokers(self) -> None:
        for server in self.servers.values():
            image = server.broker.image
            for broker_id in list(image.brokers):
                if broker_id not in self.servers:
                    image.remove_broker(broker_id)
            for broker_id, other in self.servers.items():
                endpoints = {endpoint.listener: endpoint for endpoint in self._endpoints(other)}
                rack = other.config.get_optional_str("broker.rack")
                image.put_broker(BrokerImage(broker_id, endpoints, rack))

    @staticmethod
    def _endpoints(server: Server) -> Any:
        return server.config.advertised_listeners({"PLAINTEXT": server.port})

    # Topics

    async def create(
        self, name: str, replicas: Sequence[int] = (0, 1, 2), *, partitions: int = 1, **configs: str
    ) -> TopicImage:
        members = tuple(replicas)
        states = {
            index: PartitionImage(name, index, members[0], 0, members, members, 0)
            for index in range(partitions)
        }
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        return await self.put(TopicImage(name, uuid.uuid4().bytes, states, settings))

    async def put(self, topic: TopicImage) -> TopicImage:
        self.topics[topic.name] = topic
        await self.tell(topic)
        return topic

    async def tell(self, topic: TopicImage) -> None:
        """Notify a broker, in place of the feed."""
        for server in list(self.servers.values()):
            image = server.broker.image
            image.put_topic(topic)
            await server.broker.replicas.apply(topic, topic.partitions)

    async def change(self, name: str, index: int = 0, **fields: Any) -> PartitionImage:
        """Change a partition's state like a controller, and notify every broker."""
        topic = self.topics[name]
        before = topic.partitions[index]
        state = before._replace(partition_epoch=before.partition_epoch + 1, **fields)
        self.topics[name] = topic._replace(partitions={**topic.partitions, index: state})
        await self.tell(self.topics[name])
        return state

    async def elect(self, name: str, leader: int, isr: tuple[int, ...] | None = None) -> None:
        before = self.topics[name].partitions[0]
        await self.change(
            name, leader=leader, leader_epoch=before.leader_epoch + 1, isr=before.isr if isr is None else isr
        )

    async def alter(
        self, topic: str, index: int, *, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int
    ) -> int:
        await asyncio.sleep(0)
        if self.refuse_alter is not None:
            raise self.refuse_alter
        state = self.topics[topic].partitions[index]
        if state.partition_epoch != partition_epoch:
            raise BadVersion(f"/brokers/topics/{topic}/partitions/{index}/state")
        assert state.leader_epoch == leader_epoch
        self.altered.append(isr)
        return (await self.change(topic, index, isr=isr)).partition_epoch

    def held(self, broker_id: int, name: str = "t", index: int = 0) -> Partition:
        return self.servers[broker_id].broker.replicas.topic(name)[index]

    def pause(self, broker_id: int, name: str = "t", index: int = 0) -> None:
        """Stop a follower's fetches."""
        replicas = self.servers[broker_id].broker.replicas
        replicas.fetchers.unfollow(self.held(broker_id, name, index))

    def resume(self, broker_id: int, name: str = "t", index: int = 0) -> None:
        self.servers[broker_id].broker.replicas.fetchers.follow(self.held(broker_id, name, index))

    def log_bytes(self, broker_id: int, name: str = "t", index: int = 0) -> bytes:
        log = self.held(broker_id, name, index).log
        data = b""
        for segment in log.segments:
            data += Path(segment.path).read_bytes()[: segment.size]
        return data

    async def same_logs(self, name: str = "t", index: int = 0, brokers: Sequence[int] = (0, 1, 2)) -> bytes:
        """Wait until the logs are committed and byte-for-byte equal; return their contents."""
        held = [self.held(broker_id, name, index) for broker_id in brokers]
        await until(
            lambda: (
                len({p.log.log_end_offset for p in held}) == 1
                and all(p.high_watermark == p.log.log_end_offset for p in held)
            ),
            f"the same end: {[(p.high_watermark, p.log.log_end_offset) for p in held]}",
        )
        logs = {self.log_bytes(broker_id, name, index) for broker_id in brokers}
        assert len(logs) == 1
        return logs.pop()

    # Clients

    def peer(self, broker_id: int) -> PeerConnection:
        peer = PeerConnection("127.0.0.1", self.servers[broker_id].port, "test")
        self._peers.append(peer)
        return peer

    async def produce(
        self, broker_id: int, *values: str, acks: int = -1, timeout_ms: int = 20_000, **options: Any
    ) -> PartitionProduceResponse:
        return await self.produce_on(
            self.peer(broker_id), batch(*values, **options), acks=acks, timeout_ms=timeout_ms
        )

    async def produce_on(
        self,
        peer: PeerConnection,
        records: bytearray,
        *,
        acks: int = -1,
        timeout_ms: int = 20_000,
        name: str = "t",
    ) -> PartitionProduceResponse:
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=records)])
            ],
        )
        response = await peer.request(request, 12)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    async def fetch(
        self, broker_id: int, offset: int = 0, *, wait_ms: int = 0, rack: str = "", epoch: int = -1
    ) -> PartitionData:
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            rack_id=rack,
            topics=[
                FetchTopic(
                    topic="t",
                    partitions=[
                        FetchPartition(
                            partition=0,
                            fetch_offset=offset,
                            partition_max_bytes=1 << 20,
                            current_leader_epoch=epoch,
                        )
                    ],
                )
            ],
        )
        response = await self.peer(broker_id).request(request, 12)
        answer: PartitionData = response.responses[0].partitions[0]
        return answer

    async def values(self, broker_id: int) -> list[str]:
        """Return the values that a consumer of that broker sees."""
        answer = await self.fetch(broker_id)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return values_of(bytes(answer.records))

    async def close(self) -> None:
        for peer in self._peers:
            peer.close()
        for broker_id in list(self.servers):
            await self.stop(broker_id)


def values_of(data: bytes) -> list[str]:
    return [
        (record.value or b"").decode()
        for header, records in read_records(data)
        if not header.is_control
        for record in records
    ]


@asynccontextmanager
async def brokers(path: Path, count: int = 3, **config: str) -> AsyncIterator[Brokers]:
    cluster = Brokers(path, {key.replace("_", "."): value for key, value in config.items()})
    try:
        for broker_id in range(count):
            await cluster.start(broker_id)
        yield cluster
    finally:
        await cluster.close()
