"""Promise: whatever is killed, the target has each committed record once, in order, and groups continue exactly.

    OTTLA_CHAOS_RECORDS=1000000 OTTLA_CHAOS_KILLS=20 .venv/bin/pytest -n0 -s tests/mirror/chaos -m spark

The default is 50,000 records and 8 kills. OTTLA_CHAOS_SEED repeats the kills of a run. OTTLA_CHAOS_BROKERS=3 uses
clusters of three brokers. OTTLA_CHAOS_SPARK=no runs the micro-batches without Spark (see without_spark).
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Consumer

from ottla.client.admin.groups import committed_offsets
from ottla.client.cluster import Cluster as Client
from ottla.client.cluster import TopicPartition
from ottla.client.offsets import LATEST as END
from ottla.client.offsets import READ_COMMITTED, commit_offsets, list_offsets
from ottla.client.settings import Settings
from ottla.mirror.flow import read_positions
from ottla.mirror.settings import FlowSettings, parse_flows
from tests.mirror.chaos.load import (
    LATEST,
    LEDGER,
    PARTITIONS,
    Committed,
    Writer,
    committed,
    create_topics,
    first_difference,
    last_values,
    wrong_place,
)
from tests.mirror.chaos.processes import MirrorProcess, Side
from tests.mirror.records import until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

RECORDS = int(os.environ.get("OTTLA_CHAOS_RECORDS", "50000"))
KILLS = int(os.environ.get("OTTLA_CHAOS_KILLS", "8"))
WITH_SPARK = os.environ.get("OTTLA_CHAOS_SPARK", "yes") != "no"
BROKERS = int(os.environ.get("OTTLA_CHAOS_BROKERS", "1"))
GROUPS = [f"group-{number}" for number in range(5)]
PLACES = [TopicPartition(topic, each) for topic, count in PARTITIONS.items() for each in range(count)]


class Chaos:
    """Two clusters, a mirror between them, and groups that commit at the source."""

    def __init__(self, directory: Path) -> None:
        self.source = Side(directory / "source", BROKERS)
        self.target = Side(directory / "target", BROKERS)
        self._directory = directory
        self.positions: dict[str, dict[TopicPartition, int]] = {group: {} for group in GROUPS}

    def start(self) -> None:
        self.source.start()
        self.target.start()
        create_topics(self.source.servers)
        ones = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
        self._properties = {
            "clusters": "A, B",
            "A.bootstrap.servers": self.source.servers,
            "B.bootstrap.servers": self.target.servers,
            "A->B.enabled": "true",
            "A->B.topics": f"{LEDGER}, {LATEST}",
            "replication.factor": str(BROKERS),
            **{f"{name}.replication.factor": str(BROKERS) for name in ones},
            "emit.checkpoints.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "refresh.groups.interval.seconds": "2",
            # Many transactions, so that kills hit them in all states.
            "ottla.max.offsets.per.trigger": str(max(2000, RECORDS // 50)),
        }
        self.mirror = MirrorProcess(self._directory, self._properties, with_spark=WITH_SPARK)
        self.mirror.start()

    def close(self) -> None:
        self.mirror.kill()
        self.source.close()
        self.target.close()

    @property
    def flow(self) -> FlowSettings:
        return next(each for each in parse_flows(self._properties) if each.enabled)

    def client(self, side: Side) -> Client:
        return Client(Settings.from_properties({"bootstrap.servers": side.servers}))

    def kill(self, what: str) -> None:
        if what == "mirror":
            self.mirror.kill()
            self.mirror.start()
        elif what == "worker":
            self.mirror.kill_worker()
        else:
            (self.source if what == "source" else self.target).kill_one()

    def ends(self) -> dict[TopicPartition, int]:
        with closing(self.client(self.source)) as client:
            found = list_offsets(client, dict.fromkeys(PLACES, END), READ_COMMITTED)
        return {place: each.offset for place, each in found.items()}

    def copied(self) -> dict[TopicPartition, int]:
        """Return each partition's copied end offset, from the mirror's positions."""
        with closing(self.client(self.target)) as client:
            if self.flow.policy.positions_topic("A") not in client.topics():
                return {}
            found = read_positions(client, self.flow)
        return {place: each.last_offset + 1 for place, each in found.items()}

    def commit_somewhere(self) -> None:
        """Commit each group at any later position: at records, at markers, at aborted records."""
        ends = self.ends()
        with closing(self.client(self.source)) as client:
            for group, held in self.positions.items():
                held |= {place: random.randint(held.get(place, 0), end) for place, end in ends.items()}
                commit_offsets(client, group, held)

    def translated(self, group: str) -> dict[TopicPartition, int]:
        with closing(self.client(self.target)) as client:
            found = committed_offsets(client, group)
        return {
            TopicPartition(topic.removeprefix("A."), number): offset
            for (topic, number), offset in found.items()
        }


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    made = Chaos(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_records_arrive_once_and_groups_go_on_exactly_although_everything_is_killed(chaos: Chaos) -> None:
    seed = int(os.environ.get("OTTLA_CHAOS_SEED", time.time()))
    print(f"OTTLA_CHAOS_SEED={seed}")
    random.seed(seed)
    writer = Writer(chaos.source.servers)
    kinds = ["mirror", "source", "target", *(["worker"] if WITH_SPARK else [])]
    kills = [kinds[number % len(kinds)] for number in range(KILLS)]
    random.shuffle(kills)
    for what in kills:
        before = sum(chaos.copied().values())
        writing = threading.Thread(target=writer.write, args=(RECORDS // (KILLS + 1),))
        writing.start()
        # Progress since the last kill is required; otherwise the kills would hit only starts.
        until(lambda b=before: sum(chaos.copied().values()) > b, "something was copied", 300)
        time.sleep(random.random() * 2)
        chaos.kill(what)
        print(f"killed: {what}, when {before} offsets were copied", flush=True)
        writing.join(600)
        assert not writing.is_alive()
        chaos.commit_somewhere()
        chaos.mirror.check()
    writer.write(max(0, RECORDS - writer.number))
    ends = chaos.ends()
    until(lambda: covers(chaos.copied(), ends), "everything was copied", 900)
    chaos.positions[GROUPS[-1]] |= ends  # a group that has read everything
    with closing(chaos.client(chaos.source)) as client:
        commit_offsets(client, GROUPS[-1], ends)
    here = {place: committed(chaos.source.servers, *place) for place in PLACES}
    there = {place: committed(chaos.target.servers, f"A.{place.topic}", place.partition) for place in PLACES}
    count = sum(map(len, here.values()))
    print(f"{writer.number} written, {writer.aborted} of them aborted, {count} to be found", flush=True)
    for place in PLACES:
        if place.topic == LATEST:
            assert last_values(there[place]) == last_values(here[place]), place
        else:
            assert (place, first_difference(here[place], there[place])) == (place, "")
    assert sum(len(found) for place, found in here.items() if place.topic == LEDGER) > RECORDS // 3

    def wrong() -> dict[tuple[str, TopicPartition], str]:
        return wrong_groups(chaos, here, there)

    try:
        until(lambda: not wrong(), "the offsets of all groups", 120)
    finally:
        print(wrong())
    goes_on(chaos, here)
    print(f"{KILLS} kills, {chaos.mirror.starts} starts of the mirror")


def covers(copied: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> bool:
    return all(copied.get(place, 0) >= end for place, end in ends.items())


def wrong_groups(
    chaos: Chaos, here: dict[TopicPartition, list[Committed]], there: dict[TopicPartition, list[Committed]]
) -> dict[tuple[str, TopicPartition], str]:
    """Return the groups that would reread or miss records at the target."""
    found = {}
    for group, positions in chaos.positions.items():
        translated = chaos.translated(group)
        for place, position in positions.items():
            if place not in translated:
                found[group, place] = "it has no offset"
                continue
            said = wrong_place(here[place], there[place], position, translated[place], place.topic == LATEST)
            if said:
                found[group, place] = said
    return found


def goes_on(chaos: Chaos, here: dict[TopicPartition, list[Committed]]) -> None:
    """Consume with a group at the target, where it had no member before: it reads exactly its unread records."""
    group = GROUPS[0]
    expected = {
        place: [each.value for each in here[place] if each.offset >= chaos.positions[group][place]]
        for place in PLACES
        if place.topic == LEDGER
    }
    consumer = Consumer(
        {
            "bootstrap.servers": chaos.target.servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    read: dict[TopicPartition, list[bytes | None]] = {place: [] for place in expected}
    with closing(consumer):
        consumer.subscribe([f"A.{LEDGER}"])
        deadline = time.monotonic() + 120
        while sum(map(len, read.values())) < sum(map(len, expected.values())):
            assert time.monotonic() < deadline, {place: len(found) for place, found in read.items()}
            for message in consumer.consume(10_000, 1):
                assert message.error() is None, message.error()
                read[TopicPartition(LEDGER, message.partition() or 0)].append(message.value())
    assert read == expected
