"""A log directory fails while its broker runs: others lead, every broker knows, and no acknowledged record is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.protocol.messages.replicas import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.testing import Cluster
from tests.cluster.load import Load, check_nothing_lost, read_all
from tests.cluster.reassignment.moving import alter, create, wait_for_replicas
from tests.cluster.tools import kafka

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

ALL = {0, 1, 2}
PARTITIONS = 6


def second(cluster: Cluster, broker_id: int) -> Path:
    return cluster.data / f"broker-{broker_id}-b"


@pytest.fixture(scope="module")
def cluster(
    new_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    data = tmp_path_factory.mktemp("disks")
    dirs = {each: {"log.dirs": f"{data / f'broker-{each}'},{data / f'broker-{each}-b'}"} for each in range(3)}
    config = {
        "min.insync.replicas": "2",
        "auto.leader.rebalance.enable": "false",
        "offsets.topic.num.partitions": "2",
    }
    with new_cluster(3, config=config, broker_config=dirs, data=data, faults=True) as running:
        yield running


@pytest.fixture(autouse=True)
def repaired(cluster: Cluster) -> Iterator[None]:
    yield
    for broker_id in cluster.ports:
        cluster.repair_disk(broker_id)
        if broker_id not in cluster.running() or any(errors(cluster, broker_id).values()):
            cluster.restart(broker_id)


def errors(cluster: Cluster, broker_id: int) -> dict[str, int]:
    """Return a broker's error for each of its directories."""
    answer = cluster.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, broker=broker_id)
    return {each.log_dir: each.error_code for each in answer.results}


def in_directory(directory: Path, topic: str) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in directory.glob(f"{topic}-[0-9]*"))


def wait_until_offline(cluster: Cluster, topic: str, partition: int, brokers: set[int]) -> None:
    """Wait until every broker shows exactly these replicas of the partition as offline."""

    def known() -> bool:
        views = [cluster.partition(topic, partition, broker=each) for each in cluster.running()]
        return all(view is not None and set(view.offline) == brokers for view in views)

    cluster.wait_until(known, f"all know {topic}-{partition} to be offline on {brokers or 'no broker'}")


def home(cluster: Cluster, broker_id: int, topic: str, partition: int = 0) -> Path:
    [found] = [
        each
        for each in (cluster.directory(broker_id), second(cluster, broker_id))
        if (each / f"{topic}-{partition}").exists()
    ]
    return found


def test_others_lead_what_the_failed_directory_of_a_leader_held_and_nothing_is_lost(cluster: Cluster) -> None:
    cluster.create_topic("led")
    leader = cluster.leader("led")
    with Load(cluster.bootstrap_servers, "led") as load:
        load.wait_for(200)
        since = time.monotonic()
        cluster.fail_disk(leader, home(cluster, leader, "led"))
        cluster.wait_for_leader("led", other_than=leader, seconds=10)
        wait_until_offline(cluster, "led", 0, {leader})
        cluster.wait_for_isr("led", ALL - {leader})
        load.wait_for(200)
        print(f"\nDirectory of the leader failed: the longest gap was {load.longest_gap(since):.3f} s")
        assert leader in cluster.running()
        cluster.repair_disk(leader)
        cluster.restart(leader)
        cluster.wait_for_isr("led", ALL)
        wait_until_offline(cluster, "led", 0, set())
    check_nothing_lost(cluster, "led", load)


def test_a_broker_serves_what_is_in_its_other_directories(cluster: Cluster) -> None:
    cluster.create_topic("spread", PARTITIONS)
    lost = in_directory(second(cluster, 0), "spread")
    kept = in_directory(cluster.directory(0), "spread")
    assert lost
    assert kept
    led = next(each for each in kept if cluster.leader("spread", each) == 0)
    with (
        Load(cluster.bootstrap_servers, "spread", led) as load,
        Load(cluster.bootstrap_servers, "spread", lost[0]) as other,
    ):
        load.wait_for(50)
        cluster.fail_disk(0, second(cluster, 0))
        for partition in lost:
            cluster.wait_for_isr("spread", {1, 2}, partition)
            wait_until_offline(cluster, "spread", partition, {0})
        load.wait_for(50)
        other.wait_for(50)
        for partition in kept:
            cluster.wait_for_isr("spread", ALL, partition)
        assert cluster.leader("spread", led) == 0
    check_nothing_lost(cluster, "spread", load)
    check_nothing_lost(cluster, "spread", other)


