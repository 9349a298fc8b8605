"""Coordinators load the partitions they lead, even without a lease, and again after a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.coordinators import leadership as state_log
from ottla.coordinator.runtime import CoordinatorShard
from tests.cluster.replicated import brokers, until

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
ALONE = {"offsets_topic_replication_factor": "1", "transaction_state_log_replication_factor": "1"}


def shard(broker: Broker, topic: str) -> CoordinatorShard | None:
    coordinator = broker.groups if topic == OFFSETS else broker.transactions
    return coordinator.runtime.find(0)


def is_loaded(broker: Broker, topic: str) -> bool:
    found = shard(broker, topic)
    return found is not None and not found.loading


@pytest.mark.parametrize("topic", [OFFSETS, TRANSACTIONS])
async def test_a_coordinator_reads_while_the_lease_is_renewed(tmp_path: Path, topic: str) -> None:
    async with brokers(tmp_path, 1, **ALONE) as cluster:
        broker = cluster.servers[0].broker
        broker.replicas.lease = lambda: 0.0
        await cluster.create(topic, (0,))
        await until(lambda: is_loaded(broker, topic), "the partition is read", 5)


@pytest.mark.parametrize("topic", [OFFSETS, TRANSACTIONS])
async def test_what_a_coordinator_could_not_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, topic: str
) -> None:
    failures = [OSError("the disk coughs"), RuntimeError("a bug")]
    decode = state_log._decode

    def coughing(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return decode(*arguments)

    async with brokers(tmp_path, 1, **ALONE) as cluster:
        broker = cluster.servers[0].broker
        await cluster.create(topic, (0,))
        await until(lambda: is_loaded(broker, topic), "the partition is read")
        state_log.PartitionStateLog(broker.replicas, topic).append(0, [(b"\x00\x09", None)], 1)
        await cluster.change(topic, leader=-1)
        assert shard(broker, topic) is None
        monkeypatch.setattr(state_log, "_decode", coughing)
        await cluster.elect(topic, 0)
        await until(lambda: is_loaded(broker, topic), "the partition is read at last")
        assert not failures
    assert "a bug" in caplog.text
