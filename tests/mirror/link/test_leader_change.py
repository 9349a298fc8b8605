"""A mirror on three brokers whose leaders die: copied records stay, epochs increase, replicas agree."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster as Client
from ottla.client.cluster import TopicPartition
from ottla.client.settings import Settings
from ottla.mirror.link.copy import copy_log
from ottla.mirror.link.promotion import promote
from ottla.protocol.messages.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.testing import Broker, Cluster
from tests.mirror.link.clusters import LINK, log_bytes, produce, settings

PLACE = TopicPartition("t", 0)


def log_of(cluster: Cluster, broker_id: int) -> bytes:
    files: list[Path] = sorted(cluster.directory(broker_id).glob("**/t-0/*.log"))
    return b"".join(each.read_bytes() for each in files)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_copies_survive_their_leaders_and_epochs_never_go_back() -> None:
    with Broker() as source, Cluster(3) as target:
        there = Settings.from_properties({"bootstrap.servers": target.bootstrap_servers})
        source.create_topic("t")
        with closing(Client(there)) as client:
            configs = {"ottla.mirror.link": LINK, "min.insync.replicas": "2"}
            create_topic(client, "t", partitions=1, replication_factor=3, configs=configs)
        target.wait_for_isr("t", (0, 1, 2))
        epochs = []
        for round_ in range(3):
            produce(source, "t", [b"%d-%d" % (round_, number) for number in range(100)])
            end = (round_ + 1) * 100
            assert copy_log(settings(source), there, LINK, PLACE, end, skip_gaps=False).next_offset == end
            epochs.append(view_epoch(target))
            leader = target.leader("t")
            target.kill(leader)
            target.wait_until(
                lambda gone=leader: target.leader("t") not in (gone, -1), "another broker leads"
            )
            produce(source, "t", [])
            assert copy_log(settings(source), there, LINK, PLACE, end, skip_gaps=False).next_offset == end
            target.restart(leader)
            target.wait_for_isr("t", (0, 1, 2))
        assert epochs == sorted(set(epochs))
        assert epochs[0] >= 1  # above the batches' epoch
        target.wait_until(
            lambda: all(log_of(target, each) == log_bytes(source, "t") for each in target.ports),
            "all replicas have the source's log",
        )
        # A consumer of an epoch 0 batch learns that this epoch reaches to the end: nothing was truncated.
        asked = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(
                    topic="t",
                    partitions=[
                        OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
                    ],
                )
            ],
        )
        answer = target.ask(asked, OffsetForLeaderEpochResponse, broker=target.leader("t"))
        assert answer.topics[0].partitions[0].end_offset == 300
        with closing(Client(there)) as client:
            assert promote(None, client, LINK, client.topics(["t"])["t"]) == {0: 300}
        target.kill(target.leader("t"))
        assert produce_to(target, [b"own"] * 10) == []


def view_epoch(cluster: Cluster) -> int:
    view = cluster.partition("t")
    assert view is not None
    return view.leader_epoch


def produce_to(cluster: Cluster, values: list[bytes]) -> list[str]:
    from confluent_kafka import Producer

    errors: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for value in values:
        producer.produce(
            "t", value, on_delivery=lambda error, _: errors.append(str(error)) if error else None
        )
    assert producer.flush(60) == 0
    return errors
