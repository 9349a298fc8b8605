"""Clusters that share a ZooKeeper have separate chroots."""

from __future__ import annotations

from pathlib import Path

from ottla.testing import ZooKeeper


def test_each_chroot_is_another_path_of_the_same_servers(tmp_path: Path) -> None:
    zookeeper = ZooKeeper(3, data=tmp_path)
    one, other = zookeeper.chroot(), zookeeper.chroot()
    assert one.servers is zookeeper.servers
    assert one.connect == f"{zookeeper.connect}{one.path}"
    assert one.path != other.path
    assert one.path.count("/") == 1
    assert zookeeper.path == ""
