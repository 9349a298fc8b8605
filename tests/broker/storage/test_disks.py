"""Promises about disks: a failed disk affects only its own logs, and a full disk only writes."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.broker.lifecycle.server import StartupError
from ottla.broker.network import wire
from ottla.log.cleaner.task import WorkerProcess
from ottla.log.files import checkpoint
from ottla.log.segments import segment
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.replicas import DescribeLogDirsRequest
from ottla.protocol.messages.transactions import InitProducerIdRequest
from ottla.protocol.records import Record, build_batch
from ottla.testing import Broker
from tests.broker_process import BrokerProcess
from tests.wire_client import WireClient

OFTEN = {
    "log.flush.offset.checkpoint.interval.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "offsets.topic.num.partitions": "2",
}
PARTITIONS = 4


def soon(condition: Callable[[], bool], seconds: float = 10) -> bool:
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True


@contextlib.contextmanager
def two_disks(tmp_path: Path, **config: str) -> Iterator[Broker]:
    dirs = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    with Broker(config={**OFTEN, **dirs, **config}, data=tmp_path / "a") as broker:
        yield broker


def partitions_in(directory: Path) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in directory.glob("t-?"))


def produce(client: WireClient, index: int, value: bytes = b"v", topic: str = "t") -> int:
    batch = memoryview(build_batch([Record(0, int(time.time() * 1000), None, value)]))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])
    answer = client.call(ProduceRequest(acks=-1, topic_data=[data]), 9)
    return answer.responses[0].partition_responses[0].error_code


def log_dirs(client: WireClient) -> dict[str, int]:
    answer = client.call(DescribeLogDirsRequest(topics=None))
    return {Path(result.log_dir).name: result.error_code for result in answer.results}


class Disk:
    """Sits between the logs of one directory and the file system, and makes writes there fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path, error: int) -> None:
        self.broken = True
        self._directory = str(directory)
        self._error = error
        self._write = os.write
        monkeypatch.setattr(segment.os, "write", self)

    def __call__(self, fd: int, data: bytes) -> int:
        if self.broken and os.readlink(f"/proc/self/fd/{fd}").startswith(self._directory):
            raise OSError(self._error, os.strerror(self._error))
        return self._write(fd, data)


# Several directories


def test_partitions_are_spread_over_the_directories(tmp_path):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", PARTITIONS)
        assert len(partitions_in(tmp_path / "a")) == len(partitions_in(tmp_path / "b")) == 2
        assert log_dirs(client) == {"a": 0, "b": 0}


def test_an_io_error_takes_the_directory_offline_and_nothing_else(tmp_path, monkeypatch, caplog):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", PARTITIONS)
        healthy, broken = partitions_in(tmp_path / "a"), partitions_in(tmp_path / "b")
        assert all(produce(client, index) == 0 for index in range(PARTITIONS))
        caplog.clear()
        Disk(monkeypatch, tmp_path / "b", errno.EIO)
        for _ in range(3):
            assert all(produce(client, index) == 0 for index in healthy)
            assert all(produce(client, index) == ErrorCode.KAFKA_STORAGE_ERROR for index in broken)
        assert log_dirs(client) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}
        [line] = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert str(tmp_path / "b") in line
        assert "Input/output error" in line
        assert "2 partitions are offline" in line
        [topic] = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")])).topics
        assert sorted(p.partition_index for p in topic.partitions if p.leader_id == -1) == broken
        assert all(list(p.offline_replicas) == [0] for p in topic.partitions if p.leader_id == -1)
        broker.create_topic("new", 2)  # created on the remaining disk
        assert produce(client, 0, topic="new") == produce(client, 1, topic="new") == 0
        with pytest.raises(KafkaError):
            broker.delete_topic("t")
    monkeypatch.undo()
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        assert log_dirs(client) == {"a": 0, "b": 0}
        with pytest.raises(KafkaError):  # the deletion is complete
            broker.records("t")


def test_a_disk_that_cannot_be_read_while_a_response_is_sent_is_taken_offline(tmp_path, monkeypatch):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", PARTITIONS)
        broken, *_ = partitions_in(tmp_path / "b")
        for _ in range(4):
            assert produce(client, broken, bytes(100_000)) == 0

        def fail(*_: object) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(wire.os, "sendfile", fail)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        try:
            consumer.assign([TopicPartition("t", broken, 0)])
            assert soon(lambda: [consumer.poll(0.01), log_dirs(client)["b"]][1] != 0)
        finally:
            consumer.close()
        assert log_dirs(client) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}


