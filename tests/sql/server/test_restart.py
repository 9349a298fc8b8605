"""The server is killed and restarted: its queries continue where they were."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ottla.testing import Broker
from tests.sql.server.serving import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

EARLIEST = {"auto.offset.reset": "earliest"}
_WAIT = 500.0


class Process:
    def __init__(self, bootstrap_servers: str, place: Path) -> None:
        self._log = (place / "server.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli", "sql", "server", "--listen", "127.0.0.1:0", "-b", bootstrap_servers,
             "--checkpoints", str(place / "checkpoints"), "--master", "local[2]"],
            env={**os.environ, "XDG_STATE_HOME": str(place)},
            stdout=subprocess.PIPE,
            stderr=self._log,
        )  # fmt: skip
        assert self.process.stdout is not None
        found = re.search(rb"http://\S+:\d+", self.process.stdout.readline())
        assert found, (place / "server.log").read_text()
        self.http = httpx.Client(base_url=found[0].decode(), timeout=_WAIT)

    def done(self, text: str) -> list[dict[str, Any]]:
        answer = self.http.post("/ksql", json={"ksql": text, "streamsProperties": EARLIEST})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()
        return found

    def states(self) -> dict[str, str]:
        return {each["id"]: each["state"] for each in self.done("SHOW QUERIES;")[0]["queries"]}

    def kill(self, number: signal.Signals) -> None:
        self.http.close()
        self.process.send_signal(number)
        self.process.wait(120)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()


@contextmanager
def sql_server(bootstrap_servers: str, place: Path, end: signal.Signals) -> Iterator[Process]:
    running = Process(bootstrap_servers, place)
    try:
        yield running
    finally:
        running.kill(end)


def values(broker: Broker, topic: str) -> list[Any]:
    return [json.loads(bytes(each.value or b"null")) for each in broker.records(topic, 0)]


def committed(broker: Broker, topic: str) -> list[Any]:
    """Read committed records; the remains of a killed attempt do not count."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(20)
            assert message is not None
            if message.error() is not None:
                return found
            found.append(json.loads(message.value()))
    finally:
        consumer.close()


def test_ten_queries_go_on_where_they_were(broker: Broker, tmp_path: Path) -> None:
    """The server dies by SIGKILL, rows arrive while it is down, and each row comes out once."""
    servers = broker.bootstrap_servers
    with sql_server(servers, tmp_path, signal.SIGKILL) as server:
        server.done(
            "CREATE STREAM r (k INT KEY, x INT) WITH (kafka_topic='r', value_format='JSON', partitions=1);"
            "CREATE STREAM i (k INT KEY, x INT) WITH (kafka_topic='i', value_format='JSON', partitions=1);"
        )
        for number in range(7):
            server.done(f"CREATE STREAM c{number} AS SELECT k, x + {number} AS x FROM r;")
        server.done("CREATE TABLE counted AS SELECT k, COUNT(*) AS n FROM r GROUP BY k;")
        server.done("INSERT INTO i SELECT k, x FROM r;")
        server.done("CREATE STREAM last AS SELECT k, x FROM c0;")
        gone = server.done("CREATE STREAM gone AS SELECT k, x FROM r;")[0]["commandStatus"]["queryId"]
        server.done(f"TERMINATE {gone};")
        before = server.states()
        assert len(before) == 10
        server.done("INSERT INTO r VALUES " + ", ".join(f"({k}, {k})" for k in range(5)) + ";")
        streams = {f"C{number}": number for number in range(7)} | {"i": 0, "LAST": 0}
        wait_until(lambda: all(len(values(broker, topic)) >= 5 for topic in streams), _WAIT)
        wait_until(lambda: len(values(broker, "COUNTED")) >= 5, _WAIT)
    broker_session(broker, "INSERT INTO r VALUES " + ", ".join(f"({k}, {k})" for k in range(5, 10)) + ";")
    with sql_server(servers, tmp_path, signal.SIGTERM) as server:
        wait_until(lambda: len(server.states()) == 10, _WAIT)
        assert server.states() == dict.fromkeys(before, "RUNNING")
        server.done("INSERT INTO r VALUES (10, 10);")
        wait_until(lambda: all(len(committed(broker, topic)) >= 11 for topic in streams), _WAIT)
        for topic, added in streams.items():
            assert [row["X"] for row in committed(broker, topic)] == [k + added for k in range(11)]
        wait_until(lambda: len(committed(broker, "COUNTED")) >= 11, _WAIT)
        assert [row["N"] for row in committed(broker, "COUNTED")] == [1] * 11
        # Created objects keep their names, and new queries get unused ids.
        refused = server.http.post("/ksql", json={"ksql": "CREATE STREAM c0 AS SELECT k FROM r;"})
        assert refused.status_code == 400
        again = server.done("INSERT INTO i SELECT k, x + 1 AS x FROM r;")[0]["commandStatus"]["queryId"]
        assert again not in before


def broker_session(broker: Broker, statement: str) -> None:
    """A session like any other client's, while the server is down."""
    from ottla.sql import SqlSession
    from tests.sql.server.serving import no_spark

    session = SqlSession(no_spark, bootstrap_servers=broker.bootstrap_servers)
    session.execute(statement)
    session.close()
