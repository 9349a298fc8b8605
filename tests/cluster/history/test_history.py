"""Promise: clients see a consistent log while brokers and ZooKeeper servers are killed, paused and cut off.

OTTLA_CHAOS_SECONDS sets the duration of the faults (60). OTTLA_CHAOS_SEED repeats the choices of a run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from ottla.testing import Cluster
from ottla.testing.zookeeper import ZooKeeper
from tests.cluster.faults.damage import differing_replicas
from tests.cluster.history.cluster_faults import ClusterFaults, table
from tests.history.checker import Outcome, Poll, Reposition, check
from tests.history.recorder import PARTITIONS, TOPIC, Recorder, sends

SECONDS = float(os.environ.get("OTTLA_CHAOS_SECONDS", "60"))
SEED = int(os.environ.get("OTTLA_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
SESSION_SECONDS = 3

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(SECONDS + 420)]

CONFIG = {
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": str(SESSION_SECONDS * 1000),
    # Shorter than the longest pauses: some followers leave the ISR before their sessions expire.
    "replica.lag.time.max.ms": "2500",
    # Brokers skip these segments on restart, so damage there surfaces later.
    "log.roll.ms": "20000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
}


@pytest.mark.parametrize("security", [None, "SASL_SSL"])
def test_clients_see_an_honest_log_whatever_dies(tmp_path: Path, security: str | None) -> None:
    print(f"\nOTTLA_CHAOS_SEED={SEED} OTTLA_CHAOS_SECONDS={SECONDS:g}; what the brokers said: {tmp_path}")
    # SASL sessions are short, so that reauthentication coincides with faults.
    config = CONFIG if security is None else {**CONFIG, "connections.max.reauth.ms": "4000"}
    with (
        ZooKeeper(3, faults=True) as zookeeper,
        Cluster(
            3, config=config, zookeeper=zookeeper, data=tmp_path, faults=True, security=security
        ) as cluster,
    ):
        cluster.create_topic(TOPIC, PARTITIONS)
        trouble = ClusterFaults(cluster, SEED, SESSION_SECONDS)
        login = {
            name: value for name, value in cluster.client_config().items() if name != "bootstrap.servers"
        }
        recorder = Recorder(cluster.bootstrap_servers, **login)
        recorder.start(producers=2, consumers=2, members=2, pause=0.005)
        try:
            trouble.wait_for_writes(recorder)
            trouble.strike_for(SECONDS, recorder)
            trouble.repair()
            trouble.wait_until_whole()
            recorder.stop_sending()
            recorder.wait_until_read()
        finally:
            recorder.stop_sending()
            recorder.stop_reading()
        recorder.read_to_the_end()
        different = differing_replicas(cluster, TOPIC, PARTITIONS)
    print(table(trouble.faults, recorder.acknowledged))
    kinds = Counter(type(event) for event in recorder.history.events)
    unknown = len(sends(recorder.history, Outcome.UNKNOWN))
    print(
        f"{len(recorder.acknowledged)} records acknowledged, {unknown} of unknown fate,"
        f" {kinds[Poll]} polls, {kinds[Reposition]} assignments"
    )
    assert sends(recorder.history, Outcome.OK)
    wrong = check(recorder.history)
    print("The checker found " + ("nothing lost, doubled, reordered or unseen" if not wrong else f"{wrong}"))
    assert wrong == []
    assert different == []
