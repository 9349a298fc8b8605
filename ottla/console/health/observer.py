"""Observe the services beside a cluster in the background, each at its own interval."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ottla.client.admin.offsets import Partition, latest_offsets
from ottla.client.cluster import Cluster
from ottla.client.dead_letters import Progress
from ottla.client.errors import ClientError
from ottla.console.access.hidden_values import ConnectorConfig, without_logins
from ottla.console.access.roles import Level, User
from ottla.console.cluster.site import Site
from ottla.console.cluster.snapshot import Snapshot
from ottla.console.health.certificates import certificates_of
from ottla.console.health.facts import (
    AuditFacts,
    ConnectorFacts,
    DeadLetterFacts,
    Facts,
    Observed,
    Points,
    QueryFacts,
    TaskFacts,
)
from ottla.console.health.problem import Problem
from ottla.console.health.problems import problems
from ottla.console.health.trends import LEAST_LAG
from ottla.console.services.connect import NOT_STARTED
from ottla.console.services.mirrors import mirror_lag, mirrors_of
from ottla.console.services.remote import Remote
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC, read_tier_counts

logger = logging.getLogger(__name__)

#: Names by which tools know topics of dead letters.
_DEAD_LETTERS = re.compile(
    r"(?:^|[._-])(?:dlq|dlt|dead[._-]?letters?(?:[._-]?queue)?)(?:$|[._-])", re.IGNORECASE
)
#: Their failures to answer are problems of their own.
_SERVICES = ("Connect", "SQL", "Schema registry")
_MOST_TOPICS = 50
_POINTS = 240
_QUIET_SECONDS = 300.0
#: Observations that cost more than a few requests run less often than pages are renewed.
_SLOW_SECONDS = 30.0
_AUDIT_SECONDS = 60.0
_GRACE_MS = 600_000
_CERTIFICATE_SECONDS = 600.0
#: A page waits this long for facts when nobody has looked for a while.
_PATIENCE = 2.0
_OLD_SECONDS = 30.0


class Observer:
    """Owner: the event loop that started it."""

    def __init__(self, site: Site, sites: Mapping[str, Site], seconds: float) -> None:
        self._site = site
        self._sites = sites
        self._seconds = seconds
        self.observed = Observed()
        self._at = float("-inf")  # monotonic
        self._due: dict[str, float] = {}
        self._series: dict[str, deque[tuple[float, float]]] = {}
        self._letter_topics: tuple[str, ...] = ()  # named by connectors
        self._running: asyncio.Task[None] | None = None
        self._loop: asyncio.Task[None] | None = None
        self._found: tuple[object, ...] = ()
        self._problems: dict[tuple[object, ...], list[Problem]] = {}

    def start(self) -> None:
        self._loop = asyncio.create_task(self._repeat())

    async def stop(self) -> None:
        tasks = [each for each in (self._loop, self._running) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Questions of pages

    async def problems(self, user: User, audit_log: str | None = None) -> list[Problem]:
        """Return the problems visible to a user, worst first. Raises ClientError without any snapshot."""
        snapshot = await self._site.snapshots.current()
        if time.monotonic() - self._at > max(_OLD_SECONDS, 3 * self._seconds):
            await asyncio.wait([self._observing()], timeout=_PATIENCE)
        return self._judge(snapshot, user, audit_log)

    def known_problems(self, user: User, audit_log: str | None = None) -> list[Problem]:
        """Return the problems that need no request to the cluster, for the menu of every page."""
        snapshot = self._site.snapshots.last
        return [] if snapshot is None else self._judge(snapshot, user, audit_log)

    def _judge(self, snapshot: Snapshot, user: User, audit_log: str | None) -> list[Problem]:
        silent = self._site.snapshots.silent_seconds
        state = (
            snapshot,
            self.observed,
            self._site.lags.measured_at,
            None if silent is None else round(silent),
        )
        if state != self._found:
            self._found = state
            self._problems.clear()
        # Snapshots are kept per role, so each user needs the same exceptions.
        user = replace(user, connect_configs=self._site.settings.connect_configs)
        key = (user.roles, audit_log)
        if key not in self._problems:
            seen = snapshot.seen_by(user)
            facts = Facts(
                seen, time.time(), silent, self._lags(seen, user), self.observed.seen_by(user), audit_log
            )
            self._problems[key] = problems(facts)
        return self._problems[key]

    def _lags(self, seen: Snapshot, user: User) -> dict[str, Points]:
        """Return the lag over time of the groups and topics that the user sees."""
        lags = self._site.lags
        if user.may_everywhere(Level.VIEWER):
            return {group: lags.total(group) for group in seen.groups if lags.last(group) >= LEAST_LAG}
        found: dict[str, Points] = {}
        for group in (each for each in seen.groups if lags.last(each) >= LEAST_LAG):
            sums: dict[float, float] = {}
            for (topic, _), points in lags.partitions(group).items():
                if user.sees(topic):
                    for moment, behind in points:
                        sums[moment] = sums.get(moment, 0) + behind
            found[group] = sorted(sums.items())
        return found

    # In the background

    async def _repeat(self) -> None:
        while True:
            looked = self._site.snapshots.looked_at
            if looked and time.monotonic() - looked < _QUIET_SECONDS:
                await asyncio.wait([self._observing()])
            await asyncio.sleep(self._seconds)

    def _observing(self) -> asyncio.Task[None]:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self.observe())
        return self._running

    async def observe(self) -> None:
        with suppress(ClientError):
            snapshot = await self._site.snapshots.current(is_visit=False)
            await asyncio.gather(
                self._attempt("Connect", 0.0, self._connectors),
                self._attempt("SQL", 0.0, self._queries),
                self._attempt("Schema registry", 0.0, self._registry),
                self._attempt("pipelines", 0.0, self._pipelines),
                self._attempt("dead letters", 0.0, lambda: self._dead_letters(snapshot)),
                self._attempt("mirrors", _SLOW_SECONDS, lambda: self._mirrors(snapshot)),
                self._attempt("audit", _AUDIT_SECONDS, lambda: self._audit(snapshot)),
                self._attempt("certificates", _CERTIFICATE_SECONDS, lambda: self._certificates(snapshot)),
            )
        self._at = time.monotonic()

    async def _attempt(self, name: str, every: float, observe: Callable[[], Awaitable[None]]) -> None:
        """Observe once if it is due. A service of its own that fails becomes a fact; other failures change nothing."""
        if time.monotonic() < self._due.get(name, 0.0):
            return
        self._due[name] = time.monotonic() + every
        failure = None
        try:
            await observe()
        except ClientError as error:
            failure = without_logins(error.message)
            logger.debug("%s of %s cannot be observed: %s", name, self._site.name, failure)
        except Exception:
            logger.exception("%s of %s cannot be observed", name, self._site.name)
        if name in _SERVICES:
            others = {key: sentence for key, sentence in self.observed.silent.items() if key != name}
            self._note(silent=others if failure is None else {**others, name: failure})

    def _note(self, **facts: Any) -> None:
        changed = replace(self.observed, **facts)
        if changed != self.observed:
            self.observed = changed

    def _measured(self, name: str, value: float, *, starts_at: float | None = None) -> Points:
        """Add a measurement. Of something new since the last look, the value before is known."""
        if name not in self._series:
            self._series[name] = deque(maxlen=_POINTS)
            if starts_at is not None and self._at > float("-inf"):
                self._series[name].append((time.time(), starts_at))
        points = self._series[name]
        points.append((time.time(), value))
        return tuple(points)

    async def _connectors(self) -> None:
        url = self._site.settings.connect
        if url is None:
            return
        found, topics = await self._site.calls.run(_connectors, Remote(url, "Connect", timeout=5.0))
        self._letter_topics = topics
        self._note(connectors=found)

    async def _queries(self) -> None:
        url = self._site.settings.sql
        if url is None:
            return
        remote = Remote(url, "SQL", timeout=5.0)
        answer = await self._site.calls.run(remote.request, "POST", "/ksql", {"ksql": "LIST QUERIES;"})
        self._note(
            queries=tuple(
                QueryFacts(str(each.get("id", "")), str(each.get("state", "")))
                for each in (answer or [{}])[0].get("queries", [])
            )
        )

    async def _registry(self) -> None:
        url = self._site.settings.registry
        if url is not None:
            remote = Remote(url, "Schema registry", timeout=5.0)
            await self._site.calls.run(remote.request, "GET", "/schemas/types")

    async def _pipelines(self) -> None:
        self._note(pipelines=await self._site.calls.run(_pipelines, self._site.settings.client.servers))

    async def _dead_letters(self, snapshot: Snapshot) -> None:
        named = (name for name in snapshot.topics if _DEAD_LETTERS.search(name))
        topics = [*dict.fromkeys((*self._letter_topics, *named))]
        keys = {
            topic: [(topic, each.number) for each in snapshot.topics[topic].partitions]
            for topic in topics[:_MOST_TOPICS]
            if topic in snapshot.topics and not snapshot.topics[topic].offline
        }
        if not keys:
            self._note(dead_letters=())
            return
        found = await self._site.calls.read(_waiting, keys)
        self._note(
            dead_letters=tuple(
                DeadLetterFacts(topic, waiting, self._measured(f"letters:{topic}", end, starts_at=0))
                for topic, (waiting, end) in found.items()
            )
        )

    async def _mirrors(self, snapshot: Snapshot) -> None:
        mirrors, _ = await mirrors_of(self._site, snapshot)
        found = {}
        for mirror in mirrors:
            lag = await mirror_lag(self._sites, mirror) if mirror.is_incoming else None
            if lag is not None:
                name = f"{mirror.other} → {self._site.name}"
                found[name] = self._measured(f"mirror:{name}", lag)
        self._note(mirrors=found)

    async def _audit(self, snapshot: Snapshot) -> None:
        if AUDIT_TOPIC in snapshot.topics:
            self._note(audit=await self._site.calls.read(_discrepancies))

    async def _certificates(self, snapshot: Snapshot) -> None:
        settings = self._site.settings
        servers = [each.address for each in snapshot.topology.brokers.values()]
        urls = [url for url in (settings.registry, settings.connect, settings.sql) if url is not None]
        brokers = servers if settings.client.tls is not None else []
        self._note(certificates=await self._site.calls.run(certificates_of, brokers, urls))


# In threads


def _connectors(remote: Remote) -> tuple[tuple[ConnectorFacts, ...], tuple[str, ...]]:
    """Return the connectors, and their topics of dead letters."""
    statuses = remote.request("GET", "/connectors?expand=status") or {}
    infos = remote.request("GET", "/connectors?expand=info") or {}
    found, topics = [], []
    for name in sorted(statuses):
        config = infos.get(name, {}).get("info", {}).get("config", {})
        hidden = ConnectorConfig(config, {})
        status = statuses[name].get("status", NOT_STARTED)
        connector = status.get("connector", {})
        tasks = tuple(
            TaskFacts(int(each.get("id", 0)), str(each.get("state", "")), _cause(hidden, each))
            for each in status.get("tasks", [])
        )
        found.append(ConnectorFacts(name, str(connector.get("state", "")), _cause(hidden, connector), tasks))
        topics.append(str(config.get("errors.deadletterqueue.topic.name", "")))
    return tuple(found), tuple(topic for topic in topics if topic)


def _cause(config: ConnectorConfig, state: Mapping[str, Any]) -> str:
    """Return the first line of a trace, without secrets."""
    lines = config.scrubbed(str(state.get("trace") or "")).strip().splitlines()
    return lines[0][:300] if lines else ""


def _pipelines(servers: str) -> tuple[QueryFacts, ...]:
    try:
        from ottla.spark.pipelines.state import PipelineError, Pipelines
    except ImportError:
        return ()
    ours = set(servers.split(","))
    try:
        return tuple(
            QueryFacts(each.name, str(each.phase), (each.error or "").strip().partition("\n")[0][:300])
            for each in Pipelines().all()
            if ours & set(each.bootstrap_servers.split(","))
        )
    except (PipelineError, OSError):
        return ()


def _waiting(cluster: Cluster, keys: Mapping[str, Sequence[Partition]]) -> dict[str, tuple[int, int]]:
    """Return the letters not sent back and the sum of end offsets, by topic."""
    ends = latest_offsets(cluster, [key for each in keys.values() for key in each])
    return {
        topic: (Progress(cluster, topic).waiting(ends), sum(ends[key] for key in of_topic))
        for topic, of_topic in keys.items()
    }


def _discrepancies(cluster: Cluster) -> tuple[AuditFacts, ...]:
    counts = read_tier_counts(cluster)
    return tuple(
        AuditFacts(each.topic, each.tier, each.kind, each.missing)
        for topic in counts.topics
        for each in counts.balance(topic, [], grace_ms=_GRACE_MS)
    )
