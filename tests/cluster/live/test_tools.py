"""Operators' tools against three brokers: through admin requests, and through ZooKeeper."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient

from ottla.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.testing import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


def produce(cluster: Cluster, topic: str, partition: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    producer.produce(topic, b"value", partition=partition)
    assert producer.flush(60) == 0


def test_producers_are_told_by_every_replica(cluster: Cluster) -> None:
    cluster.create_topic("written", 1)
    produce(cluster, "written", 0)
    request = DescribeProducersRequest(topics=[TopicRequest(name="written", partition_indexes=[0])])

    def told(broker: int) -> list[tuple[int, int]]:
        answer = cluster.ask(request, DescribeProducersResponse, broker=broker)
        [partition] = answer.topics[0].partitions
        assert partition.error_code == 0, partition.error_message
        return [(each.producer_id, each.last_sequence) for each in partition.active_producers]

    cluster.wait_until(
        lambda: len({tuple(told(broker)) for broker in cluster.ports}) == 1, "they are in sync"
    )
    assert [sequence for _, sequence in told(0)] == [0]


def test_a_topic_that_was_made_in_zookeeper_lives_moves_and_goes(
    cluster: Cluster, zookeeper: KazooClient
) -> None:
    assignment = {"version": 2, "partitions": {"0": [0, 1]}, "adding_replicas": {}, "removing_replicas": {}}
    zookeeper.create("/config/topics/made", b'{"version":1,"config":{}}')
    zookeeper.create("/brokers/topics/made", json.dumps(assignment).encode())
    cluster.wait_until(lambda: leaders(cluster, "made") == [0], "it has a leader")
    produce(cluster, "made", 0)

    data, stat = zookeeper.get("/brokers/topics/made")
    more = json.loads(data)
    more["partitions"]["1"] = [2, 1]
    zookeeper.set("/brokers/topics/made", json.dumps(more).encode(), stat.version)
    cluster.wait_until(lambda: leaders(cluster, "made") == [0, 2], "it has another partition")
    produce(cluster, "made", 1)

    move = {"version": 1, "partitions": [{"topic": "made", "partition": 0, "replicas": [2, 1]}]}
    zookeeper.create("/admin/reassign_partitions", json.dumps(move).encode())
    cluster.wait_until(lambda: zookeeper.exists("/admin/reassign_partitions") is None, "it has moved")
    cluster.wait_until(lambda: leaders(cluster, "made")[0] in (1, 2), "every broker has heard of it")

    zookeeper.create("/admin/preferred_replica_election", json.dumps(move).encode())
    cluster.wait_until(lambda: leaders(cluster, "made") == [2, 2], "the preferred replica leads")
    zookeeper.create("/admin/delete_topics/made", b"")
    cluster.wait_until(lambda: zookeeper.exists("/brokers/topics/made") is None, "it is gone")


def leaders(cluster: Cluster, topic: str) -> list[int]:
    [found] = cluster.metadata([topic]).topics
    return [each.leader_id for each in sorted(found.partitions, key=lambda each: each.partition_index)]
