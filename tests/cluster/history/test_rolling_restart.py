"""Promise: a rolling restart under load causes no client errors."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ottla.testing import Cluster
from tests.cluster.history.cluster_faults import ClusterFaults, Fault, table
from tests.cluster.history.test_history import CONFIG, SESSION_SECONDS
from tests.history.checker import Outcome, check
from tests.history.recorder import PARTITIONS, TOPIC, Recorder, sends

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_rolling_restart_fails_no_delivery(tmp_path: Path) -> None:
    with Cluster(3, config=CONFIG, data=tmp_path) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        whole = ClusterFaults(cluster, 1, SESSION_SECONDS)
        recorder = Recorder(cluster.bootstrap_servers)
        recorder.start(producers=2, consumers=2, members=2, pause=0.005)
        restarts: list[Fault] = []
        try:
            whole.wait_for_writes(recorder)
            for broker_id in cluster.ports:
                begun = time.monotonic()
                assert cluster.stop(broker_id) == 0
                cluster.restart(broker_id)
                whole.wait_until_whole()
                restarts.append(Fault("broker restarted", begun, time.monotonic()))
                whole.wait_for_writes(recorder)
            recorder.stop_sending()
            recorder.wait_until_read()
        finally:
            recorder.stop_sending()
            recorder.stop_reading()
        recorder.read_to_the_end()
    print("\n" + table(restarts, recorder.acknowledged))
    assert sends(recorder.history, Outcome.UNKNOWN) == []
    assert check(recorder.history) == []
