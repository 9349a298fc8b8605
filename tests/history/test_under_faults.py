"""Promise: concurrent clients see a consistent log while the broker is killed and paused."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess
from tests.history.checker import Outcome, check
from tests.history.recorder import PARTITIONS, TOPIC, BrokerFaults, Recorder, sends, wait_for_progress


def run(directory: Path, faults: int, seed: int) -> None:
    with BrokerProcess(directory, ["--set", "log.segment.bytes=1048576"]) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(30)
        trouble = BrokerFaults(broker, seed)
        recorder = Recorder(broker.bootstrap_servers)
        recorder.start(producers=2, consumers=2)
        try:
            for _ in range(faults):
                wait_for_progress(lambda: len(recorder.history.events), trouble.rng.randrange(200, 2000))
                trouble.strike()
        finally:
            recorder.stop_sending()
            recorder.stop_reading()
        recorder.read_to_the_end()
    assert sends(recorder.history, Outcome.OK)
    assert check(recorder.history) == []


def test_clients_see_an_honest_log_under_kill_and_pause(tmp_path: Path) -> None:
    run(tmp_path, faults=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_clients_see_an_honest_log_under_many_kills_and_pauses(tmp_path: Path) -> None:
    run(tmp_path, faults=40, seed=2)