def test_after_a_repair_and_a_restart_everything_is_back(tmp_path, monkeypatch):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", PARTITIONS)
        assert all(produce(client, index, b"kept") == 0 for index in range(PARTITIONS))
        Disk(monkeypatch, tmp_path / "b", errno.EIO)
        [produce(client, index, b"lost") for index in range(PARTITIONS)]
    monkeypatch.undo()
    with two_disks(tmp_path) as broker:
        for index in range(PARTITIONS):
            assert broker.records("t", index)[0].value == b"kept"


def test_a_directory_that_was_removed_is_noticed(tmp_path):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", PARTITIONS)
        broken = partitions_in(tmp_path / "b")
        (tmp_path / "b").rename(tmp_path / "gone")  # atomic: the broker keeps writing into the directory
        assert soon(lambda: log_dirs(client) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR})
        assert all(produce(client, index) == ErrorCode.KAFKA_STORAGE_ERROR for index in broken)
        assert all(produce(client, index) == 0 for index in range(PARTITIONS) if index not in broken)


def test_a_log_that_was_removed_takes_no_other_with_it(tmp_path, caplog):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", PARTITIONS, config={"segment.ms": "1"})
        assert all(produce(client, index) == 0 for index in range(PARTITIONS))
        gone, *_ = partitions_in(tmp_path / "b")
        shutil.rmtree(tmp_path / "b" / f"t-{gone}")
        time.sleep(0.01)
        assert soon(lambda: produce(client, gone) == ErrorCode.KAFKA_STORAGE_ERROR)
        assert all(produce(client, index) == 0 for index in range(PARTITIONS) if index != gone)
        assert log_dirs(client) == {"a": 0, "b": 0}
    assert sum(f"t-{gone} is offline" in record.getMessage() for record in caplog.records) == 1


def test_a_broker_starts_without_a_directory_and_makes_nothing_in_its_place(tmp_path):
    with two_disks(tmp_path) as broker:
        broker.create_topic("t", PARTITIONS)
        for index in range(PARTITIONS):
            broker.produce("t", b"v", partition=index)
        broken = partitions_in(tmp_path / "b")
    (tmp_path / "b").rename(tmp_path / "aside")
    (tmp_path / "b").write_text("not a directory")
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        assert log_dirs(client) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}
        for index in range(PARTITIONS):
            assert produce(client, index) == (ErrorCode.KAFKA_STORAGE_ERROR if index in broken else 0)
    (tmp_path / "b").unlink()
    (tmp_path / "aside").rename(tmp_path / "b")
    with two_disks(tmp_path) as broker:
        for index in range(PARTITIONS):
            assert len(broker.records("t", index)) == (1 if index in broken else 2)


def leaders(client: WireClient) -> dict[int, int]:
    [topic] = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")])).topics
    return {each.partition_index: each.leader_id for each in topic.partitions}


@pytest.mark.parametrize("removed", [False, True])
def test_an_empty_disk_in_the_place_of_another_is_noticed_and_not_taken_for_its_data(
    tmp_path, caplog, removed
):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", PARTITIONS)
        there, lost = partitions_in(tmp_path / "a"), partitions_in(tmp_path / "b")
        assert all(produce(client, index) == 0 for index in range(PARTITIONS))
    (tmp_path / "b").rename(tmp_path / "old")
    dirs = {"log.dirs": str(tmp_path / "a")} if removed else {}
    caplog.clear()
    for attempt in range(2):  # the disk is new only once
        with two_disks(tmp_path, **dirs) as broker, WireClient(broker.bootstrap_servers) as client:
            assert {index for index, leader in leaders(client).items() if leader == -1} == set(lost)
            assert all(produce(client, index) == ErrorCode.KAFKA_STORAGE_ERROR for index in lost)
            assert all(produce(client, index) == 0 for index in there)
            broker.create_topic(f"new-{attempt}")
    assert any("The logs of t-" in record.getMessage() for record in caplog.records)
    # The old disk restores everything.
    if not removed:
        (tmp_path / "b").rename(tmp_path / "new")
    (tmp_path / "old").rename(tmp_path / "b")
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        assert soon(lambda: set(leaders(client).values()) == {0})
        assert [len(broker.records("t", index)) for index in lost] == [1, 1]