def test_a_directory_that_cannot_be_read_fails_as_well(cluster: Cluster) -> None:
    cluster.create_topic("read")
    leader = cluster.leader("read")
    with Load(cluster.bootstrap_servers, "read", record_size=1000) as load:
        load.wait_for(300)
    cluster.restart(leader)  # the log is no longer in memory
    cluster.wait_for_isr("read", ALL)
    leader = cluster.leader("read")
    cluster.fail_disk(leader, home(cluster, leader, "read"))
    assert read_all(cluster.bootstrap_servers, "read") == load.acknowledged
    cluster.wait_for_leader("read", other_than=leader)
    wait_until_offline(cluster, "read", 0, {leader})


def test_operators_see_it_everywhere(cluster: Cluster) -> None:
    cluster.create_topic("seen")
    follower = next(each for each in cluster.ports if each != cluster.leader("seen"))
    directory = home(cluster, follower, "seen")
    cluster.fail_disk(follower, directory)
    with Load(cluster.bootstrap_servers, "seen") as load:
        load.wait_for(10)
        wait_until_offline(cluster, "seen", 0, {follower})
    cluster.wait_for_isr("seen", ALL - {follower})
    for asked in cluster.ports:
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="seen")])
        answer = cluster.ask(request, DescribeTopicPartitionsResponse, broker=asked)
        assert list(answer.topics[0].partitions[0].offline_replicas) == [follower]
    failed = [path for path, error in errors(cluster, follower).items() if error]
    assert failed == [str(directory)]
    assert errors(cluster, follower)[str(directory)] == ErrorCode.KAFKA_STORAGE_ERROR
    said = kafka(cluster, "log_dirs", "--describe", "--broker-list", follower).splitlines()[-1]
    [told] = json.loads(said)["brokers"]
    shown = {each["logDir"]: each["error"] for each in told["logDirs"]}
    assert shown[str(directory)] == "org.apache.kafka.common.errors.KafkaStorageException"
    assert "Topic: seen" in kafka(cluster, "topics", "--describe", "--under-replicated-partitions")
    assert "Topic: seen" not in kafka(cluster, "topics", "--describe", "--unavailable-partitions")
    command = [
        sys.executable,
        "-m",
        "ottla.cli",
        "topics",
        "describe",
        "seen",
        "-b",
        cluster.bootstrap_servers,
    ]
    *_, columns, values = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True
    ).stdout.splitlines()
    assert dict(zip(columns.split(), values.split(), strict=False))["OFFLINE"] == str(follower)
    [*_, line] = [line for line in cluster.log(follower).read_text().splitlines() if " failed: " in line]
    assert str(directory) in line
    assert "Input/output error" in line
    assert "partitions are offline until the broker is restarted" in line


def test_nobody_is_elected_who_cannot_reach_the_log(cluster: Cluster) -> None:
    cluster.create_topic("preferred")
    view = cluster.partition("preferred")
    assert view is not None
    preferred = view.replicas[0]
    with Load(cluster.bootstrap_servers, "preferred") as load:
        load.wait_for(50)
        cluster.fail_disk(preferred, home(cluster, preferred, "preferred"))
        leader = cluster.wait_for_leader("preferred", other_than=preferred)
        cluster.wait_for_isr("preferred", ALL - {preferred})
        election = ("--election-type", "preferred", "--topic", "preferred", "--partition", 0)
        assert "preferred leader was not available" in kafka(cluster, "leader_election", *election, code=1)
        [other] = ALL - {preferred, leader}
        cluster.stop(other)
        cluster.stop(leader)  # no other in-sync replica is reachable
        cluster.wait_until(
            lambda: cluster.partition("preferred", broker=preferred).leader == -1, "nobody leads"
        )
        cluster.restart(leader)
        cluster.restart(other)
        assert cluster.wait_for_leader("preferred") != preferred
        load.wait_for(50)
    check_nothing_lost(cluster, "preferred", load)


def test_new_partitions_go_to_the_directories_that_are_left(cluster: Cluster) -> None:
    cluster.create_topic("before", PARTITIONS)
    failed = second(cluster, 1)
    cluster.fail_disk(1, failed)
    with Load(cluster.bootstrap_servers, "before", in_directory(failed, "before")[0]) as load:
        load.wait_for(10)
        wait_until_offline(cluster, "before", load.partition, {1})
    cluster.create_topic("after", PARTITIONS)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("after", ALL, partition)
        wait_until_offline(cluster, "after", partition, set())
    assert in_directory(cluster.directory(1), "after") == list(range(PARTITIONS))


