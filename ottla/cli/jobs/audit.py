"""Comparison of the audit counts of one or more clusters: here, on Spark once, or on Spark after every change."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.options import make_client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.monitoring.audit.tier_counts import Finding
    from ottla.spark.audit.balance import Terms


class AuditTerms:
    """Options of `ottla audit balance` and `watch`. Close it after use."""

    def __init__(
        self,
        client: Client,
        *,
        counts_at: Sequence[str],
        counts_config: Path | None,
        audit_topic: str,
        tiers: str | None,
        known_as: Mapping[str, str],
        grace: float,
        counts_only: bool,
        until_now: bool,
        master: str | None,
    ) -> None:
        self._clients = [client, *(make_client(each, counts_config, client.timeout) for each in counts_at)]
        self._topic = audit_topic
        self._tiers = [tier.strip() for tier in tiers.split(",")] if tiers else []
        self._known_as = dict(known_as)
        self._grace_ms = int(grace * 1000)
        self._counts_only = counts_only
        self._until_now = until_now
        self._master = master

    def close(self) -> None:
        for each in self._clients[1:]:
            each.close()

    def check(self) -> None:
        """Check that there are counts to compare. Raises ClientError and JobError."""
        for each in self._clients:
            if not each.cluster.topics([self._topic]):
                where = f" at {each.bootstrap_servers}" if len(self._clients) > 1 else ""
                raise JobError(
                    f"There are no counts{where} yet: begin with `ottla audit count TOPIC --tier source`, or let "
                    "brokers count with ottla.audit.enable=true."
                )

    def here(self) -> list[Finding]:
        """Raises ClientError."""
        from ottla.monitoring.audit.audit_topic import read_tier_counts
        from ottla.monitoring.audit.tier_counts import TierCounts

        tier_counts = TierCounts()
        for each in self._clients:
            read_tier_counts(each.cluster, self._topic, into=tier_counts, known_as=self._known_as)
        if not any(len(self._tiers or tier_counts.tiers(topic)) > 1 for topic in tier_counts.topics):
            known = sorted({tier for topic in tier_counts.topics for tier in tier_counts.tiers(topic)})
            raise JobError(
                f"There is nothing to compare: only the tier {', '.join(self._tiers or known)} counts. Let another one "
                "count, for example with `ottla audit count TOPIC --tier target`."
            )
        return [
            finding
            for topic in tier_counts.topics
            for finding in tier_counts.balance(
                topic,
                self._tiers,
                grace_ms=self._grace_ms,
                counts_only=self._counts_only,
                now_ms=self._now_ms,
            )
        ]

    def on_spark(self) -> list[Finding]:
        spark = self._start_spark()
        from ottla.spark.audit.balance import balance, read_tier_counts

        try:
            return balance(read_tier_counts(spark, self._options(), self._topic), self._terms())
        finally:
            spark.stop()

    def watch(self, interval: float, on_change: Callable[[list[Finding], list[Finding]], None]) -> None:
        """Compare until Ctrl-C. Raises ClientError, and JobError if the query fails."""
        from ottla.cli.signals import stop_requested

        spark = self._start_spark()
        from ottla.spark.audit.watch import FindingsTopic, watch

        findings = FindingsTopic(self._clients[0].cluster)
        findings.prepare()
        watching = watch(
            spark, self._options(), findings, self._terms(), interval=interval, topic=self._topic, on_change=on_change
        )  # fmt: skip
        try:
            with stop_requested() as stop:
                while not stop.wait(0.5):
                    if not watching.query.isActive:
                        raise JobError(f"The balance has failed: {watching.query.exception()}")
        finally:
            watching.stop()
            spark.stop()

    def _terms(self) -> Terms:
        from ottla.spark.audit.balance import Terms

        return Terms(self._tiers, self._grace_ms, self._counts_only, self._known_as, self._now_ms)

    @property
    def _now_ms(self) -> int | None:
        return time.time_ns() // 1_000_000 if self._until_now else None

    def _options(self) -> list[dict[str, str]]:
        """Return the client properties as options of `format("ottla")`, which refuses unknown options."""
        from ottla.spark.options import SECURITY_OPTIONS

        return [
            {
                "kafka.bootstrap.servers": each.bootstrap_servers,
                **{
                    f"kafka.{name}": text
                    for name, text in each.properties.items()
                    if name in SECURITY_OPTIONS
                },
            }
            for each in self._clients
        ]

    def _start_spark(self) -> SparkSession:
        if find_spec("pyspark") is None:
            raise JobError("This needs packages that are not installed: pip install 'ottla[spark]'.")
        from ottla.cli.commands.sql.sql import java_log, stderr_to
        from ottla.jvm.java import NoJava
        from ottla.spark.interruptible import interruptible_start
        from ottla.spark.session import session

        output.note("Starting Spark …")
        try:
            with interruptible_start(), stderr_to(java_log()):
                spark = session("ottla audit", self._master)
        except NoJava as error:
            raise JobError(str(error)) from None
        spark.sparkContext.setLogLevel("OFF")
        return spark
