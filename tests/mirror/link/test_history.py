"""The link detects a source that lost copied records: it names topic, partition and offsets, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

pytest.importorskip("pyarrow")

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster as Client
from ottla.client.cluster import TopicPartition
from ottla.client.settings import Settings
from ottla.mirror.errors import Diverged
from ottla.mirror.link.copy import copy_log
from ottla.mirror.link.history import check_history
from ottla.testing import Broker, Cluster
from tests.mirror.link.clusters import (
    LINK,
    copy,
    create_mirror,
    log_bytes,
    produce,
    produce_one_by_one,
    restore_older_copy,
    settings,
    values,
)

PLACE = TopicPartition("t", 0)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "source") as broker:
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_records_that_the_source_has_lost_are_named(source: Broker, target: Broker) -> None:
    source.create_topic("shorter")
    produce_one_by_one(source, "shorter", 20)
    create_mirror(source, target, "shorter")
    copy(source, target, "shorter")
    before = log_bytes(target, "shorter")
    restore_older_copy(source, "shorter", 12)
    expected = (
        "Partition shorter-0 of the source has lost offsets 12 to 19, which were copied in leader epoch 0"
    )
    with (
        closing(Client(settings(source))) as here,
        closing(Client(settings(target))) as there,
        pytest.raises(Diverged, match=expected),
    ):
        # No new records: none of the link's tasks would run.
        check_history(here, there, [TopicPartition("shorter", 0)])
    # Other records take their place, and more than before.
    assert produce(source, "shorter", values(30, b"other")) == []
    with pytest.raises(Diverged, match=f"{expected}.*delete topic 'shorter' on the target"):
        copy(source, target, "shorter")
    assert log_bytes(target, "shorter") == before


def test_another_leader_without_a_loss_is_no_news(source: Broker, target: Broker) -> None:
    source.create_topic("restarted")
    create_mirror(source, target, "restarted")
    for round_ in range(3):
        assert produce(source, "restarted", values(5)) == []
        copy(source, target, "restarted")
        source.restart()
        copy(source, target, "restarted")
        assert log_bytes(target, "restarted") == log_bytes(source, "restarted"), round_
    # All records of the source were deleted, so its epochs start later.
    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    admin.delete_records([Place("restarted", 0, 15)])[Place("restarted", 0)].result(30)
    with closing(Client(settings(source))) as here, closing(Client(settings(target))) as there:
        assert check_history(here, there, [TopicPartition("restarted", 0)])


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_unclean_election_is_noticed(target: Broker) -> None:
    config = {"unclean.leader.election.enable": "true"}
    with Cluster(2) as source:
        here, there = (
            Settings.from_properties({"bootstrap.servers": source.bootstrap_servers}),
            settings(target),
        )
        with closing(Client(here)) as client:
            create_topic(client, "t", partitions=1, replication_factor=2, configs=config)
        source.wait_for_isr("t", (0, 1))
        with closing(Client(there)) as client:
            create_topic(client, "t", partitions=1, replication_factor=1, configs={"ottla.mirror.link": LINK})

        def write(count: int) -> None:
            producer = Producer({"bootstrap.servers": source.bootstrap_servers, "acks": "all"})
            for value in values(count):
                producer.produce("t", value)
                assert producer.flush(60) == 0

        write(10)
        leader = source.leader("t")
        other = 1 - leader
        source.kill(other)
        source.wait_for_isr("t", (leader,))
        write(5)
        assert copy_log(here, there, LINK, PLACE, 15, skip_gaps=False).next_offset == 15
        source.kill(leader)
        source.restart(other)
        source.wait_until(lambda: source.leader("t") == other, "the other one leads, which lacks records")
        write(20)
        with pytest.raises(Diverged, match="Partition t-0 of the source has lost offsets 10 to 14"):
            copy_log(here, there, LINK, PLACE, 30, skip_gaps=False)
