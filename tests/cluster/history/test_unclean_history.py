"""Promise: with unclean elections, clients lose only the records that the documentation says."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from ottla.testing import Cluster, ZooKeeper
from tests.cluster.faults.damage import differing_replicas
from tests.cluster.history.cluster_faults import table
from tests.cluster.history.observed_elections import ElectionsSeen, State, UncleanElection, unclean_elections
from tests.cluster.history.test_history import CONFIG, SECONDS, SEED, SESSION_SECONDS
from tests.cluster.history.unclean_faults import UncleanFaults
from tests.history.checker import Poll, Reposition, Send, Transaction
from tests.history.loss import Final, check_losses
from tests.history.recorder import PARTITIONS, TOPIC, Recorder


class TimedRecorder(Recorder):
    """Records the time of every event, and starts over when a producer detects data loss."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        self.timed: list[tuple[float, Send | Poll | Reposition | Transaction]] = []

    def note(self, *events: Send | Poll | Reposition | Transaction) -> None:
        now = time.time()
        super().note(*events)
        self.timed += [(now, event) for event in events]

    def producer_after(self, error: KafkaException) -> Producer:
        """Return a new producer. The fate of the old producer's pending records is unknown."""
        if error.args[0].code() == KafkaError._FATAL or error.args[0].fatal():
            return self._new_producer()
        raise error


def read_logs(bootstrap_servers: str) -> dict[int, list[Final]]:
    """Return the current contents of every partition."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "final",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    reader.assign([TopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    logs: dict[int, list[Final]] = {each: [] for each in range(PARTITIONS)}
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, "the log does not end"
        for message in reader.consume(1000, timeout=0.2):
            error = message.error()
            if error is None:
                record = Final(message.offset(), message.value().decode(), message.leader_epoch())
                logs[message.partition()].append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    reader.close()
    return logs


def test_an_election_is_unclean_where_the_elected_one_was_not_in_sync() -> None:
    states = [
        State(1.0, 0, 0, 0, (0, 1, 2)),
        State(2.0, 0, 0, 0, (0, 1)),
        State(3.0, 0, 1, 1, (1,)),
        State(4.0, 0, -1, 2, (1,)),
        State(4.5, 1, 2, 0, (2,)),
        State(5.0, 0, 2, 3, (2,)),
    ]
    assert unclean_elections(states) == [UncleanElection(0, 2, 3, left_isr_at=2.0, at=5.0)]


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 420)
def test_unclean_elections_lose_what_came_after_the_elected_one_was_in_sync(tmp_path: Path) -> None:
    print(f"\nOTTLA_CHAOS_SEED={SEED} OTTLA_CHAOS_SECONDS={SECONDS:g}; what the brokers said: {tmp_path}")
    config = {**CONFIG, "min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    with (
        ZooKeeper(3, faults=True) as zookeeper,
        Cluster(3, config=config, zookeeper=zookeeper, data=tmp_path, faults=True) as cluster,
        ElectionsSeen(zookeeper, TOPIC) as seen,
    ):
        cluster.create_topic(TOPIC, PARTITIONS)
        trouble = UncleanFaults(cluster, SEED, SESSION_SECONDS)
        recorder = TimedRecorder(cluster.bootstrap_servers)
        recorder.start(producers=2, consumers=1, members=1, pause=0.005)
        try:
            trouble.wait_for_writes(recorder)
            trouble.strike_for(SECONDS, recorder)
            trouble.wait_until_whole()
        finally:
            recorder.stop_sending()
            recorder.stop_reading()
        logs = read_logs(cluster.bootstrap_servers)
        again = read_logs(cluster.bootstrap_servers)
        different = differing_replicas(cluster, TOPIC, PARTITIONS)
    elections = unclean_elections(seen.states)
    print(table(trouble.faults, recorder.acknowledged))
    wrong, gone = check_losses(recorder.timed, logs, trouble.losses(elections))
    kinds = Counter(anomaly.kind for anomaly in wrong)
    print(
        f"{len(elections)} unclean elections; {len(recorder.acknowledged)} records acknowledged, {gone} of them gone;"
        f" what no election explains: {dict(kinds) or 'nothing'}"
    )
    assert elections, "nothing was tested"
    assert gone, "nothing was lost"
    assert wrong == []
    assert logs == again, "two readers do not agree"
    assert different == []
