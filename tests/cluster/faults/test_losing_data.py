"""Data loss only where Kafka allows it: unclean elections, and disks that flip bits."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from ottla.cli.client import Client
from ottla.cli.jobs.obstacles import undeliverable
from ottla.log.batch import BatchScan
from ottla.testing import Cluster
from tests.cluster.load import Load, read_all
from tests.cluster.tools import kafka

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(3, config={"zookeeper.session.timeout.ms": "3000"}) as running:
        yield running


@pytest.fixture(autouse=True)
def everybody_back(cluster: Cluster) -> Iterator[None]:
    yield
    for broker_id in cluster.ports:
        if broker_id not in cluster.running():
            cluster.restart(broker_id)


def send(cluster: Cluster, topic: str, numbers: range) -> None:
    """Send the records with acks=all, in small batches."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "batch.num.messages": 10}
    producer = confluent_kafka.Producer(settings)
    failed: list[str] = []
    for number in numbers:
        producer.produce(
            topic, str(number).encode(), partition=0, on_delivery=lambda e, _: e and failed.append(str(e))
        )
    assert producer.flush(30) == 0
    assert failed == []


def leave_alone(cluster: Cluster, topic: str) -> tuple[int, list[int]]:
    """Make the leader the only in-sync replica, with records of its own, and kill it."""
    leader = cluster.leader(topic)
    others = [each for each in cluster.ports if each != leader]
    send(cluster, topic, range(100))
    for other in others:
        cluster.kill(other)
    cluster.wait_for_isr(topic, {leader})
    send(cluster, topic, range(100, 200))
    cluster.kill(leader)
    return leader, others


def wait_until_led(cluster: Cluster, topic: str, leaders: Collection[int]) -> None:
    """Wait until one of these leads and every broker knows."""

    def known() -> bool:
        views = [cluster.partition(topic, broker=each) for each in cluster.running()]
        return len({view.leader for view in views if view}) == 1 and cluster.leader(topic) in leaders

    cluster.wait_until(known, f"one of {leaders} leads {topic}")


def start(cluster: Cluster, *brokers: int) -> None:
    for broker_id in brokers:
        cluster._launch(broker_id)
    cluster.wait_for_brokers(brokers)


def test_an_unclean_election_loses_what_only_the_dead_had(cluster: Cluster) -> None:
    cluster.create_topic("unclean", config={"unclean.leader.election.enable": "true"})
    leader, others = leave_alone(cluster, "unclean")
    start(cluster, *others)
    wait_until_led(cluster, "unclean", others)
    assert read_all(cluster.bootstrap_servers, "unclean") == list(range(100))
    send(cluster, "unclean", range(200, 250))
    cluster.restart(leader)
    cluster.wait_for_isr("unclean", {0, 1, 2})
    # The broker drops its unreplicated records, so that all logs agree. It can lead again.
    for other in others:
        cluster.kill(other)
    wait_until_led(cluster, "unclean", [leader])
    assert read_all(cluster.bootstrap_servers, "unclean") == [*range(100), *range(200, 250)]


def test_under_load_an_unclean_election_loses_what_came_after_the_elected_one_was_in_sync(
    cluster: Cluster,
) -> None:
    cluster.create_topic("unclean-load", config={"unclean.leader.election.enable": "true"})
    leader = cluster.leader("unclean-load")
    others = [each for each in cluster.ports if each != leader]
    plain = {"enable.idempotence": False, "max.in.flight": 1}  # an idempotent producer would notice and stop
    with Load(cluster.bootstrap_servers, "unclean-load", **plain) as load:
        load.wait_for(200)
        safe = set(load.acknowledged)
        for other in others:
            cluster.kill(other)
        cluster.wait_for_isr("unclean-load", {leader})
        load.wait_for(200)
        cluster.kill(leader)
        at_risk = set(load.acknowledged) - safe
        start(cluster, *others)
        wait_until_led(cluster, "unclean-load", others)
        load.wait_for(200)
        cluster.restart(leader)
        cluster.wait_for_isr("unclean-load", {0, 1, 2})
    found = list(
        dict.fromkeys(read_all(cluster.bootstrap_servers, "unclean-load"))
    )  # retries may cause duplicates
    assert found == sorted(found), "something was reordered"
    lost = set(load.acknowledged) - set(found)
    assert lost
    assert lost <= at_risk
    assert not [number for number in found if min(lost) < number < max(lost)], "there are holes"


def test_without_unclean_elections_nobody_leads_until_the_last_in_sync_is_back(cluster: Cluster) -> None:
    cluster.create_topic("clean")
    leader, others = leave_alone(cluster, "clean")
    start(cluster, *others)
    wait_until_led(cluster, "clean", [-1])
    cluster.wait_for_isr("clean", {leader})
    cluster.restart(leader)
    wait_until_led(cluster, "clean", [leader])
    assert read_all(cluster.bootstrap_servers, "clean") == list(range(200))
    cluster.wait_for_isr("clean", {0, 1, 2})


def test_a_partition_is_led_as_soon_as_unclean_elections_are_allowed(cluster: Cluster) -> None:
    cluster.create_topic("allowed-later")
    leader, others = leave_alone(cluster, "allowed-later")
    start(cluster, *others)
    wait_until_led(cluster, "allowed-later", [-1])
    topic = ("--entity-type", "topics", "--entity-name", "allowed-later")
    kafka(cluster, "configs", *topic, "--alter", "--add-config", "unclean.leader.election.enable=true")
    wait_until_led(cluster, "allowed-later", others)
    assert read_all(cluster.bootstrap_servers, "allowed-later") == list(range(100))
    cluster.restart(leader)
    cluster.wait_for_isr("allowed-later", {0, 1, 2})


