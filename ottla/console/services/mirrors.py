"""Mirrors, recognised by their traces: internal topics of Kafka's or Ottla's MirrorMaker, and topics of a link.

- `mm2-offsets.SOURCE.internal`, on the target: progress of each partition;
- `mm2-offset-syncs.TARGET.internal`, on the source: topics copied from here;
- the setting `ottla.mirror.link` of a topic written by a link.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from weakref import WeakKeyDictionary

from ottla.client.admin.configs import Resource, describe_many
from ottla.client.admin.offsets import earliest_offsets, latest_offsets
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.console.cluster.site import Site
from ottla.console.cluster.snapshot import Snapshot
from ottla.console.cluster.source import Source
from ottla.console.messages.reading import last_of_partition
from ottla.protocol.internal_topics import MIRROR_LINK

_FROM = re.compile(r"mm2-offsets\.(.+)\.internal")
_TO = re.compile(r"mm2-offset-syncs\.(.+)\.internal")
_INT16 = Struct(">h")
_MOST_RECORDS = 2000
#: Topics whose settings are queried for links.
_MOST_TOPICS = 500
_SOURCE_CONNECTOR = "MirrorSourceConnector"

Partition = tuple[str, int]


@dataclass
class Mirror:
    """`other` is the alias of the other cluster. An incoming mirror has positions by source partition."""

    other: str
    is_incoming: bool
    topics: set[str] = field(default_factory=set)  # topics in this cluster
    positions: dict[Partition, int] = field(default_factory=dict)


def find_mirrors(cluster: Cluster, snapshot: Snapshot) -> list[Mirror]:
    found = []
    for name in sorted(snapshot.topics):
        if match := _FROM.fullmatch(name):
            found.append(_incoming(match.group(1), _last_records(cluster, snapshot, name), snapshot))
        elif match := _TO.fullmatch(name):
            copied = {topic for key, _ in _last_records(cluster, snapshot, name) if (topic := _synced(key))}
            found.append(Mirror(match.group(1), False, copied & snapshot.topics.keys()))
    return found


def find_links(cluster: Cluster, topics: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    resources = [Resource("topic", each) for each in topics]
    for resource, entries in describe_many(cluster, resources, names=[MIRROR_LINK], synonyms=False).items():
        for entry in entries:
            if entry.name == MIRROR_LINK and entry.value:
                found.setdefault(entry.value, []).append(resource.name)
    return found


def _last_records(cluster: Cluster, snapshot: Snapshot, topic: str) -> Iterable[tuple[bytes, bytes | None]]:
    """Read the last records, which suffice because the topics are compacted."""
    keys = [(topic, each.number) for each in snapshot.topics[topic].partitions if each.leader is not None]
    starts, ends = earliest_offsets(cluster, keys), latest_offsets(cluster, keys)
    for key in keys:
        if ends[key] > starts[key]:
            for each in last_of_partition(
                cluster, key, starts[key], ends[key], _MOST_RECORDS, committed_only=True
            ):
                if each.key is not None:
                    yield each.key, each.value


def _incoming(source: str, records: Iterable[tuple[bytes, bytes | None]], snapshot: Snapshot) -> Mirror:
    mirror = Mirror(source, True)
    for key, value in records:
        read = _position(key, value)
        if read is None:
            continue
        cluster, partition, offset = read
        if cluster != source:
            continue
        if offset is None:
            mirror.positions.pop(partition, None)
        else:
            mirror.positions[partition] = offset
    for topic, _ in mirror.positions:
        # The local names depend on an unknown policy; these are Kafka's two.
        names = [each for each in (f"{source}.{topic}", topic) if each in snapshot.topics]
        mirror.topics |= set(names[:1])
    return mirror


def _position(key: bytes, value: bytes | None) -> tuple[str, Partition, int | None] | None:
    """Return cluster, partition and last offset from a Connect offset record; None for other records."""
    try:
        connector, where = json.loads(key)
        if connector != _SOURCE_CONNECTOR:
            return None
        offset = None if value is None else int(json.loads(value)["offset"])
        return str(where["cluster"]), (str(where["topic"]), int(where["partition"])), offset
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _synced(key: bytes) -> str | None:
    if len(key) < 2:
        return None
    (length,) = _INT16.unpack_from(key)
    return key[2 : 2 + length].decode("utf-8", "replace") if 0 < length <= len(key) - 2 else None


_kept: WeakKeyDictionary[Site, tuple[Snapshot, list[Mirror], dict[str, list[str]]]] = WeakKeyDictionary()


async def mirrors_of(site: Site, snapshot: Snapshot) -> tuple[list[Mirror], dict[str, list[str]]]:
    """Find the mirrors once per snapshot, regardless of the number of visitors."""
    kept = _kept.get(site)
    if kept is not None and kept[0] is snapshot:
        return kept[1], kept[2]
    mirrors = await site.calls.read(find_mirrors, snapshot)
    ours = [name for name, topic in snapshot.topics.items() if not topic.internal]
    links: dict[str, list[str]] = {}
    if 0 < len(ours) <= _MOST_TOPICS:
        with suppress(ClientError):  # without the right to read settings no links are shown
            links = await site.calls.read(find_links, ours)
    _kept[site] = snapshot, mirrors, links
    return mirrors, links


async def mirror_lag(sites: Mapping[str, Site], mirror: Mirror) -> int | None:
    """Return the records that an incoming mirror has yet to copy; None without its source cluster."""
    site = sites.get(mirror.other)
    if site is None:
        return None

    def ends(source: Source) -> dict[Partition, int]:
        return source.ends(list(mirror.positions))

    try:
        found = await site.ask(ends)
    except ClientError:
        return None
    return sum(
        max(found[partition] - 1 - last, 0)
        for partition, last in mirror.positions.items()
        if partition in found
    )
