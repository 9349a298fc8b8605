"""A ZooKeeper server recognises its own port and its own answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.commands.servers import local_cluster
from ottla.cli.commands.servers.local_cluster import LocalCluster
from ottla.jvm.zookeeper import PortTaken, ZooKeeperServer
from ottla.testing.ports import ReservedPorts

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")


def test_a_server_does_not_take_the_answer_of_another_one_for_its_own(tmp_path: Path) -> None:
    ports = ReservedPorts(1)
    first, second = (ZooKeeperServer(tmp_path / name, ports.numbers[0]) for name in ("first", "second"))
    first.start()
    try:
        with pytest.raises(PortTaken, match=rf"port {ports.numbers[0]} is already in use"):
            second.start()
    finally:
        second.stop()
        first.stop()


def test_a_cluster_whose_zookeeper_port_is_taken_meanwhile_uses_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = ReservedPorts(2)
    chosen = iter(ports.numbers)
    monkeypatch.setattr(local_cluster, "_zookeeper_port", lambda: next(chosen))
    other = ZooKeeperServer(tmp_path / "other", ports.numbers[0])
    other.start()
    cluster = LocalCluster(0, "127.0.0.1", 0, tmp_path / "cluster", {})
    try:
        cluster.start(lambda: False)
        assert cluster.zookeeper == f"127.0.0.1:{ports.numbers[1]}"
    finally:
        cluster.stop()
        other.stop()
