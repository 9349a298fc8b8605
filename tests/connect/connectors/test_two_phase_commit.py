"""Promise: a transaction of Kafka and a prepared transaction of PostgreSQL agree, however often the writer and the
broker are killed (KIP-939).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.transactions import two_phase_worker
from tests.broker.transactions.wire_producer import WireProducer
from tests.broker_process import BrokerProcess
from tests.connect.connectors.postgres import PostgresServer
from tests.wire_client import WireClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
KILLS = 20


def test_both_sides_agree_after_twenty_kills(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    options = ["--set", "transaction.two.phase.commit.enable=true"]
    with PostgresServer(max_prepared_transactions="10") as server, BrokerProcess(tmp_path, options) as broker:
        url = psycopg.conninfo.make_conninfo(**server.login("postgres"))
        with psycopg.connect(url, autocommit=True) as database:
            database.execute("CREATE TABLE numbers (number int PRIMARY KEY)")
            database.execute("CREATE TABLE outcome (producer_id bigint, epoch int)")
            database.execute("INSERT INTO outcome VALUES (-1, -1)")
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            admin.create_topics([NewTopic("numbers", 1, 1)])["numbers"].result()
            for seed in range(KILLS):
                command = [sys.executable, "-m", two_phase_worker.__name__]
                worker = subprocess.run(
                    [*command, broker.bootstrap_servers, url, str(seed)],
                    check=False,
                    capture_output=True,
                    timeout=60,
                )
                assert worker.returncode == -9, worker.stderr.decode()
                if seed % 4 == 3:
                    broker.kill()
                    broker.start()
            with WireClient(broker.bootstrap_servers) as client:
                producer = WireProducer(client, two_phase_worker.NAME, v2=True)
                count = two_phase_worker.recover(producer, database)
            rows = [number for (number,) in database.execute("SELECT number FROM numbers ORDER BY number")]
        assert rows == list(range(count))
        assert count > KILLS
        assert records(broker.bootstrap_servers) == rows


def records(servers: str) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition("numbers", 0, 0)])
        found: list[int] = []
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                return found
            found.append(int(message.value() or b""))
    finally:
        consumer.close()
