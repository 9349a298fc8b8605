"""Promise: transactions are Kafka's transactions, for the Java client, for Kafka's tools and in the files."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.peers.apache_kafka import (
    DUMP_LOG,
    ApacheKafka,
    Unavailable,
    client_classpath,
    java,
    kafka_jars,
    run_tool,
)
from ottla.testing import Broker
from tests.broker.transactions.test_exactly_once import copy_under_fire

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
COPIER = Path(__file__).parent / "java" / "Copier.java"


@pytest.fixture(scope="module", autouse=True)
def apache_kafka_is_there() -> None:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))


def open_producer(bootstrap_servers: str, transactional_id: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id, "logger": None}
    )
    producer.init_transactions(30)
    return producer


def write_transactions(bootstrap_servers: str) -> Producer:
    """Write one committed, one aborted and one open transaction."""
    producer = open_producer(bootstrap_servers, "writer")
    for value, commit in (("committed", True), ("aborted", False)):
        producer.begin_transaction()
        producer.produce("events", value)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    left = open_producer(bootstrap_servers, "left open")
    left.begin_transaction()
    left.produce("events", "open")
    left.flush(30)
    return left


def read(bootstrap_servers: str, isolation: str) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": str(uuid.uuid4()),
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "logger": None,
        }
    )
    consumer.assign([TopicPartition("events", 0, 0)])
    values = []
    while True:
        message = consumer.poll(30)
        assert message is not None, "nothing comes"
        if message.error():
            consumer.close()
            return values
        values.append(message.value().decode())


def test_the_java_client_copies_exactly_once_under_fire(tmp_path: Path) -> None:
    command = [java(), "-Xmx256m", "-XX:+UseSerialGC", "-cp", client_classpath(), str(COPIER)]
    copy_under_fire(tmp_path, records=5_000, kills=9, seconds=150, command=command)


def test_kafkas_tools_find_and_end_transactions() -> None:
    with Broker() as broker:
        broker.create_topic("events")
        left = write_transactions(broker.bootstrap_servers)
        address = ["--bootstrap-server", broker.bootstrap_servers]
        listed = run_tool(TRANSACTIONS, [*address, "list"]).stdout
        assert "CompleteAbort" in listed
        assert "Ongoing" in listed
        described = run_tool(TRANSACTIONS, [*address, "describe", "--transactional-id", "left open"]).stdout
        assert "events-0" in described
        producers = run_tool(
            TRANSACTIONS, [*address, "describe-producers", "--topic", "events", "--partition", "0"]
        ).stdout
        assert [line.split()[-1] for line in producers.splitlines()[1:]].count("4") == 1
        abort = ["abort", "--topic", "events", "--partition", "0", "--start-offset", "4"]
        run_tool(TRANSACTIONS, [*address, *abort])
        broker.produce("events", b"behind it")
        assert read(broker.bootstrap_servers, "read_committed") == ["committed", "behind it"]
        del left


def test_kafkas_tools_read_the_files(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("events")
        write_transactions(broker.bootstrap_servers)
    [index] = (tmp_path / "events-0").glob("*.txnindex")
    dumped = run_tool(DUMP_LOG, ["--files", str(index)]).stdout
    assert "firstOffset: 2 lastOffset: 3 lastStableOffset: 4" in dumped
    log = str(next((tmp_path / "events-0").glob("*.log")))
    dumped = run_tool(DUMP_LOG, ["--files", log, "--print-data-log"]).stdout
    assert "endTxnMarker: COMMIT" in dumped
    assert "endTxnMarker: ABORT" in dumped
    decoded = "".join(
        run_tool(DUMP_LOG, ["--files", str(path), "--transaction-log-decoder"]).stdout
        for path in tmp_path.glob("__transaction_state-*/*.log")
        if path.stat().st_size
    )
    assert '"transactionalId":"left open"' in decoded
    assert '"transactionStatus":5' in decoded


def test_ottla_takes_over_the_transactions_of_apache_kafka(tmp_path: Path) -> None:
    with ApacheKafka(data=tmp_path / "kafka", config={"num.partitions": "1"}) as kafka:
        write_transactions(kafka.bootstrap_servers)
        kafka.kill()
        shutil.copytree(kafka.log_dir, tmp_path / "ottla")
    with Broker(data=tmp_path / "ottla") as broker:
        assert read(broker.bootstrap_servers, "read_committed") == ["committed"]
        assert read(broker.bootstrap_servers, "read_uncommitted") == ["committed", "aborted", "open"]
        second = open_producer(broker.bootstrap_servers, "left open")  # and aborts the open transaction
        second.begin_transaction()
        second.produce("events", "taken over")
        second.commit_transaction(30)
        assert read(broker.bootstrap_servers, "read_committed") == ["committed", "taken over"]