def flip(segment: Path) -> None:
    """Flip one bit in the middle."""
    with segment.open("r+b") as file:
        file.seek(segment.stat().st_size // 2)
        [byte] = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x10]))


def segment(cluster: Cluster, broker_id: int, topic: str, partition: int = 0) -> Path:
    return cluster.directory(broker_id) / f"{topic}-{partition}" / f"{0:020}.log"


def test_a_follower_whose_log_is_damaged_says_so_and_fetches_it_again(cluster: Cluster) -> None:
    cluster.create_topic("damaged", 3)
    send(cluster, "damaged", range(200))
    follower = (cluster.leader("damaged") + 1) % 3
    cluster.kill(follower)
    flip(segment(cluster, follower, "damaged"))
    cluster.restart(follower)
    assert "damaged-0 is offline" in cluster.log(follower).read_text()
    # The topic's other partitions are intact.
    for partition in (1, 2):
        cluster.wait_for_isr("damaged", {0, 1, 2}, partition)
    cluster.wait_for_isr("damaged", {0, 1, 2})
    assert list(cluster.directory(follower).glob("damaged-0.*-stray")), "the damaged files are gone"
    send(cluster, "damaged", range(200, 210))
    assert read_all(cluster.bootstrap_servers, "damaged") == list(range(210))
    # Without the directory it also replicates from the beginning.
    cluster.stop(follower)
    shutil.rmtree(segment(cluster, follower, "damaged").parent)
    cluster.restart(follower)
    cluster.wait_for_isr("damaged", {0, 1, 2})


def test_a_follower_whose_last_batch_claims_an_epoch_to_come_fetches_it_again(cluster: Cluster) -> None:
    """No checksum covers the leader epoch, and no later batch reveals the error."""
    cluster.create_topic("later")
    leader = cluster.leader("later")
    follower = next(each for each in cluster.ports if each != leader)
    send(cluster, "later", range(100))
    cluster.kill(follower)
    [segment] = (cluster.directory(follower) / "later-0").glob("*.log")
    with segment.open("r+b") as file:
        *_, (position, header) = BatchScan(file.fileno(), 0, segment.stat().st_size, check_crc=False)
        file.seek(position + 12)
        file.write((header.partition_leader_epoch + (1 << 26)).to_bytes(4, "big"))
    cluster.restart(follower)
    cluster.wait_for_isr("later", {0, 1, 2})
    for other in set(cluster.ports) - {follower}:
        cluster.kill(other)
    wait_until_led(cluster, "later", [follower])
    assert read_all(cluster.bootstrap_servers, "later") == list(range(100))


def test_a_leader_whose_log_is_damaged_when_all_come_back_is_not_followed(cluster: Cluster) -> None:
    cluster.create_topic("headless")
    send(cluster, "headless", range(200))
    leader = cluster.leader("headless")
    cluster.wait_for_isr("headless", {0, 1, 2})
    for broker_id in cluster.ports:
        cluster.kill(broker_id)
    flip(segment(cluster, leader, "headless"))
    start(cluster, *cluster.ports)
    wait_until_led(cluster, "headless", {0, 1, 2} - {leader})
    assert read_all(cluster.bootstrap_servers, "headless") == list(range(200))
    send(cluster, "headless", range(200, 210))
    cluster.wait_for_isr("headless", {0, 1, 2})


def test_a_leader_that_finds_its_log_damaged_gives_it_to_another(cluster: Cluster) -> None:
    cluster.create_topic("rotten")
    send(cluster, "rotten", range(200))
    view = cluster.partition("rotten")
    assert view is not None
    first, second, third = view.replicas
    cluster.stop(second)  # a clean shutdown: the next start does not scan the whole log
    flip(segment(cluster, second, "rotten"))
    cluster.restart(second)
    cluster.restart(third)  # otherwise the third would lead, since it never left
    cluster.wait_for_isr("rotten", {0, 1, 2})
    cluster.kill(first)
    wait_until_led(cluster, "rotten", [second])
    assert read_all(cluster.bootstrap_servers, "rotten") == list(range(200))
    assert cluster.leader("rotten") == third


def test_a_deleted_directory_with_the_only_copy_is_explained_and_given_up_by_one_command(
    cluster: Cluster,
) -> None:
    owner = next(each for each in cluster.ports if each != cluster.controller())
    kafka(cluster, "topics", "--create", "--topic", "only-copy", "--replica-assignment", owner)
    send(cluster, "only-copy", range(10))
    cluster.stop(owner)
    shutil.rmtree(cluster.directory(owner))
    cluster.restart(owner)
    said = cluster.log(owner).read_text()
    assert "The logs of only-copy-0" in said
    assert f"kafka-leader-election --bootstrap-server 127.0.0.1:{cluster.ports[owner]}" in said
    assert "\tLeader: none\t" in kafka(cluster, "topics", "--describe", "--topic", "only-copy")
    client = Client(cluster.bootstrap_servers, {}, 30)
    with contextlib.closing(client.cluster):
        reason = undeliverable(client, "only-copy")
    assert reason is not None
    assert f"broker {owner} runs without its log" in reason.message
    elected = kafka(cluster, "leader_election", "--election-type", "unclean", "--all-topic-partitions")
    assert "Successfully completed leader election (UNCLEAN) for partitions" in elected
    assert "only-copy-0" in elected
    assert cluster.leader("only-copy") == owner
    send(cluster, "only-copy", range(10, 20))
    assert read_all(cluster.bootstrap_servers, "only-copy") == list(range(10, 20))
    cluster.stop(owner)
    cluster.restart(owner)
    cluster.wait_until(lambda: cluster.leader("only-copy") == owner, "it leads again")
    assert read_all(cluster.bootstrap_servers, "only-copy") == list(range(10, 20))
