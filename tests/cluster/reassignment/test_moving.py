"""Three brokers and a real ZooKeeper: replicas move under load, and no record is lost."""

from __future__ import annotations

import time
from pathlib import Path

import confluent_kafka
import pytest

from ottla.protocol.errors import ErrorCode
from ottla.testing import Cluster
from tests.cluster.load import Load, check_nothing_lost
from tests.cluster.reassignment.moving import (
    alter,
    create,
    end_offsets,
    fill,
    logs,
    moving,
    tool,
    wait_for_replicas,
    written,
)

pytestmark = [pytest.mark.usefixtures("everybody_back"), pytest.mark.cluster, pytest.mark.timeout(300)]

PARTITIONS = 20


def test_a_factor_is_raised_from_one_to_three_with_the_tool(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, "raised", [[0], [1]])
    wanted = {0: [0, 1, 2], 1: [1, 2, 0]}
    file = written(tmp_path / "wanted.json", "raised", wanted)
    with Load(cluster.bootstrap_servers, "raised") as load:
        load.wait_for(300)
        said = tool(cluster, file, "--execute")
        assert "Successfully started partition reassignments for raised-0,raised-1" in said
        wait_for_replicas(cluster, "raised", wanted)
        load.wait_for(300)
    said = tool(cluster, file, "--verify")
    assert "Reassignment of partition raised-0 is completed." in said
    assert "Reassignment of partition raised-1 is completed." in said
    check_nothing_lost(cluster, "raised", load)
    cluster.kill(0)
    cluster.wait_for_leader("raised", other_than=0)
    check_nothing_lost(cluster, "raised", load)


def test_an_idle_partition_moves_away_and_its_log_is_deleted(cluster: Cluster) -> None:
    create(cluster, "idle", [[0]])
    fill(cluster, "idle", [0], 100)
    assert alter(cluster, "idle", {0: [2]}, broker=1) == {0: ErrorCode.NONE}
    wait_for_replicas(cluster, "idle", {0: [2]})
    cluster.wait_until(lambda: not logs(cluster, 0, "idle"), "the log is gone")
    assert logs(cluster, 2, "idle") == {0}
    assert end_offsets(cluster, "idle", 1) == [100]


def test_nothing_is_lost_when_the_controller_is_killed_while_replicas_move(cluster: Cluster) -> None:
    controller = cluster.controller()
    one, two = (each for each in cluster.ports if each != controller)
    create(cluster, "orphaned", [[one]] * PARTITIONS)
    fill(cluster, "orphaned", range(PARTITIONS), 300)
    create(cluster, "busy", [[one]])
    with Load(cluster.bootstrap_servers, "busy") as load:
        load.wait_for(200)
        assert alter(cluster, "busy", {0: [two]}) == {0: ErrorCode.NONE}
        refused = alter(cluster, "orphaned", {index: [two] for index in range(PARTITIONS)})
        assert set(refused.values()) == {ErrorCode.NONE}
        cluster.kill(controller)
        wait_for_replicas(cluster, "busy", {0: [two]})
        wait_for_replicas(cluster, "orphaned", {index: [two] for index in range(PARTITIONS)})
        load.wait_for(200)
    check_nothing_lost(cluster, "busy", load)
    assert end_offsets(cluster, "orphaned", PARTITIONS) == [300] * PARTITIONS
    cluster.wait_until(lambda: not logs(cluster, one, "orphaned"), "the logs are gone")


def test_a_move_to_a_broker_that_dies_goes_on_when_it_returns(cluster: Cluster) -> None:
    create(cluster, "patient", [[0]])
    with Load(cluster.bootstrap_servers, "patient") as load:
        load.wait_for(100)
        cluster.pause(2)
        assert alter(cluster, "patient", {0: [1, 2]}, broker=0) == {0: ErrorCode.NONE}
        cluster.wait_until(lambda: set(cluster.partition("patient", broker=0).isr) == {0, 1}, "one has come")
        cluster.kill(2)
        load.wait_for(100)
        assert moving(cluster, "patient") == {0}
        cluster.restart(2)
        wait_for_replicas(cluster, "patient", {0: [1, 2]})
        load.wait_for(100)
    check_nothing_lost(cluster, "patient", load)
    assert moving(cluster, "patient") == set()


def test_a_broker_that_is_gone_is_replaced_and_gives_up_its_logs_when_it_returns(cluster: Cluster) -> None:
    create(cluster, "replaced", [[0, 1]])
    with Load(cluster.bootstrap_servers, "replaced") as load:
        load.wait_for(100)
        cluster.kill(0)
        assert alter(cluster, "replaced", {0: [2, 1]}) == {0: ErrorCode.NONE}
        wait_for_replicas(cluster, "replaced", {0: [2, 1]})
        assert logs(cluster, 0, "replaced") == {0}
        cluster.restart(0)
        cluster.wait_until(lambda: not logs(cluster, 0, "replaced"), "its log is gone")
        load.wait_for(100)
    wait_for_replicas(cluster, "replaced", {0: [2, 1]})
    check_nothing_lost(cluster, "replaced", load)


# Other events during a move


def committed(consumer: confluent_kafka.Consumer, partition: confluent_kafka.TopicPartition) -> int:
    """Return the committed offset. librdkafka finds a new coordinator only after NOT_COORDINATOR from the old one."""
    deadline = time.monotonic() + 60
    while True:
        try:
            [found] = consumer.committed([partition], timeout=10)
            return int(found.offset)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != ErrorCode.NOT_COORDINATOR or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def test_a_group_keeps_its_offsets_when_its_coordinator_moves(cluster: Cluster) -> None:
    create(cluster, "consumed", [[0, 1, 2]])
    fill(cluster, "consumed", [0], 50)
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "movers",
        "auto.offset.reset": "earliest",
    }
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    try:
        consumer.subscribe(["consumed"])
        read = 0
        deadline = time.monotonic() + 60
        while read < 20:
            assert time.monotonic() < deadline
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                read += 1
        consumer.commit(asynchronous=False)
        [described] = cluster.metadata(["__consumer_offsets"]).topics
        count = len(described.partitions)
        for only in ([0], [1, 2], [2]):
            refused = alter(cluster, "__consumer_offsets", dict.fromkeys(range(count), only))
            assert set(refused.values()) == {ErrorCode.NONE}
            wait_for_replicas(cluster, "__consumer_offsets", dict.fromkeys(range(count), only))
            assert committed(consumer, confluent_kafka.TopicPartition("consumed", 0)) == 20
        while read < 50:
            assert time.monotonic() < deadline
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                read += 1
                assert message.offset() == read - 1
    finally:
        consumer.close()


def test_nothing_is_lost_by_a_partition_that_never_rests(cluster: Cluster) -> None:
    create(cluster, "restless", [[0, 1]])
    with Load(cluster.bootstrap_servers, "restless") as load:
        load.wait_for(100)
        began = time.monotonic()
        for step in range(12):
            replicas = [[1, 2], [2, 0], [0, 1, 2], [2], [0, 1]][step % 5]
            assert alter(cluster, "restless", {0: replicas}, broker=step % 3) == {0: ErrorCode.NONE}
            if step % 4 == 3:
                alter(cluster, "restless", {0: None}, broker=(step + 1) % 3)  # the move may be over already
                cluster.wait_until(lambda: not moving(cluster, "restless"), "it rests")
            else:
                wait_for_replicas(cluster, "restless", {0: replicas})
            load.wait_for(50)
    print(f"\nthe longest gap between acknowledgements was {load.longest_gap(began):.3f} s")
    check_nothing_lost(cluster, "restless", load)
