"""Push the broker's metrics to an OpenTelemetry collector through `ottla.monitoring.metrics.otlp_push`."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ottla.helper_process import HelperProcess
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.monitoring.metrics.endpoint import in_slices
from ottla.monitoring.metrics.otlp_push import BadCollector, collector_url, parse_headers
from ottla.monitoring.metrics.text import counter

logger = logging.getLogger(__name__)

_ENDPOINT, _HEADERS = "metrics.otlp.endpoint", "metrics.otlp.headers"
_PUSH_MODULE = "ottla.monitoring.metrics.otlp_push"
_LAST_PUSH_SECONDS = 5.0


class OtlpExport:
    """Invariant: at most one push at a time; a slow collector gets fewer pushes. Owner: the event loop."""

    def __init__(self, config: BrokerConfig, endpoint: str, lines: Callable[[], Iterator[str]]) -> None:
        """Raises ConfigError."""
        try:
            collector_url(endpoint)
        except BadCollector as error:
            raise ConfigError(f"{_ENDPOINT}: {error}.") from None
        try:
            self._headers = parse_headers(config.get_optional_str(_HEADERS) or "")
        except BadCollector as error:
            raise ConfigError(f"{_HEADERS}: {error}.") from None
        self._endpoint = endpoint
        self._interval = config.get_int("metrics.otlp.interval.ms") / 1000
        self._lines = lines
        self._resource: dict[str, str] = {}
        self._process = HelperProcess(_PUSH_MODULE)
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False
        self._is_busy = asyncio.Lock()
        self.pushes = 0
        self.failed = 0

    @classmethod
    def of(cls, config: BrokerConfig, lines: Callable[[], Iterator[str]]) -> OtlpExport | None:
        endpoint = config.get_optional_str(_ENDPOINT)
        return cls(config, endpoint, lines) if endpoint else None

    def start(self, broker_id: int, cluster_id: str) -> None:
        self._resource = {
            "service.name": "ottla",
            "service.namespace": cluster_id,
            "service.instance.id": str(broker_id),
            "host.name": socket.gethostname(),
        }
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def finish(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_LAST_PUSH_SECONDS):
                await self._push()
        await self._process.end()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                # Wait to the end: the next push would mistake a late response for its own.
                await asyncio.shield(self._push())
            except OSError as error:
                self._note(f"the process that pushes cannot be started: {error}")

    async def _push(self) -> None:
        async with self._is_busy:
            if self._process.pid is None:
                await self._process.start()
                await self._process.send(
                    {"endpoint": self._endpoint, "resource": self._resource, "headers": self._headers}
                )
            await self._process.send({"text": await in_slices(self._lines())})
            answer: dict[str, Any] | None = await self._process.receive()
            if answer is None:
                answer = {"error": f"the process that pushes ended with {await self._process.end()}"}
            self._note(answer["error"])

    def _note(self, error: str | None) -> None:
        if error is None:
            self.pushes += 1
            self._is_failing = False
            return
        self.failed += 1
        if not self._is_failing:
            self._is_failing = True
            logger.warning("Metrics cannot be pushed: %s", error)

    def lines(self) -> Iterator[str]:
        name = "ottla_otlp"
        yield counter(f"{name}_pushes_total", "Pushes that the collector has taken.", self.pushes)
        yield counter(f"{name}_failed_pushes_total", "Pushes that it has not taken.", self.failed)
