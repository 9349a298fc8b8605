"""Promise: with drivers, executors and brokers killed, a SQL query writes the same changes as an undisturbed run.

The input exists before the queries start, and each micro-batch takes the same number of records. The changes are
therefore deterministic, and both runs can be compared record by record. OTTLA_CHAOS_SEED repeats the kills of a run,
and OTTLA_KILLS=6 shortens it.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess
from tests.spark.consuming import consume
from tests.spark.driver_process import DriverProcess
from tests.spark.test_chaos import Cluster, wait

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

KILLS = [
    ("driver", "executor", "broker")[number % 3] for number in range(int(os.environ.get("OTTLA_KILLS", "20")))
]
BATCHES = 4 * len(KILLS)
PER_BATCH = 20
USERS = ("ann", "bob", "cid")
PARTITIONS = 2
#: The functions of `chaos_pipelines`, and their output topics; each run has its own topics.
QUERIES = {"sql_counts": "counts_{run}", "sql_joined": "joined_{run}"}
TOPICS = ("events", "lefts", "rights")
KEYS = 30
#: Names for the run without kills, and for its retries.
RUNS = [f"calm{attempt}" for attempt in range(5)]

Change = tuple[bytes | None, bytes | None, int]


def produce(servers: str) -> None:
    """Write events up to a minute out of order, so that windows change repeatedly, and changes of two tables, including
    deletions.
    """
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    start = int(time.time() * 1000) - 3_600_000  # retention deletes windows older than a week
    for number in range(BATCHES * PER_BATCH):
        at = start + number * 100 - random.randrange(60_000)
        value = f"{number},{random.choice(USERS)},{at}"
        producer.produce("events", value, key=str(number), partition=number % PARTITIONS)
        for topic in ("lefts", "rights"):
            key = random.randrange(KEYS)
            row = None if random.random() < 0.1 else str(number)
            producer.produce(topic, row, key=f"k{key}", partition=key % PARTITIONS, timestamp=start + number)
    assert producer.flush(120) == 0


def changes(servers: str, topic: str) -> list[Change]:
    """Return the changes by partition and offset."""
    found = sorted(consume(servers, topic, PARTITIONS), key=lambda each: (each.partition(), each.offset()))
    return [(each.key(), each.value(), each.timestamp()[1]) for each in found]


def last_per_key(found: list[Change]) -> dict[bytes | None, bytes | None]:
    return {key: value for key, value, _ in found}


def undisturbed(servers: str, directory: Path, options: dict[str, str], name: str) -> list[Change]:
    """The changes of one complete run."""
    for run in RUNS:
        place = str(directory / run)
        driver = DriverProcess(
            directory, {**options, "run": run, "master": "local[2]", "checkpoint": place}, name
        )
        # On a busy machine Spark gives up on workers that start slowly. Such a run does not count.
        if driver.wait(1200) == 0:
            found = changes(servers, QUERIES[name].format(run=run))
            assert len(found) > BATCHES
            return found
    raise AssertionError(driver.output.read_text())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "broker", ["--set", "transaction.state.log.num.partitions=4"])
    broker.start()
    yield broker
    if broker.is_running:
        broker.kill()


def test_changes_are_those_of_an_undisturbed_run(broker: BrokerProcess, tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_CHAOS_SEED", time.time()))
    print(f"OTTLA_CHAOS_SEED={seed}")
    random.seed(seed)
    servers = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    # The result topics too: compaction would remove replaced changes.
    results = [topic.format(run=run) for topic in QUERIES.values() for run in ("killed", *RUNS)]
    for made in admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in (*TOPICS, *results)]).values():
        made.result(30)
    produce(servers)
    options = {"servers": servers, "per_batch": str(PER_BATCH)}
    expected = {name: undisturbed(servers, tmp_path, options, name) for name in QUERIES}

    cluster = Cluster(tmp_path, broker, {**options, "run": "killed", "interval": "3 seconds"}, *QUERIES)
    killed = {name: topic.format(run="killed") for name, topic in QUERIES.items()}

    def written() -> int:
        there = admin.list_topics(timeout=30).topics
        return min(len(changes(servers, topic)) if topic in there else 0 for topic in killed.values())

    def complete() -> bool:
        return {name: len(changes(servers, topic)) for name, topic in killed.items()} == {
            name: len(found) for name, found in expected.items()
        }

    try:
        for what in random.sample(KILLS, len(KILLS)):
            before = written()
            # Progress since the last kill is required; otherwise the kills would hit only starts.
            assert wait(cluster, lambda before=before: written() > before, 600)  # type: ignore[misc]
            time.sleep(random.random() * 2)
            assert not complete(), "The input was used up before all kills were done."
            cluster.kill(what)
            print(f"killed: {what}, after {before} changes", flush=True)
        settled = wait(cluster, complete, 900)
        for name, topic in killed.items():
            found = changes(servers, topic)
            assert (name, Counter(found) - Counter(expected[name])) == (name, Counter())
            assert (name, Counter(expected[name]) - Counter(found)) == (name, Counter())
            assert last_per_key(found) == last_per_key(expected[name])
        assert settled
    finally:
        cluster.close()  # and the broker
    print(f"{len(KILLS)} kills, {cluster.starts} drivers, {sum(map(len, expected.values()))} changes")
