"""A snapshot of the cluster, shared by all pages: brokers, topics with their replicas, names of groups.

A page view takes a new one if the last is outdated. If that takes long, pages use the last one, unless it is very old
or the console has just changed something.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from ottla.client.admin.groups import GroupListing
from ottla.client.admin.log_dirs import LogDir
from ottla.console.access.roles import Level, Role, User
from ottla.console.cluster.source import Source, TopicState, Topology

_STALE_SECONDS = 60.0
_MOST_LACKING = 200
#: Maximum wait of a page for a new snapshot before it uses the last one.
_PATIENCE = 0.5
#: Silence after which the cluster counts as unresponsive. Elections cause shorter ones.
_SILENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Snapshot:
    taken_at: float
    topology: Topology
    groups: dict[str, GroupListing]
    volumes: dict[int, list[LogDir]] = field(default_factory=dict)
    #: `min.insync.replicas` of topics with out-of-sync replicas.
    min_isr: dict[str, int] = field(default_factory=dict)
    _seen: dict[tuple[Role, ...], Snapshot] = field(default_factory=dict, repr=False)

    def seen_by(self, user: User) -> Snapshot:
        """Return the part of the snapshot visible to a user. Users with the same roles share it.

        Disks belong to the cluster as a whole, so a role for some topics sees none.
        """
        if user.sees_all:
            return self
        if user.roles not in self._seen:
            sees, sees_group = user.view("topic"), user.view("group")
            topics = {name: each for name, each in self.topics.items() if sees(name)}
            self._seen[user.roles] = Snapshot(
                self.taken_at,
                replace(self.topology, topics=topics),
                {name: each for name, each in self.groups.items() if sees_group(name)},
                self.volumes if user.may_everywhere(Level.VIEWER) else {},
                {name: needed for name, needed in self.min_isr.items() if name in topics},
            )
        return self._seen[user.roles]

    @property
    def topics(self) -> dict[str, TopicState]:
        return self.topology.topics

    @cached_property
    def leaders_by_broker(self) -> dict[int, int]:
        found = dict.fromkeys(self.topology.brokers, 0)
        for topic in self.topics.values():
            for each in topic.partitions:
                if each.leader is not None:
                    found[each.leader] = found.get(each.leader, 0) + 1
        return found

    @cached_property
    def replicas_by_broker(self) -> dict[int, int]:
        found = dict.fromkeys(self.topology.brokers, 0)
        for topic in self.topics.values():
            for each in topic.partitions:
                for broker in each.replicas:
                    found[broker] = found.get(broker, 0) + 1
        return found

    @cached_property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    @cached_property
    def under_replicated(self) -> list[tuple[str, int]]:
        return [
            (topic.name, each.number)
            for topic in self.topics.values()
            for each in topic.partitions
            if each.is_under_replicated
        ]

    @cached_property
    def below_min_isr(self) -> list[tuple[str, int]]:
        return [
            (name, each.number)
            for name, wanted in self.min_isr.items()
            for each in self.topics[name].partitions
            if each.leader is not None and len(each.isr) < wanted
        ]

    @cached_property
    def offline(self) -> list[tuple[str, int]]:
        return [
            (topic.name, each.number)
            for topic in self.topics.values()
            for each in topic.partitions
            if each.leader is None
        ]


def take(source: Source) -> Snapshot:
    topology = source.topology()
    groups = {each.group: each for each in source.groups()}
    volumes = source.volumes(topology.brokers)
    # Query settings only where needed, for a limited number of topics.
    lacking = [name for name, topic in topology.topics.items() if topic.under_replicated][:_MOST_LACKING]
    return Snapshot(time.time(), topology, groups, volumes, source.min_isr(lacking) if lacking else {})


class Snapshots:
    """Owner: the event loop."""

    def __init__(
        self,
        take: Callable[[], Awaitable[Snapshot]],
        fresh_seconds: float,
        silence_seconds: float = _SILENCE_SECONDS,
    ) -> None:
        self._take = take
        self._fresh_seconds = fresh_seconds
        self._silence_seconds = silence_seconds
        self._last: Snapshot | None = None
        self._taking: asyncio.Task[Snapshot] | None = None
        self._taken = float("-inf")  # monotonic
        self._changed = float("-inf")
        self._asked: float | None = None  # start of the current silence
        self._failed = float("-inf")
        self.looked_at = 0.0

    @property
    def silent_seconds(self) -> float | None:
        """Return the time since the last answer; None if the cluster answers or is about to."""
        silent = 0.0 if self._asked is None else time.monotonic() - self._asked
        return silent if silent >= self._silence_seconds else None

    async def current(self, *, is_visit: bool = True) -> Snapshot:
        """Raises ClientError if the cluster does not answer. Background work is no visit."""
        now = time.monotonic()
        if is_visit:
            self.looked_at = now
        age = now - self._taken
        if self._last is not None and age < self._fresh_seconds:
            return self._last
        taking = self._begin()
        if self._last is not None and age < _STALE_SECONDS:
            await asyncio.wait([taking], timeout=_PATIENCE)
            return self._last
        return await asyncio.shield(taking)

    @property
    def last(self) -> Snapshot | None:
        return self._last

    async def renewed(self) -> Snapshot:
        return await asyncio.shield(self._begin())

    def expire(self) -> None:
        """Make the next page show a change made by the console."""
        self._taken = float("-inf")
        self._changed = time.monotonic()
        self._taking = None

    def _begin(self) -> asyncio.Task[Snapshot]:
        if self._taking is None or self._taking.done():
            now = time.monotonic()
            # An old failure is irrelevant, because no query was sent since.
            if self._asked is None or (self._asked < self._failed < now - self._silence_seconds):
                self._asked = now
            self._taking = asyncio.create_task(self._renew())
            # Pages served from the last snapshot do not wait for this one.
            self._taking.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._taking

    async def _renew(self) -> Snapshot:
        begun = time.monotonic()
        try:
            found = await self._take()
        except Exception:
            self._failed = time.monotonic()
            raise
        self._asked = None
        # A snapshot started before a change does not show it.
        if begun >= max(self._taken, self._changed):
            self._last, self._taken = found, begun
        return found
