"""Queries with every kind of state, and records for them in two parts.

`python -m tests.sql.upgrades.scenario FILE` writes a tar file with the checkpoints after the first part, and with the
queries' output for the second part. The stored files come from versions of Ottla with older formats.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.testing import Broker

if TYPE_CHECKING:
    from ottla.sql import SqlSession

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
FUNCTIONS = [str(Path(__file__).with_name("kept_functions.py"))]
SCRIPT = """
CREATE STREAM orders (k STRING KEY, id INT, item STRING, n INT, price DECIMAL(8, 2), tags ARRAY<STRING>,
    marks MAP<STRING, INT>, place STRUCT<x INT, y STRING>, good BOOLEAN, day DATE, at TIMESTAMP)
    WITH (kafka_topic='orders', partitions=1);
CREATE STREAM payments (k STRING KEY, id INT, paid DOUBLE) WITH (kafka_topic='payments', partitions=1);
CREATE TABLE people (k STRING PRIMARY KEY, town INT, name STRING) WITH (kafka_topic='people', partitions=1);
CREATE TABLE accounts (k STRING PRIMARY KEY, balance DECIMAL(8, 2)) WITH (kafka_topic='accounts', partitions=1);
CREATE TABLE towns (id INT PRIMARY KEY, title STRING) WITH (kafka_topic='towns', partitions=1);

CREATE TABLE windowed AS SELECT k, COUNT(*) AS c, SUM(price) AS total FROM orders
    WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY k EMIT FINAL;
