"""The broker tier of the count audit: runs the process of `ottla.monitoring.audit.broker_tier`.

The append path counts nothing, because a leader cannot know yet whether records will be committed. Uncommitted records
disappear with a failing leader; if counted, they would look lost.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ottla.broker.security.own_client import own_client
from ottla.helper_process import HelperProcess
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.monitoring.metrics.text import counter

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
