"""Promise: Apache Kafka reads our metadata of remote segments, and its tools and clients read tiered topics."""

from __future__ import annotations

import random
import re
import subprocess
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bench.peers.apache_kafka import Unavailable, java, kafka_classpath, run_tool
from ottla.log.remote.segment_metadata import (
    PartitionDeleteState,
    RemoteLogSegment,
    SegmentState,
    TopicIdPartition,
    metadata_partition,
    to_partition_delete,
    to_record,
    to_update,
)
from ottla.protocol.remote_log_records import encode_record
from ottla.testing import Broker
from tests.broker.remote_log.conftest import TOPIC_CONFIG, eventually, log_of, tiered_config

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "java" / "RemoteLogMetadata.java"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"


def segments() -> list[RemoteLogSegment]:
    chance = random.Random(11)
    found = []
    for number in range(200):
        start = chance.randrange(2**40)
        epochs = sorted(chance.sample(range(1000), chance.randint(1, 4)))
        found.append(
            RemoteLogSegment(
                TopicIdPartition(f"topic-{number}", chance.randbytes(16), chance.randrange(1000)),
                chance.randbytes(16),
                start,
                start + 1000,
                {epoch: start + 10 * at for at, epoch in enumerate(epochs)},
                chance.randrange(2**31),
                chance.randrange(2**45),
                chance.randrange(100),
                chance.randrange(2**45),
                has_transaction_index=bool(number % 2),
                custom_metadata=chance.choice([None, b"abc"]),
            )
        )
    return found


def answers(values: list[bytes]) -> list[list[str]]:
    try:
        command = [java(), "-Xmx256m", "-cp", kafka_classpath(), str(SOURCE)]
    except Unavailable as reason:
        pytest.skip(str(reason))
    lines = "".join(value.hex() + "\n" for value in values)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_kafkas_classes_read_and_write_the_same_records() -> None:
    some = segments()
    values, partitions = [], []
    for segment in some:
        finished = segment.in_state(SegmentState.COPY_SEGMENT_FINISHED, 5, 7)
        marked = to_partition_delete(segment.partition, PartitionDeleteState.DELETE_PARTITION_MARKED, 1, 2)
        values += [encode_record(each) for each in (to_record(segment), to_update(finished), marked)]
        partitions += [metadata_partition(segment.partition, 50)] * 3
    found = answers(values)
    assert [answer[0] for answer in found] == [value.hex() for value in values]
    assert [int(answer[1]) for answer in found] == partitions
    assert f"startOffset={some[0].start_offset}" in found[0][2]


def test_kafkas_tools_read_a_tiered_topic(tmp_path: Path) -> None:
    with Broker(config=tiered_config(tmp_path / "remote")) as broker:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        broker.create_topic(topic, 1, TOPIC_CONFIG)
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "transactional.id": "x",
                "batch.num.messages": 5,
            }
        )
        producer.init_transactions(20)
        expected = []
        for number in range(30):
            producer.begin_transaction()
            for at in range(10):
                producer.produce(topic, b"%d-%d" % (number, at), partition=0)
            if number % 2:
                producer.commit_transaction(20)
                expected += [f"{number}-{at}" for at in range(10)]
            else:
                producer.flush()
                producer.abort_transaction(20)
        log = log_of(broker, topic)
        eventually(lambda: len(log.segments) == 1 and log.copied_upto == log.local_start_offset)
        server = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic]
        try:
            read = run_tool(
                CONSOLE_CONSUMER,
                [
                    *server,
                    *("--partition", "0", "--offset", "0", "--timeout-ms", "5000"),
                    *("--isolation-level", "read_committed"),
                ],
            )
        except Unavailable as reason:
            pytest.skip(str(reason))
        assert re.findall(r"^\d+-\d+$", read.stdout, re.MULTILINE) == expected
        for time, offset in [
            ("earliest", 0),
            ("earliest-local", log.local_start_offset),
            ("latest-tiered", log.local_start_offset - 1),
            ("latest", log.log_end_offset),
        ]:
            assert (
                run_tool(GET_OFFSETS, [*server, "--time", time]).stdout.split()[-1] == f"{topic}:0:{offset}"
            )
        # Kafka's own formatter of the metadata topic.
        shown = run_tool(
            CONSOLE_CONSUMER,
            [
                *("--bootstrap-server", broker.bootstrap_servers, "--topic", "__remote_log_metadata"),
                *("--from-beginning", "--timeout-ms", "5000", "--formatter"),
                "org.apache.kafka.server.log.remote.metadata.storage.serialization."
                "RemoteLogMetadataSerde$RemoteLogMetadataFormatter",
            ],
        )
        assert shown.stdout.count("COPY_SEGMENT_FINISHED") == shown.stdout.count("COPY_SEGMENT_STARTED") > 3
