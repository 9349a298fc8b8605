"""Processes that report for the broker: the broker tier of the count audit, and the push of metrics by OTLP."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ottla.broker.security.inter_broker import own_client
from ottla.helper_process import HelperProcess
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.monitoring.metrics.endpoint import in_slices
from ottla.monitoring.metrics.otlp_push import BadCollector, collector_url, parse_headers
from ottla.monitoring.metrics.text import counter

# The broker tier of the count audit: runs the process of `ottla.monitoring.audit.broker_tier`.
#
# The append path counts nothing, because a leader cannot know yet whether records will be committed.
# Uncommitted records disappear with a failing leader; if counted, they would look lost.

logger = logging.getLogger(__name__)

_AUDIT_MODULE = "ottla.monitoring.audit.broker_tier"
_LAST_ROUND_SECONDS = 10.0
_START_AGAIN_SECONDS = 1.0


class CountAudit:
    """Invariant: at most one counting process, which lives until `finish`. Owner: the event loop."""

    def __init__(self, config: BrokerConfig, ports: Mapping[str, int]) -> None:
        """`ports` maps listeners to their bound ports. Raises ConfigError."""
        try:
            re.compile(config.get_str("ottla.audit.topics"))
        except re.error as error:
            raise ConfigError(f"ottla.audit.topics is not a valid regular expression: {error}.") from None
        self._settings: dict[str, Any] = {
            "broker": config.broker_id,
            "tier": config.get_str("ottla.audit.tier"),
            "topics": config.get_str("ottla.audit.topics"),
            "bucket_ms": config.get_int("ottla.audit.bucket.ms"),
            "interval_ms": config.get_int("ottla.audit.interval.ms"),
            "checksums": config.get_bool("ottla.audit.checksums.enable"),
            # With too few brokers the topic is created later, like Kafka's internal topics.
            "replication_factor": config.get_int("offsets.topic.replication.factor"),
            "properties": own_client(config, ports),
        }
        self._process = HelperProcess(_AUDIT_MODULE)
        self._task: asyncio.Task[None] | None = None
        self._is_started = asyncio.Event()
        self._last_round = asyncio.Event()
        self._is_failing = False
        self.records = 0
        self.rounds = 0
        self.failed_rounds = 0

    @classmethod
    def of(cls, config: BrokerConfig, ports: Mapping[str, int]) -> CountAudit | None:
        return cls(config, ports) if config.get_bool("ottla.audit.enable") else None

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def finish(self) -> None:
        """Count one last time while this broker still leads its partitions, then stop."""
        if self._task is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_ROUND_SECONDS):
                await self._is_started.wait()
                await self._process.send({"op": "finish"})
                await self._last_round.wait()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        await self._process.end()

    async def _run(self) -> None:
        while True:
            try:
                await self._process.start()
                await self._process.send(self._settings)
                self._is_started.set()
                while (event := await self._process.receive()) is not None:
                    self._note(event)
                if self._last_round.is_set():
                    return
                code = await self._process.end()
                logger.warning(
                    "The process that counts for the audit ended with %d: it is started again", code
                )
            except OSError as error:
                logger.warning("The process that counts for the audit cannot be started: %s", error)
            self._is_started.clear()
            await asyncio.sleep(_START_AGAIN_SECONDS)

    def _note(self, event: dict[str, Any]) -> None:
        if event["event"] == "counted":
            self.rounds += 1
            self.records += event["records"]
            self._is_failing = False
        else:
            self.failed_rounds += 1
            if not self._is_failing:
                self._is_failing = True
                logger.warning("The count audit will retry: %s", event["message"])
        if event["is_last"]:
            self._last_round.set()

    def lines(self) -> Iterator[str]:
        name = "ottla_audit_broker"
        yield counter(
            f"{name}_records_total", "Records that this broker has counted as leader.", self.records
        )
        yield counter(f"{name}_rounds_total", "How often it has counted.", self.rounds)
        yield counter(f"{name}_failed_rounds_total", "How often it could not.", self.failed_rounds)


# Push the broker's metrics to an OpenTelemetry collector through `ottla.monitoring.metrics.otlp_push`.

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
