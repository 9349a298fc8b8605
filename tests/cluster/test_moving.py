"""Three brokers and a real ZooKeeper: replicas move between them under load, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import confluent_kafka
import pytest
from kazoo.client import KazooClient

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.testing import Cluster
from tests.cluster.load import Load, read_all

pytestmark = [pytest.mark.usefixtures("everybody_back"), pytest.mark.cluster, pytest.mark.timeout(240)]

PARTITIONS = 20
RECORD = b"r" * 1000


def create(cluster: Cluster, name: str, assignment: Sequence[Sequence[int]]) -> None:
    """A topic with these replicas."""
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
    """Error codes by partition."""
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
    answer = cluster.ask(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse)
    return {
        each.partition_index for found in answer.topics if found.name == topic for each in found.partitions
    }


def wait_for_replicas(
    cluster: Cluster, topic: str, wanted: Mapping[int, Sequence[int]], seconds: float = 60
) -> None:
    """Until every running broker says that these are the replicas, and that all of them are in sync."""

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
    """The partitions whose logs a broker has on disk."""
    found = cluster.directory(broker).glob(f"{topic}-*")
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
    try:
        return [
            consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, each), timeout=20)[1]
            for each in range(partitions)
        ]
    finally:
        consumer.close()


def tool(cluster: Cluster, file: Path, *args: str) -> str:
    command = [sys.executable, "-m", "ottla.cli.kafka.reassign_partitions"]
    command += ["--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(file), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def written(file: Path, topic: str, wanted: Mapping[int, Sequence[int]]) -> Path:
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(replicas)} for index, replicas in wanted.items()
    ]
    file.write_text(json.dumps({"partitions": partitions, "version": 1}))
    return file


def check_nothing_lost(cluster: Cluster, topic: str, load: Load) -> None:
    assert load.failed == []
    found = read_all(cluster.bootstrap_servers, topic)
    assert found == sorted(set(found)), "something was doubled or reordered"
    assert set(load.acknowledged) <= set(found), "something was lost"


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


# With a throttle

RATE = 1_000_000


def bytes_of(cluster: Cluster, broker: int, topic: str) -> int:
    found = cluster.directory(broker).glob(f"{topic}-*/*.log")
    return sum(path.stat().st_size for path in found if not path.parent.name.endswith("-delete"))


def rates(cluster: Cluster, broker: int) -> dict[str, str]:
    """Those that are in force on a broker."""
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


def test_twenty_partitions_move_no_faster_than_they_may(cluster: Cluster, tmp_path: Path) -> None:
    sources, away = (
        {index: [index % 2] for index in range(PARTITIONS)},
        {index: [2] for index in range(PARTITIONS)},
    )
    create(cluster, "throttled", list(sources.values()))
    fill(cluster, "throttled", range(1, PARTITIONS), 300)
    file = written(tmp_path / "away.json", "throttled", away)
    with Load(cluster.bootstrap_servers, "throttled", per_second=200) as load:
        load.wait_for(50)
        began = time.monotonic()
        said = tool(cluster, file, "--execute", "--throttle", str(RATE))
        assert f"The inter-broker throttle limit was set to {RATE} B/s" in said
        assert rates(cluster, 2)["follower.replication.throttled.rate"] == str(RATE)
        assert "is still in progress" in tool(cluster, file, "--verify")
        wait_for_replicas(cluster, "throttled", away, seconds=90)
        took = time.monotonic() - began
        load.wait_for(50)
    moved = bytes_of(cluster, 2, "throttled")
    print(
        f"\n{moved / 1e6:.1f} MB moved at {moved / took / 1e6:.2f} MB/s, {RATE / 1e6:.2f} MB/s were allowed"
    )
    assert 0.4 * RATE < moved / took < 1.5 * RATE
    said = tool(cluster, file, "--verify")
    assert said.count("is completed.") == PARTITIONS
    assert rates(cluster, 2) == {}
    assert end_offsets(cluster, "throttled", PARTITIONS)[1:] == [300] * (PARTITIONS - 1)
    check_nothing_lost(cluster, "throttled", load)


def test_a_move_that_is_cancelled_half_way_leaves_everything_as_it_was(
    cluster: Cluster, tmp_path: Path
) -> None:
    sources, away = (
        {index: [index % 2] for index in range(PARTITIONS)},
        {index: [2] for index in range(PARTITIONS)},
    )
    create(cluster, "cancelled", list(sources.values()))
    fill(cluster, "cancelled", range(1, PARTITIONS), 300)
    file = written(tmp_path / "away.json", "cancelled", away)
    with Load(cluster.bootstrap_servers, "cancelled", per_second=200) as load:
        load.wait_for(50)
        tool(cluster, file, "--execute", "--throttle", str(RATE))
        cluster.wait_until(
            lambda: len(moving(cluster, "cancelled")) <= PARTITIONS * 3 // 4, "some have moved", 60
        )
        stopped = moving(cluster, "cancelled")
        assert stopped, "it was over before it could be cancelled"
        said = tool(cluster, file, "--cancel")
        assert "Successfully cancelled partition reassignment" in said
        assert moving(cluster, "cancelled") == set()
        [described] = cluster.metadata(["cancelled"]).topics
        now = {each.partition_index: list(each.replica_nodes) for each in described.partitions}
        back = {index for index in now if now[index] == sources[index]}
        assert back
        assert back <= stopped
        assert all(now[index] == [2] for index in now if index not in back)
        wait_for_replicas(cluster, "cancelled", now)
        load.wait_for(50)
    cluster.wait_until(lambda: logs(cluster, 2, "cancelled").isdisjoint(back), "the copies are gone")
    assert rates(cluster, 2) == {}
    assert end_offsets(cluster, "cancelled", PARTITIONS)[1:] == [300] * (PARTITIONS - 1)
    check_nothing_lost(cluster, "cancelled", load)


# What goes on meanwhile


def committed(consumer: confluent_kafka.Consumer, partition: confluent_kafka.TopicPartition) -> int:
    """librdkafka finds its new coordinator only after it has been told that the old one is none."""
    deadline = time.monotonic() + 30
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
                alter(cluster, "restless", {0: None}, broker=(step + 1) % 3)  # it may be over already
                cluster.wait_until(lambda: not moving(cluster, "restless"), "it rests")
            else:
                wait_for_replicas(cluster, "restless", {0: replicas})
            load.wait_for(50)
    print(f"\nthe longest gap between acknowledgements was {load.longest_gap(began):.3f} s")
    check_nothing_lost(cluster, "restless", load)