CREATE TABLE sessions AS SELECT k, COLLECT_LIST(item) AS items, LATEST_BY_OFFSET(place) AS p FROM orders
    WINDOW SESSION (3 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY k;
CREATE TABLE many WITH (key_format='JSON') AS SELECT n, tags, good, COUNT(*) AS c,
    COLLECT_LIST(price) AS prices, COLLECT_SET(item) AS items, COUNT_DISTINCT(good) AS goods, TOPK(n, 2) AS ns,
    TOPK(price, item, 2) AS dear, TOPKDISTINCT(item, 2) AS last_items, LATEST_BY_OFFSET(at, 2) AS ats,
    EARLIEST_BY_OFFSET(place) AS first_place, HISTOGRAM(item) AS h, AVG(price) AS a, STDDEV_SAMP(n) AS s,
    CORRELATION(n, id) AS r, MIN(item) AS least, MAX(day) AS latest, COLLECT_SET(good) AS set_of_goods,
    COUNT_DISTINCT(marks) AS different_marks
    FROM orders GROUP BY n, tags, good HAVING COUNT(*) > 0;
CREATE TABLE spread AS SELECT k, SPREAD(item, price, day, at) AS s FROM orders GROUP BY k;
CREATE TABLE inhabitants AS SELECT town, COUNT(*) AS c, COLLECT_LIST(name) AS names, ATTR(name) AS only
    FROM people GROUP BY town;
CREATE TABLE both AS SELECT ROWKEY AS k, name, balance FROM people FULL JOIN accounts ON people.k = accounts.k;
CREATE TABLE living AS SELECT people.k AS k, name, title FROM people LEFT JOIN towns ON people.town = towns.id;
CREATE STREAM named WITH (partitions=1) AS SELECT orders.k AS k, orders.id AS id, name, tags FROM orders
    LEFT JOIN people ON orders.k = people.k;
CREATE STREAM settled WITH (partitions=1) AS SELECT orders.k AS k, orders.id AS oid, payments.id AS pid, price, place
    FROM orders LEFT JOIN payments WITHIN 4 SECONDS GRACE PERIOD 5 SECONDS ON orders.k = payments.k;
"""
SINKS = ("WINDOWED", "SESSIONS", "MANY", "SPREAD", "INHABITANTS", "BOTH", "LIVING", "NAMED", "SETTLED")
Written = tuple[str, bytes, Any, int]


def records(part: int) -> list[Written]:
    """Return the records of a part: (topic, key, value, time). Times of the second part follow the first."""
    chance = random.Random(part)
    made: list[Written] = []
    for number in range(60):
        at = NOON + part * 40_000 + number * 600 - chance.randrange(1500)
        key = f"kü{chance.randrange(4)}".encode()
        match chance.choice(["orders", "orders", "orders", "payments", "people", "accounts", "towns"]):
            case "orders":
                made.append(("orders", key, _order(chance, part * 100 + number, at), at))
            case "payments":
                made.append(("payments", key, {"id": number, "paid": number / 3}, at))
            case "towns":
                title = None if chance.random() < 0.2 else {"title": f"Town {number}"}
                made.append(("towns", chance.randrange(3).to_bytes(4, "big"), title, at))
            case "people":
                person = {"town": chance.choice([None, 0, 1, 2]), "name": f"N{number % 5}"}
                made.append(("people", key, None if chance.random() < 0.2 else person, at))
            case topic:
                made.append((topic, key, {"balance": f"{chance.randrange(99)}.{number % 90 + 10}"}, at))
    return made


def _order(chance: random.Random, number: int, at: int) -> dict[str, Any]:
    return {
        "id": number,
        "item": chance.choice(["pen", "ink", "paper", 'it\'s "quoted"', None]),
        "n": chance.choice([1, 2, None]),
        "price": f"{chance.randrange(999)}.{number % 90 + 10}",
        "tags": chance.choice([["a"], ["a", "b'"], []]),
        "marks": {"m": chance.randrange(2)},
        "place": chance.choice([{"x": number, "y": "é"}, None]),
        "good": chance.choice([True, False, None]),
        "day": 20_000 + number % 3,
        "at": at,
    }


class Run:
    """The script's queries over a broker, with their checkpoints in a directory."""

    def __init__(self, session: SqlSession, broker: Broker) -> None:
        self.session, self.broker = session, broker

    def execute(self, *, resume: bool = False) -> None:
        """Start the queries one after the other, because Spark's workers start slowly on a busy machine."""
        for statement in SCRIPT.split(";\n"):
            if statement.strip():
                self.session.execute(f"{statement};", resume=resume)
                self.settle()

    def produce(self, part: int) -> None:
        for topic, key, value, at in records(part):
            data = None if value is None else json.dumps(value).encode()
            self.broker.produce(topic, data, key=key, timestamp=at)

    def settle(self) -> None:
        for running in self.session.queries.all():
            assert running.query is not None
            running.query.processAllAvailable()

    def found(self, topic: str) -> list[list[Any]]:
        return [
            [
                (record.key or b"").hex(),
                None if record.value is None else json.loads(bytes(record.value)),
                record.timestamp,
            ]
            for record in self.broker.records(topic, 0)
        ]


def main(path: str) -> None:
    from ottla.spark import session
    from ottla.sql import SqlSession

    spark = session("upgrades", master="local[2]", config={"spark.sql.shuffle.partitions": "1"})
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        checkpoints = Path(folder) / "checkpoints"
        run = Run(
            SqlSession(
                spark,
                bootstrap_servers=broker.bootstrap_servers,
                checkpoints=str(checkpoints),
                functions=FUNCTIONS,
            ),
            broker,
        )
        run.session.execute("SET 'auto.offset.reset' = 'earliest';")
        run.execute()
        for part in (0, 1):
            run.produce(part)
            run.settle()
        run.session.stop()
        before = {sink: len(run.found(sink)) for sink in SINKS}
        with tarfile.open(path, "w:xz") as tar:
            tar.add(
                checkpoints, "checkpoints", filter=lambda each: None if each.name.endswith(".crc") else each
            )
            run.session = SqlSession(
                spark,
                bootstrap_servers=broker.bootstrap_servers,
                checkpoints=str(checkpoints),
                functions=FUNCTIONS,
            )
            # All records exist before the queries start, so that each has one micro-batch.
            run.produce(2)
            run.execute(resume=True)
            run.session.stop()
            expected = {sink: run.found(sink)[before[sink] :] for sink in SINKS}
            data = json.dumps(expected, ensure_ascii=False, indent=1).encode()
            info = tarfile.TarInfo("expected.json")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
