"""Promise: if the only broker with some data is lost, the tools wait for it, or name the partitions without a leader.

One of two brokers is killed. It led a topic without other replicas, one of two partitions of another, half of the
internal topics, and was the second replica of a topic that needs two in sync.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from ottla.client.admin.share_groups import move_share_group
from ottla.client.admin.transactions import describe_transaction
from ottla.client.cluster import Cluster as ClientCluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.coordinator.runtime import partition_for
from ottla.coordinator.share.share_coordinator import ShareKey, partition_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.testing import Cluster
from tests.cluster.tools import kafka, run
from tests.fork_server import run_forked
from tests.installed import kafka_tool

pytestmark = pytest.mark.cluster

LOST = 1
ONE_REPLICA = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
NO_LEADER = "Partition 0 of topic lost has no leader (broker 1 is offline)."
TOO_FEW = (
    "NOT_ENOUGH_REPLICAS: Messages are rejected since there are fewer in-sync replicas than required: "
    "partition 0 of topic guarded has 1, and min.insync.replicas is 2."
)
SOON = ("--command-property", "delivery.timeout.ms=5000")


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(2, config=ONE_REPLICA) as running:
        for topic, replicas in (("lost", "1"), ("halved", "0,1"), ("guarded", "0:1")):
            kafka(running, "topics", "--create", "--topic", topic, "--replica-assignment", replicas)
        kafka(running, "configs", "--alter", "--topic", "guarded", "--add-config", "min.insync.replicas=2")
        for kind, key in ((0, "g"), (1, "t"), (2, "g:AAAAAAAAAAAAAAAAAAAAAA:0")):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            running.wait_until(
                lambda request=request: (
                    not running.ask(request, FindCoordinatorResponse).coordinators[0].error_code
                ),
                "there are coordinators",
            )
        yield running


@pytest.fixture
def halved(cluster: Cluster) -> Cluster:
    """The cluster after the loss of one broker."""
    if LOST in cluster.running():
        cluster.kill(LOST)

    def is_noticed() -> bool:
        views = [cluster.partition("lost", broker=0), cluster.partition("guarded", broker=0)]
        return [view and (view.leader, view.isr) for view in views] == [(-1, (LOST,)), (0, (0,))]

    cluster.wait_until(is_noticed, "broker 0 knows that broker 1 is gone")
    return cluster


def led_by_lost(cluster: Cluster, topic: str) -> tuple[str, int]:
    """Return a key whose coordinator was the lost broker, and its partition."""
    [found] = cluster.metadata([topic], broker=0).topics
    lost = {each.partition_index for each in found.partitions if each.leader_id < 0}
    count = len(found.partitions)
    key = next(f"k{number}" for number in range(1000) if partition_for(f"k{number}", count) in lost)
    return key, partition_for(key, count)


def produce(
    cluster: Cluster, topic: str, *args: object, lines: str = "x\ny\n"
) -> subprocess.CompletedProcess[bytes]:
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    return run_forked("kafka-console-producer", *servers, "--topic", topic, *args, stdin=lines.encode())


def client_of(cluster: Cluster, seconds: float) -> ClientCluster:
    milliseconds = str(round(seconds * 1000))
    timeouts = {"request.timeout.ms": milliseconds, "default.api.timeout.ms": milliseconds}
    return ClientCluster(
        Settings.from_properties({"bootstrap.servers": cluster.bootstrap_servers, **timeouts})
    )


def test_a_producer_waits_for_a_leader_and_says_so(halved: Cluster) -> None:
    done = produce(halved, "lost", *SOON)
    said = done.stderr.decode()
    assert "does not exist" not in said
    assert "{lost=LEADER_NOT_AVAILABLE}" in said.splitlines()[0]
    assert f"WARN [Producer clientId=console-producer] LEADER_NOT_AVAILABLE: {NO_LEADER}" in said
    assert said.splitlines()[-1] == f"2 messages were not delivered: LEADER_NOT_AVAILABLE: {NO_LEADER}"


def test_ottla_produce_waits_as_well(halved: Cluster) -> None:
    servers = ("--bootstrap-server", halved.bootstrap_servers)
    done = run("ottla", "produce", "lost", "-m", "x", "--delivery-timeout", 5, *servers)
    assert NO_LEADER in done.stderr.splitlines()[0]
    assert f"1 of 1 messages were not delivered: LEADER_NOT_AVAILABLE: {NO_LEADER}" in done.stderr


def test_the_partition_that_is_left_is_produced_to_and_consumed(halved: Cluster) -> None:
    """Records without a key avoid leaderless partitions, as with Kafka's producer."""
    lines = "".join(f"{number}\n" for number in range(5000))
    assert produce(halved, "halved", "--batch-size", 500, lines=lines).returncode == 0
    read = kafka(halved, "console-consumer", "--topic", "halved", "--from-beginning", "--max-messages", 5000)
    assert sorted(map(int, read.split())) == list(range(5000))


def test_offsets_of_the_partitions_that_have_a_leader(halved: Cluster) -> None:
    done = run(
        "kafka-get-offsets", "--bootstrap-server", halved.bootstrap_servers, "--topic", "halved|lost", "--time",
        "earliest",
    )  # fmt: skip
    assert done.stdout == "halved:0:0\n"
    assert done.returncode == 0
    skipped = "Skip getting offsets for topic-partition {0} due to error: Partition {0} has no leader."
    assert done.stderr.splitlines() == [skipped.format("halved-1"), skipped.format("lost-0")]


