"""Mirror topics follow the configs of their sources, and wait for free disk space."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("pyarrow")

from ottla.client.admin.configs import Resource, alter_configs
from ottla.client.cluster import Cluster
from ottla.mirror.link.append import NoRoom
from ottla.mirror.link.settings import parse_link
from ottla.mirror.link.topics import LinkTopics, own_configs
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from tests.broker.storage.test_disks import Disk
from tests.mirror.link.clusters import LINK, copy, create_mirror, log_bytes, produce, settings

Pair = tuple[Broker, Broker]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Broker() as a, Broker() as b:
        yield a, b


@pytest.fixture
def clusters(pair: Pair) -> Iterator[tuple[Cluster, Cluster]]:
    with closing(Cluster(settings(pair[0]))) as source, closing(Cluster(settings(pair[1]))) as target:
        yield source, target


def link_topics(pair: Pair, clusters: tuple[Cluster, Cluster], topics: str) -> LinkTopics:
    properties = {
        "link.name": LINK,
        "clusters": "a, b",
        "a.bootstrap.servers": pair[0].bootstrap_servers,
        "b.bootstrap.servers": pair[1].bootstrap_servers,
        "a->b.enabled": "true",
        "topics": topics,
    }
    return LinkTopics(parse_link(properties), *clusters)


def test_settings_follow_those_of_the_source(pair: Pair, clusters: tuple[Cluster, Cluster]) -> None:
    source, target = clusters
    pair[0].create_topic("settings", config={"retention.ms": "111111", "min.insync.replicas": "1"})
    topics = link_topics(pair, clusters, "settings")
    assert topics.prepare() == {"settings": 1}
    own = own_configs(target, ["settings"])["settings"]
    assert own["retention.ms"] == "111111"
    assert "min.insync.replicas" not in own  # each cluster keeps its own
    ours = {name: value for name, value in own.items() if name.startswith("ottla.")}
    alter_configs(
        source,
        Resource("topic", "settings"),
        set_={"cleanup.policy": "compact", "max.message.bytes": "222222"},
        delete=["retention.ms"],
    )
    alter_configs(target, Resource("topic", "settings"), set_={"segment.bytes": "1048576"}, delete=[])
    topics.sync_configs(["settings"])
    changed = {"cleanup.policy": "compact", "max.message.bytes": "222222"}
    assert own_configs(target, ["settings"])["settings"] == ours | changed


def test_a_full_disk_of_the_target_is_said_and_waited_for(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    source.create_topic("room")
    create_mirror(source, target, "room")
    assert produce(source, "room", [b"first"]) == []
    copy(source, target, "room")
    assert produce(source, "room", [b"%d" % number for number in range(100)]) == []
    disk = Disk(monkeypatch, target.data, errno.ENOSPC)
    with pytest.raises(NoRoom, match=r"room-0 of the target cannot be written.*No space left") as error:
        copy(source, target, "room")
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.broken = False
    assert copy(source, target, "room").next_offset == 101
    assert log_bytes(target, "room") == log_bytes(source, "room")
