"""Promise: file descriptors do not limit partitions or connections, and a broker that runs out recovers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import cast

import pytest

from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.segments import segment as segments
from ottla.log.segments.open_files import ActiveFiles
from ottla.protocol.messages.cluster import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.records import Record, build_batch
from tests.broker_process import BrokerProcess
from tests.wire_client import WireClient

FEW = 128
TOPICS = ["one", "two", "three"]
PARTITIONS = range(100)


def create(client: WireClient, name: str) -> None:
    wanted = CreatableTopic(name=name, num_partitions=len(PARTITIONS), replication_factor=1)
    answer = client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 5)
    [result] = cast(CreateTopicsResponse, answer).topics
    assert not result.error_code, result.error_message


def produce(client: WireClient, name: str, value: bytes) -> None:
    """Produce a record to each partition."""
    batch = build_batch([Record(0, 0, None, value, ())])
    partitions = [PartitionProduceData(index=index, records=batch) for index in PARTITIONS]
    data = [TopicProduceData(name=name, partition_data=partitions)]
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
    [result] = cast(ProduceResponse, answer).responses
    assert {each.error_code for each in result.partition_responses} == {0}


def consume(client: WireClient, name: str) -> list[bytes]:
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 16) for index in PARTITIONS
    ]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 24, topics=[FetchTopic(topic=name, partitions=partitions)]
    )
    [result] = cast(FetchResponse, client.call(request, 12)).responses
    assert {each.error_code for each in result.partitions} == {0}
    return [bytes(each.records or b"") for each in result.partitions]


def test_more_partitions_than_descriptors_are_created_written_and_read(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", descriptors=FEW) as broker:
        with WireClient(broker.bootstrap_servers, timeout=60) as client:
            for name in TOPICS:
                create(client, name)
            for value in (b"first", b"second"):
                for name in TOPICS:
                    produce(client, name, value)
            for name in TOPICS:
                found = consume(client, name)
                assert len(found) == len(PARTITIONS)
                assert all(b"first" in data and b"second" in data for data in found)
        broker.stop()
        broker.start(seconds=60)
        with WireClient(broker.bootstrap_servers, timeout=60) as client:
            produce(client, "two", b"third")
            assert all(b"second" in data and b"third" in data for data in consume(client, "two"))


def test_more_connections_than_descriptors_wait_until_others_are_closed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", descriptors=FEW) as broker:
        with WireClient(broker.bootstrap_servers, timeout=60) as client:
            create(client, "one")
        clients = [WireClient(broker.bootstrap_servers, timeout=60) for _ in range(FEW)]
        try:
            answered = clients[: FEW // 4]
            for client in answered:
                client.call(ApiVersionsRequest(), 0)
            produce(answered[0], "one", b"while others wait")
            for client in clients[:-1]:
                client.socket.close()
            clients[-1].call(ApiVersionsRequest(), 0)
            assert all(b"while others wait" in data for data in consume(clients[-1], "one"))
        finally:
            for client in clients:
                client.socket.close()


def test_a_topic_for_which_no_descriptor_is_left_is_refused_as_a_whole() -> None:
    script = """
        import os, resource, socket

        resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))

        from ottla.log.segments.open_files import active_files
        from ottla.protocol.errors import KafkaError
        from ottla.testing import Broker
        from ottla.protocol.messages.cluster import ApiVersionsRequest
        from tests.wire_client import WireClient

        def take_all():
            taken = []
            while True:
                try:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
                except OSError:
                    return taken

        with Broker() as broker:
            broker.create_topic("before", 20)
            with WireClient(broker.bootstrap_servers) as client:
                client.call(ApiVersionsRequest(), 0)  # everything is imported
            active_files.close_idle(1000)
            taken = take_all()
            try:
                broker.create_topic("refused", 200)
            except KafkaError as error:
                print(error.message)
            os.close(taken.pop())
            client = WireClient(broker.bootstrap_servers)  # nobody can accept it yet
            client.send(ApiVersionsRequest(), 0)
            for fd in taken:
                os.close(fd)
            client.receive(ApiVersionsRequest(), 0)
            print(*sorted(name for name in os.listdir(broker.data) if "refused" in name))
            broker.create_topic("refused", 200)
            print(broker.produce("refused", b"x", partition=199))
            client.socket.close()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    refusal, left, offset = done.stdout.splitlines()
    assert refusal.startswith("No partitions of topic 'refused' can be created: ")
    assert "ulimit -n" in refusal
    assert (left, offset) == ("", "0")


def test_idle_logs_are_closed_first_and_opened_again_when_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ActiveFiles(3)
    monkeypatch.setattr(segments, "active_files", files)
    logs = [PartitionLog.open(tmp_path / f"t-{index}", "t", index, LogConfig()) for index in range(3)]

    def append(log: PartitionLog, value: bytes) -> None:
        batch = build_batch([Record(0, 0, None, value, ())])
        log.append(batch, leader_epoch=0, now_ms=0)

    append(logs[0], b"busy")
    logs.append(PartitionLog.open(tmp_path / "t-3", "t", 3, LogConfig()))
    assert [log.active.file is None for log in logs] == [False, True, False, False]
    append(logs[1], b"back")
    assert len(files) == 3
    assert logs[1].active.file is not None
    files.close_idle(3)
    assert all(log.active.file is None for log in logs)
    for log, value in zip(logs, (b"busy", b"back"), strict=False):
        assert value in log.read(0, 1 << 16, upto=1, min_one=True).read()
        append(log, b"more")
        log.flush()
    for log in logs:
        log.close()
    assert len(files) == 0
