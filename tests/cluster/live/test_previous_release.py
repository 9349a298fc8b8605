"""Brokers of the previous release and of this one run together while a cluster is upgraded, and downgraded again.

OTTLA_PREVIOUS is a directory with the previous release: `pip install --target DIR --no-deps ottla==VERSION`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import ottla.testing.cluster as testing_cluster
from ottla.testing import Cluster
from tests.cluster.live.test_rolling_restart import kill_command, roll, supervised
from tests.cluster.load import Load, check_nothing_lost, report

_PREVIOUS = os.environ.get("OTTLA_PREVIOUS", "")
_ROLLS = int(os.environ.get("OTTLA_ROLLS", "2"))

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not _PREVIOUS, reason="OTTLA_PREVIOUS is not set"),
]


def test_a_cluster_is_upgraded_and_downgraded_under_load(
    new_cluster: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = testing_cluster.python_environment
    release = [_PREVIOUS]
    monkeypatch.setattr(
        testing_cluster,
        "python_environment",
        lambda: {**known(), **({"PYTHONPATH": release[0]} if release[0] else {})},
    )
    with ExitStack() as stack:
        cluster = stack.enter_context(new_cluster(3))
        cluster.create_topic("skewed", partitions=3, config={"min.insync.replicas": "2"})
        loads = [
            stack.enter_context(Load(cluster.bootstrap_servers, "skewed", each, per_second=100))
            for each in range(3)
        ]
        began = min(load.times[-1] for load in loads if not load.wait_for(50))
        for number in range(_ROLLS):
            release[0] = "" if number % 2 == 0 else _PREVIOUS
            with supervised(cluster):
                done = roll(cluster, kill_command(cluster, tmp_path), "--timeout", "5")
            assert done.returncode == 0, (done.stdout, done.stderr)
            running = {runs_previous(cluster.pid(broker)) for broker in cluster.ports}
            assert running == {bool(release[0])}
        for load in loads:
            load.wait_for(50)
            load.stop()
            check_nothing_lost(cluster, "skewed", load)
            report(f"{_ROLLS} rolls between two releases", load, began)


def runs_previous(pid: int) -> bool:
    return f"PYTHONPATH={_PREVIOUS}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