def test_too_few_replicas_in_sync_are_named(halved: Cluster) -> None:
    said = produce(halved, "guarded", *SOON).stderr.decode().splitlines()
    assert f"WARN [Producer clientId=console-producer] {TOO_FEW}" in said[0]
    assert said[-1] == f"2 messages were not delivered: {TOO_FEW}"


def test_they_are_named_while_somebody_types(halved: Cluster) -> None:
    """The tool need not wait for the end of the input."""
    typing = subprocess.Popen(
        [
            kafka_tool("console-producer"),
            "--bootstrap-server",
            halved.bootstrap_servers,
            "--topic",
            "guarded",
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert typing.stdin is not None
        assert typing.stderr is not None
        typing.stdin.write("x\n")
        typing.stdin.flush()
        assert TOO_FEW in typing.stderr.readline()
    finally:
        typing.kill()
        typing.communicate()


def test_measuring_tools_name_them_as_well(halved: Cluster) -> None:
    measured = ("--num-records", 2, "--record-size", 9, "--throughput", -1, *SOON)
    said = kafka(halved, "producer_perf_test", "--topic", "guarded", *measured, code=1)
    assert f"2 records were not delivered: {TOO_FEW}" in said
    events = map(
        json.loads,
        kafka(halved, "verifiable_producer", "--topic", "guarded", "--max-messages", 2).split("\n")[:-1],
    )
    assert [event["message"] for event in events if event["name"] == "producer_send_error"] == [TOO_FEW] * 2


def test_a_group_without_coordinator_is_told_which_partition_is_lost(halved: Cluster) -> None:
    group, number = led_by_lost(halved, "__consumer_offsets")
    reason = (
        f"The coordinator of group '{group}' is not available: partition {number} of topic __consumer_offsets has no "
        "leader (broker 1 is offline)."
    )
    for action in ("--describe", "--delete"):
        said = run(
            "kafka-consumer-groups", "--bootstrap-server", halved.bootstrap_servers, action, "--group", group,
            "--timeout", 1000,
        )  # fmt: skip
        assert reason in said.stdout
    waiting = subprocess.Popen(
        [
            kafka_tool("console-consumer"), "--bootstrap-server", halved.bootstrap_servers, "--topic", "halved",
            "--group", group,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert waiting.stderr is not None
        assert any(reason in line for line in waiting.stderr)
    finally:
        waiting.kill()
        waiting.wait()
        waiting.stderr.close()


def test_a_transactional_id_without_coordinator_likewise(halved: Cluster) -> None:
    key, number = led_by_lost(halved, "__transaction_state")
    with closing(client_of(halved, 0.5)) as client, pytest.raises(ClientError) as caught:
        describe_transaction(client, key)
    assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert caught.value.message == (
        f"The coordinator of transactional id '{key}' is not available: partition {number} of topic "
        "__transaction_state has no leader (broker 1 is offline)."
    )


def test_a_share_group_whose_state_is_lost_likewise(halved: Cluster) -> None:
    """The group has a coordinator, which cannot reach the share coordinator of this partition."""
    leaders = {
        name: [each.leader_id for each in sorted(topic.partitions, key=lambda each: each.partition_index)]
        for topic in halved.metadata(None, broker=0).topics
        for name in [topic.name]
    }
    with closing(client_of(halved, 2.0)) as client:
        topic_id = client.topics(["halved"])["halved"].topic_id

        def state_of(group: str) -> int:
            return partition_of(ShareKey(group, topic_id, 0), len(leaders["__share_group_state"]))

        def is_lost(group: str) -> bool:
            coordinator = partition_for(group, len(leaders["__consumer_offsets"]))
            return (
                leaders["__consumer_offsets"][coordinator] == 0
                and leaders["__share_group_state"][state_of(group)] < 0
            )

        group = next(name for name in (f"s{number}" for number in range(1000)) if is_lost(name))
        with pytest.raises(ClientError) as caught:
            move_share_group(client, group, {("halved", 0): 0})
        assert caught.value.message == (
            f"The state of share group '{group}' is not available: partition {state_of(group)} of topic "
            "__share_group_state has no leader (broker 1 is offline)."
        )


def test_a_consumer_waits_until_the_leader_is_back(halved: Cluster) -> None:
    servers = ("--bootstrap-server", halved.bootstrap_servers)
    options = ("--topic", "lost", "--from-beginning", "--max-messages", "1")
    waiting = subprocess.Popen(
        [kafka_tool("console-consumer"), *servers, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert waiting.stderr is not None
        assert "{lost=LEADER_NOT_AVAILABLE}" in waiting.stderr.readline()
        assert NO_LEADER in waiting.stderr.readline()
        halved.restart(LOST)
        halved.wait_for_leader("lost")
        assert produce(halved, "lost", lines="back\n").returncode == 0
        out, said = waiting.communicate(timeout=60)
    finally:
        waiting.kill()
        waiting.wait()
    assert out == "back\n"
    assert said == "Processed a total of 1 messages\n"
