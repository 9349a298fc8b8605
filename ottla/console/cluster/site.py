"""Clusters of a console, and their health."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.schema_codecs import SchemaCodecs
from ottla.client.schema_registry import RegistrySettings, SchemaRegistry
from ottla.console.cluster.lag_history import LagHistory
from ottla.console.cluster.rates import Rates
from ottla.console.cluster.snapshot import Snapshot, Snapshots, take
from ottla.console.cluster.source import Calls, KafkaSource, PartitionState, Source
from ottla.console.settings import ClusterSettings

# Health of a cluster, with reasons. Pure.

_DISK_FULL = 0.85
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Reason:
    severity: Literal["error", "warning"]
    text: str


def reasons(
    snapshot: Snapshot,
    sees: Callable[[str], bool] = lambda topic: True,
    *,
    silent_seconds: float | None = None,
) -> list[Reason]:
    """Return the problems, worst first. Partitions are named only for topics visible to the user.

    `silent_seconds` is the time since the cluster's last answer, if one is overdue.
    """
    errors, warnings = [], []
    topology = snapshot.topology
    if silent_seconds is not None:
        errors.append(
            f"The cluster has not answered for {silent_seconds:.0f} s. This is how it was before that."
        )
    if snapshot.offline:
        named = _named(snapshot, snapshot.offline, sees, _why_offline)
        errors.append(
            f"Without a leader, hence neither written nor read: {_partitions(len(snapshot.offline))}{named}."
        )
    if topology.controller is None:
        errors.append("The cluster names no controller: topics and leaders cannot change.")
    errors += [
        f"Broker {broker} is down, but replicas are assigned to it."
        for broker in sorted(snapshot.replicas_by_broker.keys() - topology.brokers.keys())
    ]
    below = snapshot.below_min_isr
    if below:
        named = _named(snapshot, below, sees, _why_below)
        errors.append(
            f"Below min.insync.replicas, hence not written with acks=all: {_partitions(len(below))}{named}."
        )
    for broker, directories in sorted(snapshot.volumes.items()):
        for directory in directories:
            if directory.error is not None:
                errors.append(f"Broker {broker}: log directory {directory.path} failed ({directory.error}).")
            elif directory.total_bytes and directory.usable_bytes is not None:
                used = 1 - directory.usable_bytes / directory.total_bytes
                if used > _DISK_FULL:
                    warnings.append(f"Broker {broker}: the disk of {directory.path} is {used:.0%} full.")
    if snapshot.under_replicated:
        told = {*below, *snapshot.offline}
        others = [each for each in snapshot.under_replicated if each not in told]
        named = _named(snapshot, others, sees, lambda found, _, each: _who_lacks(found, each))
        warnings.append(
            f"Replicas that are not in sync: {_partitions(len(snapshot.under_replicated))} affected{named}."
        )
    return [Reason("error", text) for text in errors] + [Reason("warning", text) for text in warnings]


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


def _named(
    snapshot: Snapshot,
    partitions: Sequence[tuple[str, int]],
    sees: Callable[[str], bool],
    why: Callable[[Snapshot, str, PartitionState], str],
) -> str:
    shown = [each for each in partitions if sees(each[0])]
    parts = []
    for topic, number in shown[:_NAMED]:
        [state] = [each for each in snapshot.topics[topic].partitions if each.number == number]
        parts.append(f"{topic}-{number} ({why(snapshot, topic, state)})")
    if len(shown) > _NAMED:
        parts.append(f"{len(shown) - _NAMED:,} more")
    return f": {', '.join(parts)}" if parts else ""


def _why_offline(snapshot: Snapshot, _: str, state: PartitionState) -> str:
    down = [each for each in state.replicas if each not in snapshot.topology.brokers]
    if not down:
        return "its brokers are up, but none of them leads it"
    return f"{_brokers(down)} down"


def _why_below(snapshot: Snapshot, topic: str, state: PartitionState) -> str:
    return f"{len(state.isr)} in sync, {snapshot.min_isr[topic]} needed; {_who_lacks(snapshot, state)}"


def _who_lacks(snapshot: Snapshot, state: PartitionState) -> str:
    lacking = [each for each in state.replicas if each not in state.isr]
    down = [each for each in lacking if each not in snapshot.topology.brokers]
    behind = [each for each in lacking if each in snapshot.topology.brokers]
    parts = [f"{_brokers(down)} down"] if down else []
    parts += [f"{_brokers(behind)} up, but behind"] if behind else []
    return "; ".join(parts) or "it has fewer replicas than that"


def _brokers(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"broker {numbers[0]} is"
    return f"brokers {', '.join(map(str, numbers))} are"


# A cluster in the console: connections, snapshot, and background measurements.

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Time without a visitor after which only lag is measured.
_QUIET_SECONDS = 300.0


class Site:
    """Owner: the event loop that started it."""

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        read_only: bool = False,
        lag_seconds: float = 15.0,
        refresh_seconds: float = 5.0,
        calls: Calls | None = None,
        source: Callable[[Cluster], Source] = KafkaSource,
    ) -> None:
        self.name = settings.name
        self.settings = settings
        self.read_only = read_only or settings.read_only
        self.calls = calls or Calls(settings.client)
        self._source = source
        self._lag_seconds = lag_seconds
        self._refresh_seconds = refresh_seconds
        self.snapshots = Snapshots(self._take, refresh_seconds)
        self.rates = Rates()
        self.lags = LagHistory()
        self._tasks: list[asyncio.Task[None]] = []
        self.registry: SchemaRegistry | None = None
        self.codecs: SchemaCodecs | None = None
        if settings.registry is not None:
            self.registry = SchemaRegistry(
                RegistrySettings.from_properties({"schema.registry.url": settings.registry})
            )
            self.codecs = SchemaCodecs(self.registry)

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._repeat(self._refresh_seconds, self.measure_rates)),
            asyncio.create_task(self._repeat(self._lag_seconds, self.measure_lag)),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.calls.close()
        if self.registry is not None:
            self.registry.close()

    async def ask(self, question: Callable[[Source], T]) -> T:
        """Raises ClientError."""
        return await self.calls.read(lambda cluster: question(self._source(cluster)))

    async def _take(self) -> Snapshot:
        return await self.ask(take)

    # In the background

    async def measure_rates(self) -> None:
        if time.monotonic() - self.snapshots.looked_at > _QUIET_SECONDS or not self.snapshots.looked_at:
            return
        snapshot = await self.snapshots.renewed()
        partitions = [
            (topic.name, each.number)
            for topic in snapshot.topics.values()
            for each in topic.partitions
            if each.leader is not None
        ]
        chosen = self.rates.next_round(partitions)
        ends = await self.ask(lambda source: source.ends(chosen))
        self.rates.add(time.time(), ends, partitions)

    async def measure_lag(self) -> None:
        groups = {each.group: each for each in await self.ask(lambda source: source.groups())}
        chosen = self.lags.next_round(groups)
        positions = await self.ask(lambda source: source.positions(chosen))
        self.lags.add(time.time(), positions)
        self.lags.keep_only(groups)

    async def _repeat(self, seconds: float, measure: Callable[[], object]) -> None:
        while True:
            try:
                await measure()  # type: ignore[misc]
            except ClientError as error:
                logger.debug("Cluster %s cannot be measured: %s", self.name, error)
            except Exception:
                logger.exception("Cluster %s cannot be measured", self.name)
            await asyncio.sleep(seconds)
