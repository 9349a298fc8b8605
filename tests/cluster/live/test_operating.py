"""Operating a cluster with Kafka's tools: log directories, and dynamic broker settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from ottla.testing import Cluster
from tests.cluster.load import Load, check_nothing_lost
from tests.cluster.reassignment.moving import create, fill, rates, tool, wait_for_replicas
from tests.cluster.tools import kafka, run
from tests.installed import tool_name

pytestmark = [pytest.mark.usefixtures("everybody_back"), pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(
    new_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers with two disks each."""
    data = tmp_path_factory.mktemp("cluster")
    dirs = {
        broker: {"log.dirs": f"{data / f'broker-{broker}'},{data / f'disk-{broker}'}"} for broker in range(3)
    }
    with new_cluster(3, broker_config=dirs, data=data) as running:
        yield running


def places(cluster: Cluster, topic: str) -> dict[tuple[int, str], dict[str, Any]]:
    """Return the replicas by broker and directory, as kafka-log-dirs shows them."""
    said = json.loads(kafka(cluster, "log_dirs", "--describe", "--topic-list", topic).splitlines()[-1])
    return {
        (broker["broker"], Path(directory["logDir"]).name): each
        for broker in said["brokers"]
        for directory in broker["logDirs"]
        for each in directory["partitions"]
    }


def other(cluster: Cluster, topic: str, broker: int) -> Path:
    """Return the broker's directory without the partition."""
    here, there = f"broker-{broker}", f"disk-{broker}"
    return cluster.data / (there if (broker, here) in places(cluster, topic) else here)


def wanted(path: Path, topic: str, replicas: list[int], log_dirs: list[str]) -> Path:
    partition = {"topic": topic, "partition": 0, "replicas": replicas, "log_dirs": log_dirs}
    path.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return path


def test_replicas_move_to_other_disks_of_their_brokers_with_the_tool(
    cluster: Cluster, tmp_path: Path
) -> None:
    create(cluster, "rehoused", [[0, 1]])
    with Load(cluster.bootstrap_servers, "rehoused") as load:
        load.wait_for(100)
        targets = [other(cluster, "rehoused", broker) for broker in (0, 1)]
        file = wanted(tmp_path / "wanted.json", "rehoused", [0, 1], [str(each) for each in targets])
        said = tool(cluster, file, "--execute", "--replica-alter-log-dirs-throttle", "2000000")
        assert "The replica-alter-dir throttle limit was set to 2000000 B/s" in said
        for broker, target in enumerate(targets):
            assert f"Successfully started moving log directory to {target} for replica rehoused-0" in said
            assert rates(cluster, broker)["replica.alter.log.dirs.io.max.bytes.per.second"] == "2000000"
        cluster.wait_until(
            lambda: set(places(cluster, "rehoused")) == {(0, targets[0].name), (1, targets[1].name)},
            "both have moved",
            60,
        )
        said = tool(cluster, file, "--verify")
        assert "Reassignment of replica rehoused-0-0 completed successfully." in said
        assert "Reassignment of replica rehoused-0-1 completed successfully." in said
        assert rates(cluster, 0) == {}
        load.wait_for(100)
        cluster.wait_for_isr("rehoused", {0, 1})
        cluster.kill(0)
        cluster.wait_for_leader("rehoused", other_than=0)
        load.wait_for(100)
        cluster.restart(0)
        cluster.wait_for_isr("rehoused", {0, 1}, seconds=60)
        cluster.stop(1)
        load.wait_for(100)
    check_nothing_lost(cluster, "rehoused", load)


@pytest.mark.parametrize("disk", ["broker-2", "disk-2"])
def test_a_new_replica_is_made_in_the_directory_that_was_asked_for(
    cluster: Cluster, tmp_path: Path, disk: str
) -> None:
    topic = f"guests-{disk}"
    create(cluster, topic, [[0]])
    fill(cluster, topic, [0], 100)
    tool(
        cluster,
        wanted(tmp_path / "wanted.json", topic, [0, 2], ["any", str(cluster.data / disk)]),
        "--execute",
    )
    wait_for_replicas(cluster, topic, {0: [0, 2]})
    cluster.wait_until(lambda: (2, disk) in places(cluster, topic), f"it is on {disk}")


def test_log_directories_of_all_brokers_are_described(cluster: Cluster) -> None:
    create(cluster, "everywhere", [[0, 1, 2]])
    fill(cluster, "everywhere", [0], 50)
    found = places(cluster, "everywhere")
    assert sorted(broker for broker, _ in found) == [0, 1, 2]
    assert all(each["size"] > 50_000 and not each["isFuture"] for each in found.values())
    only = json.loads(
        kafka(
            cluster, "log_dirs", "--describe", "--broker-list", "1", "--topic-list", "everywhere"
        ).splitlines()[-1]
    )
    assert [broker["broker"] for broker in only["brokers"]] == [1]


def described(cluster: Cluster, broker: int) -> dict[str, str]:
    said = kafka(
        cluster, "configs", "--entity-type", "brokers", "--entity-name", broker, "--describe", "--all"
    )
    lines = [line.strip().split(" ")[0] for line in said.splitlines() if "=" in line]
    return dict(line.split("=", 1) for line in lines)