def test_an_operator_may_go_on_with_empty_logs_in_the_place_of_lost_ones(tmp_path):
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t", PARTITIONS)
        lost = partitions_in(tmp_path / "b")
        assert all(produce(client, index) == 0 for index in range(PARTITIONS))
    shutil.rmtree(tmp_path / "b")
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        assert all(leaders(client)[index] == -1 for index in lost)
    with two_disks(tmp_path, **{"unclean.leader.election.enable": "true"}) as broker:
        with WireClient(broker.bootstrap_servers) as client:
            assert soon(lambda: set(leaders(client).values()) == {0})
            assert all(produce(client, index) == 0 for index in lost)
        assert [len(broker.records("t", index)) for index in lost] == [1, 1]


def test_data_that_was_moved_as_a_whole_is_not_taken_for_lost(tmp_path):
    with two_disks(tmp_path) as broker:
        broker.create_topic("t", PARTITIONS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("a", "b"):
        (tmp_path / name).rename(elsewhere / name)
    shutil.rmtree(elsewhere / "b" / f"t-{partitions_in(elsewhere / 'b')[0]}")  # as after a power cut
    with two_disks(elsewhere) as broker, WireClient(broker.bootstrap_servers) as client:
        assert set(leaders(client).values()) == {0}


def test_a_disk_that_fails_while_a_log_is_compacted_is_taken_offline(tmp_path, monkeypatch):
    async def fails(self, job):
        broken = str(tmp_path / "b") in job.directory
        yield (
            {"event": "failed", "reason": "Input/output error", "errno": errno.EIO}
            if broken
            else {"event": "cancelled"}
        )

    monkeypatch.setattr(WorkerProcess, "run", fails)
    with two_disks(tmp_path, **{"log.cleaner.backoff.ms": "20"}) as broker:
        compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "50"}
        broker.create_topic("t", PARTITIONS, config=compact)
        lost, there = partitions_in(tmp_path / "b"), partitions_in(tmp_path / "a")
        with WireClient(broker.bootstrap_servers) as client:

            def is_offline() -> bool:
                with contextlib.suppress(KafkaError):
                    broker.produce("t", b"v", key=b"k", partition=lost[0])
                return log_dirs(client) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}

            assert soon(is_offline)
            for index in there:
                broker.produce("t", b"v", key=b"k", partition=index)
            assert soon(lambda: all(leaders(client)[index] == -1 for index in lost))
        assert not broker.cleaner_status().uncleanable