def test_a_topic_can_be_deleted_and_made_again_while_a_part_of_it_is_out_of_reach(cluster: Cluster) -> None:
    cluster.create_topic("again", PARTITIONS)
    failed = second(cluster, 2)
    [lost, *_] = in_directory(failed, "again")
    with Load(cluster.bootstrap_servers, "again", lost) as load:
        load.wait_for(10)
        cluster.fail_disk(2, failed)
        wait_until_offline(cluster, "again", lost, {2})
    kafka(cluster, "topics", "--delete", "--topic", "again")
    cluster.wait_until(lambda: cluster.metadata(["again"]).topics[0].error_code != 0, "the topic is gone")
    cluster.create_topic("again", PARTITIONS)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("again", ALL, partition)
    with Load(cluster.bootstrap_servers, "again", lost) as load:
        load.wait_for(10)
    cluster.repair_disk(2)
    cluster.restart(2)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("again", ALL, partition)
    check_nothing_lost(cluster, "again", load)


def test_a_broker_without_any_directory_left_ends_with_one_sentence(cluster: Cluster) -> None:
    cluster.create_topic("ended", 2)
    leader = cluster.leader("ended")
    with Load(cluster.bootstrap_servers, "ended") as load:
        load.wait_for(100)
        cluster.fail_disk(leader)
        cluster.fail_disk(leader, second(cluster, leader))
        cluster.wait_for_leader("ended", other_than=leader)
        cluster.wait_until(lambda: leader not in cluster.running(), "the broker has ended")
        load.wait_for(100)
    assert "No log directory is left" in cluster.log(leader).read_text().splitlines()[-1]
    cluster.repair_disk(leader)
    cluster.restart(leader)
    cluster.wait_for_isr("ended", ALL)
    check_nothing_lost(cluster, "ended", load)


def test_any_of_several_directories_can_be_done_without_at_the_start(cluster: Cluster) -> None:
    cluster.create_topic("started", PARTITIONS)
    first = cluster.directory(1)
    lost = in_directory(first, "started")
    with Load(cluster.bootstrap_servers, "started", lost[0]) as load:
        load.wait_for(50)
        cluster.stop(1)
        cluster.fail_disk(1, first)
        cluster.restart(1)
        for partition in range(PARTITIONS):
            cluster.wait_for_isr("started", ALL - {1} if partition in lost else ALL, partition)
            wait_until_offline(cluster, "started", partition, {1} if partition in lost else set())
        cluster.repair_disk(1)
        cluster.restart(1)
        for partition in range(PARTITIONS):
            cluster.wait_for_isr("started", ALL, partition)
            wait_until_offline(cluster, "started", partition, set())
    check_nothing_lost(cluster, "started", load)


def test_an_unclean_election_does_not_wait_for_a_disk(cluster: Cluster) -> None:
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    cluster.create_topic("unclean", replication_factor=2, config=config)
    view = cluster.partition("unclean")
    assert view is not None
    last, other = view.replicas
    cluster.stop(other)
    cluster.wait_for_isr("unclean", {last})
    with Load(cluster.bootstrap_servers, "unclean") as load:
        load.wait_for(10)
        cluster.fail_disk(last, home(cluster, last, "unclean"))
        cluster.wait_until(lambda: cluster.leader("unclean") == -1, "nobody leads")
        cluster.restart(other)
        assert cluster.wait_for_leader("unclean") == other
        load.wait_for(10)


def test_replicas_move_away_from_a_failed_disk(cluster: Cluster) -> None:
    create(cluster, "moved", [[0, 1]])
    with Load(cluster.bootstrap_servers, "moved") as load:
        load.wait_for(50)
        cluster.fail_disk(0, home(cluster, 0, "moved"))
        assert cluster.wait_for_leader("moved", other_than=0) == 1
        assert alter(cluster, "moved", {0: [2, 1]}) == {0: ErrorCode.NONE}
        wait_for_replicas(cluster, "moved", {0: [2, 1]})
        load.wait_for(50)
    check_nothing_lost(cluster, "moved", load)