def test_settings_of_all_brokers_and_of_one_reach_them(cluster: Cluster) -> None:
    entity = ("--entity-type", "brokers")
    everybody = (*entity, "--entity-default", "--alter")
    kafka(
        cluster, "configs", *everybody, "--add-config", "log.retention.ms=7200000,message.max.bytes=2000000"
    )
    kafka(
        cluster,
        "configs",
        *entity,
        "--entity-name",
        1,
        "--alter",
        "--add-config",
        "message.max.bytes=3000000",
    )

    def are(*sizes: str) -> bool:
        found = [described(cluster, broker) for broker in range(3)]
        return [each["message.max.bytes"] for each in found] == list(sizes) and {
            each["log.retention.ms"] for each in found
        } == {"7200000"}

    cluster.wait_until(lambda: are("2000000", "3000000", "2000000"), "everybody knows")
    cluster.stop(2)
    kafka(cluster, "configs", *everybody, "--add-config", "message.max.bytes=2500000")
    cluster.restart(2)
    cluster.wait_until(lambda: are("2500000", "3000000", "2500000"), "who was away knows too")
    kafka(cluster, "configs", *entity, "--entity-name", 1, "--alter", "--delete-config", "message.max.bytes")
    cluster.wait_until(lambda: are("2500000", "2500000", "2500000"), "it is like the others again")
    kafka(cluster, "configs", *everybody, "--delete-config", "message.max.bytes,log.retention.ms")
    cluster.wait_until(lambda: described(cluster, 0)["message.max.bytes"] == "1048588", "all is as before")


def test_a_setting_of_all_brokers_holds_for_what_they_lead(cluster: Cluster) -> None:
    create(cluster, "limited", [[0], [1], [2]])
    everybody = ("--entity-type", "brokers", "--entity-default", "--alter")
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})

    def refused(partition: int) -> bool:
        errors: list[Any] = []
        producer.produce(
            "limited", bytes(5000), partition=partition, on_delivery=lambda e, _: errors.append(e)
        )
        assert producer.flush(30) == 0
        return errors[0] is not None and errors[0].code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE

    assert not any(refused(each) for each in range(3))
    kafka(cluster, "configs", *everybody, "--add-config", "message.max.bytes=4000")
    cluster.wait_until(lambda: all(refused(each) for each in range(3)), "nobody takes it")
    kafka(cluster, "configs", *everybody, "--delete-config", "message.max.bytes")
    cluster.wait_until(lambda: not any(refused(each) for each in range(3)), "everybody takes it again")


def test_nothing_is_lost_when_leaders_die_while_their_replicas_move_between_disks(
    cluster: Cluster, tmp_path: Path
) -> None:
    create(cluster, "shaken", [[0, 1, 2]])
    with Load(cluster.bootstrap_servers, "shaken", record_size=2000) as load:
        load.wait_for(1500)
        targets = [other(cluster, "shaken", broker) for broker in range(3)]
        file = wanted(tmp_path / "wanted.json", "shaken", [0, 1, 2], [str(each) for each in targets])
        tool(cluster, file, "--execute", "--replica-alter-log-dirs-throttle", "1000")
        for _ in range(2):
            leader = cluster.leader("shaken")
            cluster.kill(leader)
            cluster.wait_for_leader("shaken", other_than=leader)
            load.wait_for(200)
            cluster.restart(leader)
            cluster.wait_for_isr("shaken", {0, 1, 2}, seconds=60)
        assert [each["isFuture"] for each in places(cluster, "shaken").values()].count(True) == 3
        tool(cluster, file, "--execute", "--replica-alter-log-dirs-throttle", "100000000")
        there = {(broker, target.name) for broker, target in enumerate(targets)}
        cluster.wait_until(lambda: set(places(cluster, "shaken")) == there, "all have moved", 60)
        tool(cluster, file, "--verify")
        for broker in range(3):  # each broker has all partitions
            cluster.wait_for_isr("shaken", {0, 1, 2}, seconds=60)
            cluster.stop(broker)
            load.wait_for(100)
            cluster.restart(broker)
    check_nothing_lost(cluster, "shaken", load)


def unregister(cluster: Cluster, broker: int) -> str:
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    done = run(tool_name("cluster"), "unregister", *at, "--id", broker)
    assert done.returncode == (0 if done.stdout else 1)
    return done.stdout + done.stderr


def test_a_broker_that_is_gone_is_unregistered_and_one_that_runs_is_not(cluster: Cluster) -> None:
    assert "Broker 1 is running: stop it before it is unregistered." in unregister(cluster, 1)
    assert "Broker ID 77 is not currently registered" in unregister(cluster, 77)
    own = ("--entity-type", "brokers", "--entity-name", 2, "--alter", "--add-config")
    kafka(cluster, "configs", *own, "message.max.bytes=2000000")
    cluster.stop(2)
    assert unregister(cluster, 2) == "Broker 2 is no longer registered.\n"
    assert "Broker ID 2 is not currently registered" in unregister(cluster, 2)
    cluster.restart(2)
    assert described(cluster, 2)["message.max.bytes"] == "1048588"
