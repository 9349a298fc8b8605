"""Promise: clients of a cluster see an honest log while brokers and ZooKeeper's servers are killed, paused and cut off.

OTTLA_CHAOS_SECONDS is how long there is trouble (60), OTTLA_CHAOS_SEED repeats the choices of a run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from ottla.security.certificates import make_authority
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
    # Shorter than the longest pauses: some followers leave the ISR before their sessions end.
    "replica.lag.time.max.ms": "2500",
    # Segments that are not read when a broker starts again: what is damaged there is found later.
    "log.roll.ms": "20000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
}


def secured(directory: Path) -> dict[str, str]:
    """What SASL_SSL between brokers needs. Logins are short: they are repeated in the middle of everything."""
    authority = make_authority()
    issued = authority.issue("broker", ["127.0.0.1"])
    key_store, trust_store = directory / "broker.pem", directory / "ca.pem"
    key_store.write_bytes(issued.key_pem + issued.certificate_pem)
    trust_store.write_bytes(authority.certificate_pem)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="broker" password="broker-secret" user_broker="broker-secret";'
    return {
        "ssl.keystore.location": str(key_store),
        "ssl.truststore.location": str(trust_store),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "connections.max.reauth.ms": "4000",
        **{f"listener.name.from_{broker}.plain.sasl.jaas.config": jaas for broker in range(3)},
    }


@pytest.mark.parametrize("between", ["PLAINTEXT", "SASL_SSL"])
def test_clients_see_an_honest_log_whatever_dies(between: str, tmp_path: Path) -> None:
    print(f"\nOTTLA_CHAOS_SEED={SEED} OTTLA_CHAOS_SECONDS={SECONDS:g}; what the brokers said: {tmp_path}")
    config = CONFIG | (secured(tmp_path) if between == "SASL_SSL" else {})
    with (
        ZooKeeper(3, faults=True) as zookeeper,
        Cluster(
            3, config=config, zookeeper=zookeeper, data=tmp_path, faults=True, between=between
        ) as cluster,
    ):
        cluster.create_topic(TOPIC, PARTITIONS)
        trouble = ClusterFaults(cluster, SEED, SESSION_SECONDS)
        recorder = Recorder(cluster.bootstrap_servers)
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
