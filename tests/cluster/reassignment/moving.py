"""Shared steps of the reassignment tests: start a move, wait for it, and inspect the result."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import confluent_kafka
from kazoo.client import KazooClient

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.testing import Cluster
from tests.cluster.load import end_offset
from tests.cluster.tools import run

RECORD = b"r" * 1000


def create(cluster: Cluster, name: str, assignment: Sequence[Sequence[int]]) -> None:
    """Create a topic with these replicas."""
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
        for index, replicas in enumerate(assignment)
    ]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    answer = cluster.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message
    cluster.wait_until(
        lambda: all(cluster._is_led(name, len(assignment), broker) for broker in cluster.running()),
        f"every broker knows of {name}",
    )


def alter(
    cluster: Cluster, topic: str, wanted: Mapping[int, Sequence[int] | None], *, broker: int | None = None
) -> dict[int, int]:
    """Return error codes by partition."""
    partitions = [
        ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
        for index, replicas in wanted.items()
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=partitions)]
    )
    answer = cluster.ask(request, AlterPartitionReassignmentsResponse, broker=broker)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return {each.partition_index: each.error_code for each in answer.responses[0].partitions}


def moving(cluster: Cluster, topic: str) -> set[int]:
    """Return the ongoing moves according to the controller, like the tool. Other brokers learn of them later."""
    # The controller may have been killed just now.
    cluster.wait_until(
        lambda: cluster.controller() in cluster.running(), "a broker that runs is the controller"
    )
    answer = cluster.ask(
        ListPartitionReassignmentsRequest(topics=None),
        ListPartitionReassignmentsResponse,
        broker=cluster.controller(),
    )
    return {
        each.partition_index for found in answer.topics if found.name == topic for each in found.partitions
    }


def wait_for_replicas(
    cluster: Cluster, topic: str, wanted: Mapping[int, Sequence[int]], seconds: float = 60
) -> None:
    """Wait until every running broker reports these replicas, all in sync."""

    def reached() -> bool:
        for broker in cluster.running():
            [described] = cluster.metadata([topic], broker=broker).topics
            found = {each.partition_index: each for each in described.partitions}
            for index, replicas in wanted.items():
                if list(found[index].replica_nodes) != list(replicas):
                    return False
                if set(found[index].isr_nodes) != set(replicas) or found[index].leader_id not in replicas:
                    return False
        return True

    cluster.wait_until(reached, f"{topic} is on {dict(wanted)}", seconds)


def logs(cluster: Cluster, broker: int, topic: str) -> set[int]:
    """Return the partitions with logs on a broker's disk."""
    found = filter(Path.is_dir, cluster.directory(broker).glob(f"{topic}-*"))
    return {int(path.name.rsplit("-", 1)[1]) for path in found if not path.name.endswith("-delete")}


def fill(cluster: Cluster, topic: str, partitions: Iterable[int], per_partition: int) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 20, "batch.size": 60_000}
    )
    for _ in range(per_partition):
        for partition in partitions:
            producer.produce(topic, RECORD, partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def end_offsets(cluster: Cluster, topic: str, partitions: int) -> list[int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "ends"})
    deadline = time.monotonic() + 60
    try:
        return [
            end_offset(consumer, confluent_kafka.TopicPartition(topic, each), deadline)
            for each in range(partitions)
        ]
    finally:
        consumer.close()


def run_tool(cluster: Cluster, file: Path, *args: str) -> subprocess.CompletedProcess[str]:
    options = ("--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", file)
    return run("kafka-reassign-partitions", *options, *args)


def tool(cluster: Cluster, file: Path, *args: str) -> str:
    done = run_tool(cluster, file, *args)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def cancel(cluster: Cluster, file: Path) -> None:
    """Cancel a move. If it ends between the tool's query and its request, the tool fails, like Kafka's; then retry."""
    done = run_tool(cluster, file, "--cancel")
    if done.returncode:
        assert "No partition reassignment is in progress." in done.stdout, (done.stdout, done.stderr)
        tool(cluster, file, "--cancel")
    else:
        assert "Successfully cancelled partition reassignment" in done.stdout


def written(file: Path, topic: str, wanted: Mapping[int, Sequence[int]]) -> Path:
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(replicas)} for index, replicas in wanted.items()
    ]
    file.write_text(json.dumps({"partitions": partitions, "version": 1}))
    return file


def bytes_of(cluster: Cluster, broker: int, topic: str) -> int:
    found = cluster.directory(broker).glob(f"{topic}-*/*.log")
    return sum(path.stat().st_size for path in found if not path.parent.name.endswith("-delete"))


def rates(cluster: Cluster, broker: int) -> dict[str, str]:
    """Return the throttle rates in force on a broker."""
    client = KazooClient(cluster.zookeeper.connect)
    client.start()
    try:
        if client.exists(f"/config/brokers/{broker}") is None:
            return {}
        found: dict[str, str] = json.loads(client.get(f"/config/brokers/{broker}")[0])["config"]
        return found
    finally:
        client.stop()
        client.close()
