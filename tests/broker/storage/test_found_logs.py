"""A standalone broker serves every log in its log directories, under a new leader epoch."""

from __future__ import annotations

from pathlib import Path

from ottla.cluster.image.change_notifications import CHANGES
from ottla.log.files.meta_properties import write_partition_metadata
from ottla.metadata import nodes
from ottla.testing import Broker


def leader_epoch(broker: Broker, topic: str) -> int:
    return broker._running().broker.image.partitions[topic, 0].leader_epoch


def test_every_start_begins_a_new_leader_epoch(tmp_path: Path) -> None:
    """Defends: records lost in a crash are never confused with the records written in their place."""
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        for epoch in range(3):
            assert leader_epoch(broker, "t") == epoch
            broker.produce("t", b"x")
            broker.restart()
        assert len(broker.records("t")) == 3


def test_topics_that_the_store_does_not_know_are_taken_over(tmp_path: Path) -> None:
    """Defends: Ottla can serve a directory of Apache Kafka, and losing the metadata store costs no records."""
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t", 2, {"retention.ms": "-1"})
        broker.produce("t", b"a")
        broker.restart()
        broker.produce("t", b"b")
        topic_id, cluster_id = broker.topic_id("t"), broker._running().broker.cluster_id
    for file in tmp_path.glob("ottla-metadata.db*"):
        file.unlink()
    with Broker(data=tmp_path) as broker:
        assert (broker.topic_id("t"), broker._running().broker.cluster_id) == (topic_id, cluster_id)
        assert [record.value for record in broker.records("t")] == [b"a", b"b"]
        assert leader_epoch(broker, "t") > 1  # the newest epoch in the log
        assert broker.produce("t", b"c") == 2
        assert broker.produce("t", b"c", partition=1) == 0


def test_a_log_with_another_topic_id_is_served(tmp_path: Path) -> None:
    """Defends: restoring the metadata store from a backup costs no records."""
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        broker.produce("t", b"a")
    write_partition_metadata(str(tmp_path / "t-0"), nodes.random_uuid())
    with Broker(data=tmp_path) as broker:
        assert [record.value for record in broker.records("t")] == [b"a"]
        assert broker.produce("t", b"b") == 1


def test_restarts_leave_no_heap_of_notifications_behind(tmp_path: Path) -> None:
    """Defends: a broker with many short runs does not fill its metadata store."""
    with Broker(data=tmp_path) as broker:
        for number in range(102):
            broker.create_topic(f"t{number}")
        broker.restart()
        store = broker._running().broker.store
        assert len(broker._run(store.children(CHANGES))) < 10
        broker.create_topic("another")
        assert broker.produce("another", b"x") == broker.produce("t0", b"x") == 0