def test_without_the_first_directory_there_is_no_start(tmp_path):
    (tmp_path / "a").write_text("not a directory")
    with pytest.raises(StartupError, match="metadata"):
        Broker(config={"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}, data=tmp_path / "a").start()


def test_a_broker_whose_last_directory_fails_stops_with_one_sentence(tmp_path):
    data = tmp_path / "data"
    options = [f"--set={name}={value}" for name, value in OFTEN.items()]
    with BrokerProcess(data, options) as broker, WireClient(broker.bootstrap_servers) as client:
        client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        assert soon(lambda: produce(client, 0) == 0)
        data.rename(tmp_path / "gone")
        assert soon(lambda: not broker.is_running)
        assert broker._process.returncode == 1


def test_a_corrupt_log_is_offline_by_name_and_the_rest_starts(tmp_path, caplog):
    with two_disks(tmp_path) as broker:
        broker.create_topic("t", PARTITIONS)
        for index in range(PARTITIONS):
            for _ in range(3):
                broker.produce("t", b"value" * 100, partition=index)
    [path, *_] = sorted((tmp_path / "b").glob("t-*/*.log"))
    damaged = int(path.parent.name.rpartition("-")[2])
    for directory in ("a", "b"):
        (tmp_path / directory / ".kafka_cleanshutdown").unlink()
        (tmp_path / directory / "recovery-point-offset-checkpoint").unlink()
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)
    with two_disks(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        for index in range(PARTITIONS):
            assert produce(client, index) == (ErrorCode.KAFKA_STORAGE_ERROR if index == damaged else 0)
        assert log_dirs(client) == {"a": 0, "b": 0}
    assert any(f"t-{damaged} is offline" in record.getMessage() for record in caplog.records)
    assert path.read_bytes() == data


# A full disk


def test_on_a_full_disk_reads_go_on_and_writes_come_back(tmp_path, monkeypatch, caplog):
    with Broker(config=OFTEN, data=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t")
        assert produce(client, 0, b"before") == 0
        caplog.clear()
        disk = Disk(monkeypatch, tmp_path, errno.ENOSPC)
        for _ in range(20):
            assert produce(client, 0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert [record.value for record in broker.records("t")] == [b"before"]
        assert log_dirs(client) == {tmp_path.name: 0}
        errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(errors) == 1
        assert "No space left" in errors[0]
        disk.broken = False
        assert produce(client, 0, b"after") == 0
        assert [record.value for record in broker.records("t")] == [b"before", b"after"]
        assert soon(lambda: any("takes records again" in record.getMessage() for record in caplog.records))


def test_a_group_that_cannot_commit_on_a_full_disk_can_afterwards(tmp_path, monkeypatch):
    with Broker(config=OFTEN, data=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t")
        broker.ensure_internal_topic("__consumer_offsets")

        def commit(offset: int) -> int:
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
            topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
            answer = client.call(OffsetCommitRequest(group_id="g", topics=topics), 8)
            return answer.topics[0].partitions[0].error_code

        assert commit(1) == 0
        disk = Disk(monkeypatch, tmp_path, errno.ENOSPC)
        assert ErrorCode(commit(2)).retriable
        disk.broken = False
        assert commit(3) == 0


def test_a_checkpoint_is_whole_or_the_old_one(tmp_path, monkeypatch):
    path = str(tmp_path / "checkpoint")
    checkpoint.write_offsets(path, {("t", 0): 1})
    write = os.write
    rooms = iter([5])

    def full(fd: int, data: bytes) -> int:
        room = next(rooms, 0)
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:room])

    monkeypatch.setattr(checkpoint.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.write_offsets(path, {("t", 0): 2})
    monkeypatch.undo()
    assert checkpoint.read_offsets(path).by_partition == {("t", 0): 1}
    assert os.listdir(tmp_path) == ["checkpoint"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Create a file system of 8 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system can be mounted by root only")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


def test_a_broker_survives_a_real_full_disk_and_recovers_by_itself(small_disk, caplog):
    with Broker(config=OFTEN, data=small_disk / "data") as broker:
        broker.create_topic("t", config={"segment.bytes": "1048576"})
        broker.ensure_internal_topic("__consumer_offsets")
        with WireClient(broker.bootstrap_servers) as client:
            assert produce(client, 0, b"x" * 500_000) == 0
            ballast = fill(small_disk)
            refused = [produce(client, 0, b"x" * 500_000) for _ in range(5)]
            assert set(refused) == {ErrorCode.KAFKA_STORAGE_ERROR}
            assert len(broker.records("t")) == 1
            # Only the metadata store is read-only now.
            with contextlib.suppress(KafkaError):
                broker.create_topic("made-on-a-full-disk")
            client.call(InitProducerIdRequest(transactional_id=None))
            time.sleep(1)  # checkpoints fail in the meantime
            assert len(broker.records("t")) == 1
            producer = Producer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "enable.idempotence": True,
                    "retry.backoff.ms": 50,
                    "message.timeout.ms": 30_000,
                }
            )
            results: list[object] = []
            producer.produce("t", b"y" * 300_000, on_delivery=lambda error, _: results.append(error))
            producer.poll(1)
            assert results == []
            ballast.unlink()
            assert producer.flush(20) == 0
            assert results == [None]
            assert produce(client, 0, b"after") == 0
            assert [len(record.value) for record in broker.records("t")] == [500_000, 300_000, 5]
            assert client.call(InitProducerIdRequest(transactional_id=None)).error_code == 0
            broker.create_topic("made-later")
            assert produce(client, 0, topic="made-later") == 0
            with contextlib.suppress(KafkaError):
                broker.create_topic("made-on-a-full-disk")
            assert soon(lambda: produce(client, 0, topic="made-on-a-full-disk") == 0)
    assert not [record for record in caplog.records if record.exc_info]
    with Broker(config=OFTEN, data=small_disk / "data") as broker:
        assert [len(record.value) for record in broker.records("t")] == [500_000, 300_000, 5]


def test_a_broker_that_is_killed_on_a_full_disk_has_everything_that_was_acknowledged(small_disk):
    data = small_disk / "data"
    acknowledged = 0
    with BrokerProcess(data) as broker, WireClient(broker.bootstrap_servers) as client:
        client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        assert soon(lambda: produce(client, 0, b"first") == 0)
        acknowledged += 1
        while (error := produce(client, 0, b"x" * 200_000)) == 0:
            acknowledged += 1
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        broker.kill()
    assert acknowledged > 20
    program = (
        "import sys; from ottla.testing import Broker\n"
        f"with Broker(data={str(data)!r}) as broker: print(len(broker.records('t')))"
    )
    ballast_free = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ballast_free.stdout.strip() == str(acknowledged), ballast_free.stderr
