"""How long a controller takes with many brokers and partitions: the real controller over the real embedded store, with
brokers that are only registered.

Seconds are of the clock, and in parentheses of the CPU, which other work on the machine does not change.

What it leaves out is the network: in a cluster ZooKeeper takes the place of the embedded store, and a write of some
hundred states takes the milliseconds that its disks and its quorum take. `writes` says how many there were.

    python -m bench.controller [--brokers 100] [--topics 10000] [--partitions 20] [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table

from ottla.cluster.controller.controller import Controller
from ottla.cluster.elections import PartitionStates
from ottla.cluster.image.change_notifications import CHANGES
from ottla.cluster.image.image_feed import ImageFeed
from ottla.cluster.image.offline_replicas import OFFLINE
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.nodes import BrokerRegistration, Endpoint, PartitionState, TopicAssignment
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import Create, Operation, ensure_paths
from ottla.protocol.messages.cluster import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.security.authorizer import Authorizer

_FACTOR = 3
_PER_WRITE = 2000


class Took(NamedTuple):
    clock: float
    cpu: float

    @classmethod
    def now(cls) -> Took:
        return cls(time.perf_counter(), time.process_time())

    def __sub__(self, other: Took) -> Took:
        return Took(self.clock - other.clock, self.cpu - other.cpu)

    def __str__(self) -> str:
        return f"{self.clock:.2f} s ({self.cpu:.2f} s)"


class NoLogs:
    """Replicas of a broker that has none."""

    def apply(self, topic: TopicImage, changed: Iterable[int]) -> Awaitable[None]:
        return asyncio.sleep(0)

    async def delete_topic(self, name: str) -> None: ...

    def config_changed(self, topic: TopicImage) -> None: ...

    def topic(self, name: str) -> dict[int, Any]:
        return {}


class CountingStore(EmbeddedStore):
    writes = 0

    async def multi(self, operations: Any) -> Any:
        self.writes += 1
        return await super().multi(operations)


class Member:
    def __init__(self, store: CountingStore, broker_id: int) -> None:
        self.id = broker_id
        self.image = ClusterImage()
        config = BrokerConfig({"broker.id": str(broker_id)})
        self.feed = ImageFeed(store, self.image, config, broker_id, Authorizer())
        states = PartitionStates(store, self.image, self.feed)
        self.controller = Controller(store, self.image, self.feed, states, config, broker_id)

    async def load(self) -> Took:
        began = Took.now()
        await self.feed.load()
        took = Took.now() - began
        self.feed.start(NoLogs())  # type: ignore[arg-type]
        return took

    def led_by(self, broker: int) -> int:
        return sum(each.leader == broker for each in self.image.partitions.values())


async def fill(store: CountingStore, brokers: int, topics: int, partitions: int) -> None:
    await ensure_paths(store, (*nodes.PERSISTENT_PATHS, CHANGES, OFFLINE))
    for broker in range(brokers):
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 10_000 + broker)
        registration = nodes.encode_broker(BrokerRegistration(broker, (endpoint,)))
        await store.create(nodes.broker_path(broker), registration, ephemeral=True)
    numbers = random.Random(1)
    waiting: list[Operation] = []
    for number in range(topics):
        name = f"topic-{number:05}"
        placed = _placed(brokers, partitions, numbers)
        assignment = TopicAssignment(placed, numbers.randbytes(16))
        waiting.append(Create(nodes.topic_path(name), nodes.encode_topic(assignment)))
        waiting.append(Create(f"{nodes.topic_path(name)}/partitions"))
        for index, replicas in placed.items():
            state = PartitionState(replicas[0], 0, replicas, 1)
            waiting.append(Create(nodes.partition_path(name, index)))
            path = nodes.partition_state_path(name, index)
            waiting.append(Create(path, nodes.encode_partition_state(state)))
        if len(waiting) > _PER_WRITE:
            await store.multi(waiting)
            waiting = []
    if waiting:
        await store.multi(waiting)


def _placed(brokers: int, partitions: int, numbers: random.Random) -> dict[int, tuple[int, ...]]:
    first = numbers.randrange(brokers)
    step = numbers.randrange(1, max(2, brokers // _FACTOR))
    factor = min(_FACTOR, brokers)
    return {
        index: tuple((first + index + shift * step) % brokers for shift in range(factor))
        for index in range(partitions)
    }


async def until(holds: Callable[[], bool], since: Took | None = None) -> Took:
    began = since or Took.now()
    while not holds():  # noqa: ASYNC110  it is the state of others that is looked at
        await asyncio.sleep(0.05)
    return Took.now() - began


def metadata_of(image: ClusterImage, names: list[str]) -> tuple[Took, int]:
    """How long the answer about these topics takes, and its bytes."""
    began = Took.now()
    answer = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=each.broker_id, host="127.0.0.1", port=9092)
            for each in image.brokers.values()
        ],
        topics=[
            MetadataResponseTopic(
                name=name,
                topic_id=image.topics[name].topic_id,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index,
                        leader_id=each.leader,
                        leader_epoch=each.leader_epoch,
                        replica_nodes=each.replicas,
                        isr_nodes=each.isr,
                    )
                    for index, each in image.topics[name].partitions.items()
                ],
            )
            for name in names
        ],
    )
    size = len(answer.encode(12))
    return Took.now() - began, size


async def measure(brokers: int, topics: int, partitions: int) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        store = CountingStore(Path(directory) / "metadata.db", sync=False)
        await fill(store, brokers, topics, partitions)
        first, second = Member(store, 0), Member(store, 1)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows.append(("read the whole image", str(await first.load())))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        rows.append(("memory of the image", f"{grown / 1024:.0f} MB"))
        await second.load()
        first.controller.start()
        took = await until(lambda: first.controller.is_active)
        rows.append(("become the controller", str(took)))
        second.controller.start()
        await asyncio.sleep(0)
        victim = brokers - 1
        led, writes = first.led_by(victim), store.writes
        began = Took.now()
        first.controller.broker_gone(victim, first.image.brokers[victim].epoch)
        took = await until(lambda: first.led_by(victim) == 0, began)
        rows.append((f"elect leaders for {led:,} partitions of a lost broker", str(took)))
        took = await until(lambda: not _in_sync(first.image, victim), began)
        held = topics * partitions * min(_FACTOR, brokers) // brokers
        rows.append((f"and take it out of {held:,} ISRs", f"{took}, {store.writes - writes} writes"))
        took = await until(lambda: second.led_by(victim) == 0, began)
        rows.append(("until another broker knows", str(took)))
        names = list(first.image.topics)
        metadata_of(first.image, names[:1])  # the codec is made when it is first used
        took, size = metadata_of(first.image, names[:10])
        rows.append(("answer Metadata of 10 topics", f"{took.cpu * 1000:.1f} ms, {size / 1e3:.0f} kB"))
        took, size = metadata_of(first.image, names)
        rows.append(("answer Metadata of all topics", f"{took}, {size / 1e6:.1f} MB"))
        began = Took.now()
        first.controller.session_lost()
        await first.controller.stop()
        await first.feed.stop()
        await store.delete(nodes.CONTROLLER)
        await store.delete(nodes.broker_path(0))
        took = await until(lambda: second.controller.is_active and second.led_by(0) == 0, began)
        rows.append(("replace a controller that is lost, with all that it led", str(took)))
        await second.controller.stop()
        await second.feed.stop()
        await store.close()
    return rows


def _in_sync(image: ClusterImage, broker: int) -> bool:
    return any(broker in each.isr for each in image.partitions.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=20, help="of each topic")
    parser.add_argument("--quick", action="store_true", help="100 topics: shows that it works, no more")
    arguments = parser.parse_args()
    topics = 100 if arguments.quick else arguments.topics
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rows = runner.run(measure(arguments.brokers, topics, arguments.partitions))
    total = topics * arguments.partitions
    table = Table(f"{arguments.brokers} brokers, {topics:,} topics, {total:,} partitions", "")
    for row in rows:
        table.add_row(*row)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
