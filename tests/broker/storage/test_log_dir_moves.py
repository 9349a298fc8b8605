"""Replicas move between a broker's log directories under load without losing records."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalConfig,
    IncrementalConfigsResource,
)
from ottla.protocol.messages.fetch import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.replicas import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from ottla.testing import Broker
from tests.broker.storage.test_disks import Disk, soon
from tests.broker_process import BrokerProcess
from tests.installed import kafka_tool
from tests.wire_client import WireClient

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
SLOW = 100_000


@contextlib.contextmanager
def two_disks(tmp_path: Path, **config: str) -> Iterator[Broker]:
    dirs = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}", "log.segment.bytes": "1048576"}
    settings = {key.replace("_", "."): value for key, value in config.items()}
    with Broker(config={**dirs, **settings}, data=tmp_path / "a") as broker:
        yield broker


def move(client: WireClient, path: Path | str, topic: str = "t", index: int = 0) -> int:
    moved = AlterReplicaLogDirTopic(name=topic, partitions=[index])
    answer = client.call(
        AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=[moved])])
    )
    [result] = answer.results
    assert result.topic_name == topic
    assert result.partitions[0].partition_index == index
    return result.partitions[0].error_code


def places(client: WireClient, topic: str = "t") -> dict[str, bool]:
    """Return the directories that hold the topic's only partition, each with a flag for future replicas."""
    answer = client.call(DescribeLogDirsRequest(topics=None))
    return {
        Path(result.log_dir).name: each.is_future_key
        for result in answer.results
        for found in result.topics
        if found.name == topic
        for each in found.partitions
    }


def futures(directory: Path) -> list[Path]:
    return list(directory.glob("*-future"))


def set_rate(client: WireClient, rate: int | None) -> None:
    change = IncrementalConfig(name=RATE, config_operation=1 if rate is None else 0, value=rate and str(rate))
    resource = IncrementalConfigsResource(resource_type=4, resource_name="0", configs=[change])
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0


def fill(broker: Broker | BrokerProcess, count: int, topic: str = "t", first: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "batch.size": 20_000})
    for number in range(first, first + count):
        producer.produce(topic, str(number).encode().ljust(1000), partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0


def read(broker: Broker | BrokerProcess, count: int, topic: str = "t", first: int = 0) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    try:
        consumer.assign([TopicPartition(topic, 0, first)])
        found: list[int] = []
        deadline = time.monotonic() + 60
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count}"
            found += [int(message.value()) for message in consumer.consume(1000, timeout=0.5)]
        return found
    finally:
        consumer.close()


@pytest.fixture
def here(tmp_path: Path) -> Callable[[WireClient], tuple[Path, Path]]:
    """Return the partition's directory and the other one."""

    def find(client: WireClient) -> tuple[Path, Path]:
        [name] = places(client)
        return tmp_path / name, tmp_path / ("b" if name == "a" else "a")

    return find


def test_a_replica_moves_to_another_directory_while_it_is_written_and_read(tmp_path, here):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        fill(broker, 3000)
        source, target = here(client)
        assert move(client, target) == 0
        fill(broker, 500, first=3000)
        assert soon(lambda: places(client) == {target.name: False})
        assert (target / "t-0").is_dir()
        assert not (source / "t-0").exists()
        assert futures(target) == []
        fill(broker, 500, first=3500)
        assert read(broker, 4000) == list(range(4000))
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        assert places(client) == {target.name: False}
        assert read(broker, 4000) == list(range(4000))


def test_the_copy_is_seen_while_it_is_made_and_is_made_no_faster_than_it_may(tmp_path, here):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        fill(broker, 3000)
        source, target = here(client)
        set_rate(client, 1_000_000)
        began = time.monotonic()
        assert move(client, target) == 0
        assert places(client) == {source.name: False, target.name: True}
        [future] = futures(target)
        assert future.name.startswith("t-0.")
        assert soon(lambda: places(client) == {target.name: False}, 20)
        assert 1.0 < time.monotonic() - began < 15
        assert read(broker, 3000) == list(range(3000))


def test_a_move_is_cancelled_by_asking_for_where_it_is(tmp_path, here):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        fill(broker, 1000)
        source, target = here(client)
        set_rate(client, SLOW)
        assert move(client, target) == 0
        assert move(client, target) == 0, "to ask twice changes nothing"
        assert len(futures(target)) == 1
        assert move(client, source) == 0
        assert places(client) == {source.name: False}
        assert futures(target) == []
        set_rate(client, None)
        assert move(client, target) == 0
        assert soon(lambda: places(client) == {target.name: False})
        assert read(broker, 1000) == list(range(1000))


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_move_goes_on_after_the_broker_was_stopped_or_killed(tmp_path, here, cleanly):
    options = ["--set", f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}", "--set", "log.segment.bytes=1048576"]
    process = BrokerProcess(tmp_path / "a", options)
    with process:
        with WireClient(process.bootstrap_servers) as client:
            fill(process, 1500)
            _, target = here(client)
            set_rate(client, 300_000)
            assert move(client, target) == 0
            assert soon(lambda: any(path.stat().st_size for path in target.glob("*-future/*.log")))
        if cleanly:
            assert process.stop() == 0
        else:
            process.kill()
        assert len(futures(target)) == 1
        process.start()
        with WireClient(process.bootstrap_servers) as client:
            set_rate(client, None)
            assert soon(lambda: places(client) == {target.name: False}, 20)
        assert read(process, 1500) == list(range(1500))


def test_what_a_crash_left_twice_is_kept_once(tmp_path, here):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        fill(broker, 100)
        source, target = here(client)
    shutil.copytree(source / "t-0", tmp_path / "shorter")
    with two_disks(tmp_path) as broker:
        fill(broker, 100, first=100)
    shutil.move(tmp_path / "shorter", target / "t-0")
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        assert places(client) == {source.name: False}
        assert read(broker, 200) == list(range(200))


