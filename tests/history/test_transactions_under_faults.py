"""Promise: read_committed consumers see only whole transactions, whatever is killed, paused or fenced."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.broker_process import BrokerProcess
from tests.history.checker import Outcome, check
from tests.history.recorder import (
    PARTITIONS,
    TOPIC,
    BrokerFaults,
    Recorder,
    sends,
    wait_for_progress,
    wait_until,
)
from tests.history.writers import Writer

OPTIONS = [
    f"--set={name}={value}"
    for name, value in {
        "log.segment.bytes": 1_048_576,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    }.items()
]


def wait_until_nothing_is_open(admin: AdminClient) -> None:
    """Wait until abandoned transactions time out and the last stable offsets reach the end offsets."""

    def ends(isolation: IsolationLevel) -> list[int]:
        asked = {TopicPartition(TOPIC, index): OffsetSpec.latest() for index in range(PARTITIONS)}
        found = admin.list_offsets(asked, isolation_level=isolation, request_timeout=20)
        return [future.result().offset for _, future in sorted(found.items())]

    wait_until(
        lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED),
        "every transaction is ended",
    )


def run(directory: Path, faults: int, seed: int, steps: int) -> Counter[str]:
    """Run the clients, assert a history without anomalies, and return the transactions' outcomes."""
    with BrokerProcess(directory, OPTIONS) as broker:
        address = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address, "logger": None})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(30)
        trouble = BrokerFaults(broker, seed)
        recorder = Recorder(address)
        recorder.start(producers=1, consumers=2)
        writers = [
            Writer(address, "alone", "alone"),
            Writer(address, "hasty", "hasty", timeout_ms=1_000),
            Writer(address, "twin-a", "twins", timeout_ms=1_500),
            Writer(address, "twin-b", "twins", timeout_ms=1_500),
        ]
        try:
            for number in range(faults):
                wait_for_progress(lambda: sum(writer.ended for writer in writers), steps)
                if number % 3 == 2:
                    victim = trouble.rng.choice(writers)
                    victim.kill()
                    victim.start()
                else:
                    trouble.strike()
            wait_for_progress(lambda: sum(writer.ended for writer in writers), steps)
            twins = writers[2:]
            wait_until(lambda: any(twin.refused for twin in twins), "one of the twins fences the other")
        finally:
            recorder.stop_sending()
            for writer in writers:
                writer.stop()
            try:
                if broker.is_running:
                    wait_until_nothing_is_open(admin)
            finally:
                recorder.stop_reading()
        recorder.read_to_the_end()
    for writer in writers:
        recorder.note(*writer.history(trouble))
    assert sends(recorder.history, Outcome.OK)
    assert check(recorder.history) == []
    return sum((writer.tally() for writer in writers), Counter())


def test_transactions_are_honest_under_kill_and_pause(tmp_path: Path) -> None:
    tally = run(tmp_path, faults=3, seed=1, steps=40)
    assert tally["commit: committed"]
    assert tally["abort: aborted"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_transactions_are_honest_under_many_kills_and_pauses(tmp_path: Path) -> None:
    tally = run(tmp_path, faults=40, seed=2, steps=100)
    # The run covered every way in which a transaction can end.
    for way in ("commit: committed", "commit: refused", "abort: aborted", "late: refused", "leave: left"):
        assert tally[way], f"{way} is not among {tally}"
