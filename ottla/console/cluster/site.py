"""A cluster in the console: connections, snapshot, and background measurements."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.schema_codecs import SchemaCodecs
from ottla.client.schema_registry import RegistrySettings, SchemaRegistry
from ottla.console.cluster.lag_history import LagHistory
from ottla.console.cluster.rates import Rates
from ottla.console.cluster.snapshot import Snapshot, Snapshots, take
from ottla.console.cluster.source import Calls, KafkaSource, Source
from ottla.console.settings import ClusterSettings

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