def test_producers_are_recognised_after_a_move(tmp_path, here):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "linger.ms": 0}
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("t", b"0", partition=0)
        producer.flush(20)
        source, target = here(client)
        assert move(client, target) == 0
        assert soon(lambda: places(client) == {target.name: False})
        producer.produce("t", b"1", partition=0)
        producer.commit_transaction(20)
        producer.begin_transaction()
        producer.produce("t", b"2", partition=0)
        producer.flush(20)
        producer.abort_transaction(20)
        assert move(client, source) == 0
        assert soon(lambda: places(client) == {source.name: False})
        producer.begin_transaction()
        producer.produce("t", b"3", partition=0)
        producer.commit_transaction(20)
        assert read(broker, 3) == [0, 1, 3]


def test_what_was_deleted_is_not_there_after_a_move(tmp_path, here):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        fill(broker, 300)
        _, target = here(client)
        deleted = DeleteRecordsPartition(partition_index=0, offset=105)
        topic = DeleteRecordsTopic(name="t", partitions=[deleted])
        assert client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=5000)).topics[0].partitions
        assert move(client, target) == 0
        assert soon(lambda: places(client) == {target.name: False})
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=10) == (105, 300)
        consumer.close()
        assert read(broker, 195, first=105) == list(range(105, 300))


def test_a_compacted_topic_moves(tmp_path, here):
    with (
        two_disks(tmp_path, log_cleaner_backoff_ms="100") as broker,
        WireClient(broker.bootstrap_servers) as client,
    ):
        broker.create_topic(
            "t",
            1,
            config={
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0.01",
                "segment.ms": "200",
            },
        )
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, "batch.size": 4000}
        )
        for number in range(1000):
            producer.produce("t", str(number).encode().ljust(100), key=str(number % 7).encode(), partition=0)
        assert producer.flush(30) == 0
        _, target = here(client)
        assert move(client, target) == 0
        assert soon(lambda: places(client) == {target.name: False}, 30)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        last: dict[bytes, int] = {}

        def complete() -> bool:
            for message in consumer.consume(500, timeout=0.2):
                last[message.key()] = int(message.value())
            return sorted(last.values()) == list(range(993, 1000))

        try:
            assert soon(complete, 30)
        finally:
            consumer.close()


def test_a_topic_is_deleted_while_it_moves(tmp_path, here):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        fill(broker, 500)
        _, target = here(client)
        set_rate(client, SLOW)
        assert move(client, target) == 0
        broker.delete_topic("t")
        assert places(client) == {}
        assert futures(target) == []
        broker.create_topic("t", 1)
        fill(broker, 5)
        assert read(broker, 5) == list(range(5))


def test_what_cannot_move_is_told_why_not(tmp_path, here):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        source, target = here(client)
        assert move(client, tmp_path / "c") == ErrorCode.LOG_DIR_NOT_FOUND
        assert move(client, "b") == ErrorCode.LOG_DIR_NOT_FOUND
        assert move(client, target, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert move(client, target, "t", 7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert places(client) == {source.name: False}


def test_a_directory_that_fails_takes_the_copy_with_it_and_not_the_log(tmp_path, here, monkeypatch):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        if here(client)[0].name == "b":  # the broker cannot run without the first directory
            assert move(client, tmp_path / "a") == 0
            assert soon(lambda: places(client) == {"a": False})
        fill(broker, 1000)
        set_rate(client, SLOW)
        assert move(client, tmp_path / "b") == 0
        Disk(monkeypatch, tmp_path / "b", errno.EIO)
        set_rate(client, None)
        assert soon(lambda: move(client, tmp_path / "b") == ErrorCode.KAFKA_STORAGE_ERROR)
        assert places(client) == {"a": False}
        monkeypatch.undo()
        fill(broker, 10, first=1000)
        assert read(broker, 1010) == list(range(1010))


def test_a_full_disk_is_waited_for(tmp_path, here, monkeypatch, caplog):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        fill(broker, 1000)
        source, target = here(client)
        set_rate(client, SLOW)
        assert move(client, target) == 0
        disk = Disk(monkeypatch, target, errno.ENOSPC)
        set_rate(client, None)
        assert soon(lambda: "Records are refused until there is room" in caplog.text)
        assert places(client) == {source.name: False, target.name: True}
        disk.broken = False
        assert soon(lambda: places(client) == {target.name: False})
        assert read(broker, 1000) == list(range(1000))


def test_the_tool_moves_a_replica_and_takes_it_back(tmp_path, here):
    def tool(*args: str) -> str:
        command = [kafka_tool("reassign-partitions")]
        command += [
            "--bootstrap-server",
            broker.bootstrap_servers,
            "--reassignment-json-file",
            str(file),
            *args,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", 1)
        fill(broker, 1000)
        source, target = here(client)
        file = tmp_path / "wanted.json"
        partition = {"topic": "t", "partition": 0, "replicas": [0], "log_dirs": [str(target)]}
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        said = tool("--execute", "--replica-alter-log-dirs-throttle", "50000")
        assert f"Successfully started moving log directory to {target} for replica t-0 with broker 0" in said
        assert "Reassignment of replica t-0-0 is still in progress." in tool("--verify")
        said = tool("--cancel")
        assert f"Successfully started moving log directory to {source} for replica t-0 with broker 0" in said
        assert places(client) == {source.name: False}
        tool("--execute")
        assert soon(lambda: places(client) == {target.name: False})
        assert "Reassignment of replica t-0-0 completed successfully." in tool("--verify")
