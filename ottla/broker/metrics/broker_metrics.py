"""Metrics of a broker, in Prometheus' text format."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.metrics import storage
from ottla.broker.network.request_times import PHASES, TimedTurns
from ottla.cluster.partitions.topic_counts import CountedTopics, TopicCounts
from ottla.log.local_log import flush_times
from ottla.metadata.stores.store import SessionState
from ottla.monitoring.metrics.text import (
    Histogram,
    counter,
    family,
    gauge,
    header,
    labels,
    process_metrics,
    summary,
)
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.listener import Listener

# Metrics of requests, the event loop and connections.

_MILLISECONDS = 0.001
_REQUESTS = "kafka_network_requestmetrics"
_ABOUT = {
    "totaltimems": "From the first byte that could be read to the last that was sent.",
    "requestqueuetimems": "From when a request could be read to when its handler began.",
    "localtimems": "In the handler.",
    "remotetimems": "Waiting for other replicas, for data, for a group.",
    "responsequeuetimems": "From the response to its first byte.",
    "responsesendtimems": "From its first byte to its last.",
}


def request_metrics(metrics: BrokerMetrics) -> Iterator[str]:
    counts = _counts(metrics)
    yield from family(
        f"{_REQUESTS}_requests_total",
        "counter",
        "Requests, by version.",
        (
            (labels(request=name, version=version), count)
            for name, versions in counts.items()
            for version, count in versions.items()
            if count
        ),
    )
    for place, phase in enumerate(PHASES):
        histograms = {labels(request=name): times.phases[place] for name, times in metrics.turns}
        exact = {labels(request=name): sum(versions.values()) for name, versions in counts.items()}
        yield from summary(
            f"{_REQUESTS}_{phase}", _ABOUT[phase], histograms, scale=_MILLISECONDS, counts=exact
        )


def _counts(metrics: BrokerMetrics) -> dict[str, dict[int, int]]:
    """Return request counts by name and version. Fetches count in total and separately for consumers and followers."""
    counts: dict[str, dict[int, int]] = {}
    for served in metrics.broker.dispatcher.served():
        name, followers = served.api.name, served.follower_requests
        counts.setdefault(name, {})[served.version] = served.requests
        if name == "Fetch":
            counts.setdefault("FetchConsumer", {})[served.version] = served.requests - followers
            counts.setdefault("FetchFollower", {})[served.version] = followers
    return counts


def network_metrics(metrics: BrokerMetrics) -> Iterator[str]:
    idle = metrics.idle_share
    # One thread handles both requests and network I/O.
    yield gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "The share of the last minute that the loop was idle, 0 to 1.",
        idle,
    )
    yield gauge(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "The same: one thread handles requests and moves their bytes.",
        idle,
    )
    yield from summary(
        "ottla_loop_lateness_ms",
        "Delay of the event loop.",
        {"": metrics.lateness},
        scale=_MILLISECONDS,
    )
    socket_server = "kafka_server_socket_server_metrics"
    listeners = metrics.listeners
    places = [labels(listener=each.name, networkProcessor=0) for each in listeners]
    yield from family(
        f"{socket_server}_connection_count",
        "gauge",
        "Connections.",
        ((place, len(each.connections)) for place, each in zip(places, listeners, strict=True)),
    )
    yield from family(
        f"{socket_server}_connection_creation_total",
        "counter",
        "Connections that were made.",
        ((place, each.accepted) for place, each in zip(places, listeners, strict=True)),
    )
    yield from family(
        f"{socket_server}_connection_close_total",
        "counter",
        "Connections that have ended.",
        ((place, each.ended) for place, each in zip(places, listeners, strict=True)),
    )
    made, ended = metrics.connection_rates()
    about = "Connections per second, in the last minute."
    for name, rate in (("creation", made), ("close", ended)):
        yield gauge(f"{socket_server}_connection_{name}_rate", about, rate)
    queue = "kafka_network_requestchannel"
    for name in ("requestqueuesize", "responsequeuesize"):
        yield gauge(f"{queue}_{name}", "Always 0: requests are handled in the same turn.", 0)
    yield header("kafka_server_app_info", "gauge", "The broker.")
    yield (
        "kafka_server_app_info{"
        + labels(broker_id=metrics.broker.node_id, cluster_id=metrics.broker.cluster_id)
        + "} 1\n"
    )


# Metrics of the controller, of waiting requests and of the coordinators.

_PER_PIECE = 200
_DELAYED_OPERATIONS = ("Produce", "Fetch", "DeleteRecords")


def controller_metrics(broker: Broker) -> Iterator[str]:
    """Only the active controller counts partitions, so that sums over brokers are correct."""
    image, controller, states = broker.image, broker.member.controller, broker.member.states
    offline = astray = topics = partitions = 0
    if controller.is_active:
        live = controller.live
        for place, partition in enumerate(list(image.partitions.values())):
            offline += partition.leader not in live
            astray += partition.leader != partition.replicas[0]
            if place % _PER_PIECE == 0:
                yield ""
        topics, partitions = len(image.topics), len(image.partitions)
    name = "kafka_controller_kafkacontroller"
    yield gauge(f"{name}_activecontrollercount", "1 on the controller.", int(controller.is_active))
    yield gauge(f"{name}_offlinepartitionscount", "Partitions that nobody leads.", offline)
    yield gauge(
        f"{name}_preferredreplicaimbalancecount",
        "Partitions that another than the first replica leads.",
        astray,
    )
    yield gauge(f"{name}_globaltopiccount", "Topics of the cluster.", topics)
    yield gauge(f"{name}_globalpartitioncount", "Partitions of the cluster.", partitions)
    yield gauge(f"{name}_topicstodeletecount", "Topics that are being deleted.", len(image.deleting))
    brokers = len(image.brokers) if controller.is_active else 0
    yield gauge(f"{name}_activebrokercount", "Brokers that are registered.", brokers)
    stats = "kafka_controller_controllerstats"
    yield counter(
        f"{stats}_uncleanleaderelections_total",
        "Elections of a replica that was not in sync.",
        states.unclean_elections,
    )
    yield from summary(
        f"{stats}_leaderelectionrateandtimems",
        "Elections, and how long they took to write.",
        {"": states.election_times},
        scale=0.001,
    )


def purgatory_metrics(broker: Broker) -> Iterator[str]:
    waiting = broker.purgatory.sizes()
    yield from family(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "gauge",
        "Requests that wait.",
        ((labels(delayedOperation=name), waiting[name]) for name in _DELAYED_OPERATIONS),
    )
    yield from family(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "gauge",
        "Fetch sessions of consumers.",
        [("", len(broker.fetch_sessions))],
    )


_MANAGER = "kafka_coordinator_group_groupmetadatamanager"
_CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")


def group_metrics(broker: Broker) -> Iterator[str]:
    groups: Counter[tuple[str, str]] = Counter()
    offsets = 0
    for shard in list(broker.groups.runtime):
        for place, group in enumerate(list(shard.groups.values())):
            groups[group.group_type, group.state.value] += 1
            offsets += sum(map(len, group.offsets.by_topic.values()))
            if place % _PER_PIECE == 0:
                yield ""
    yield gauge(f"{_MANAGER}_numgroups", "Groups that are coordinated here.", sum(groups.values()))
    yield gauge(f"{_MANAGER}_numoffsets", "Offsets that groups have committed.", offsets)
    for state in _CLASSIC_STATES:
        count = sum(number for (_, each), number in groups.items() if each == state)
        yield gauge(f"{_MANAGER}_numgroups{state.lower()}", f"Groups in state {state}.", count)
    yield from family(
        "ottla_groups",
        "gauge",
        "Groups that are coordinated here, by type and state.",
        ((labels(type=kind, state=state), number) for (kind, state), number in sorted(groups.items())),
    )


def transaction_metrics(broker: Broker) -> Iterator[str]:
    states: Counter[str] = Counter()
    for shard in list(broker.transactions.runtime):
        for place, which in enumerate(list(shard.ids.values())):
            states[which.current.state.title] += 1
            if place % _PER_PIECE == 0:
                yield ""
    yield from family(
        "ottla_transactions",
        "gauge",
        "Transactional ids that are coordinated here, by state.",
        ((labels(state=state), number) for state, number in sorted(states.items())),
    )


# Runtime metrics of a broker: requests, load and latency of the event loop, connections.

_TICK_SECONDS = 0.1
# Rates cover the last minute, as in Kafka.
_SAMPLE_TICKS = 50
_SAMPLES = 12
# Quantiles cover the last 2.5 to 5 minutes. Kafka's sampling favours the last five.
_ROTATE_TICKS = 1500

_MISPLACED = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
_EXPECTED_OF_PRODUCE = _MISPLACED | {
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
}
_EXPECTED_OF_FETCH = _MISPLACED | {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.REPLICA_NOT_AVAILABLE}

# Kafka's broker states.
STARTING, RUNNING, PENDING_CONTROLLED_SHUTDOWN, SHUTTING_DOWN = 1, 3, 6, 7


def metrics_of_start() -> Iterator[str]:
    yield _state_line(STARTING)
    yield from process_metrics()


def _state_line(state: int) -> str:
    return gauge("kafka_server_kafkaserver_brokerstate", "1 starts, 3 runs, 6 hands over, 7 stops.", state)


class BrokerMetrics:
    """Created only if metrics are enabled; otherwise no request is timed. Owner: the event loop.

    Handlers increment plain integers in objects they touch anyway. Everything else is computed on demand.
    """

    def __init__(self, broker: Broker, listeners: list[Listener]) -> None:
        self.broker = broker
        self.listeners = listeners
        self.state = STARTING
        self.turns = TimedTurns(broker.loop.time)
        self.topics = CountedTopics()
        self.lateness = Histogram()  # in microseconds
        self.with_partitions = broker.config.get_bool("metrics.partitions.enable")
        self.zookeeper_expires = 0
        self.zookeeper_disconnects = 0
        self.is_zookeeper_connected = True
        self._ticks = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        # Samples of clock, CPU time of the loop thread, connections opened and closed.
        self._samples: deque[tuple[float, float, int, int]] = deque(maxlen=_SAMPLES + 1)
        broker.replicas.counts = self.topics
        broker.store.on_session.append(self._session_changed)

    def start(self) -> None:
        self.broker.dispatcher.time(self.turns)
        self._samples.append(self._sample())
        self._due = time.monotonic() + _TICK_SECONDS
        self._timer = self.broker.loop.call_later(_TICK_SECONDS, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.broker.dispatcher.time(None)

    # Failures. Like Kafka, skip errors caused by clients and errors that send clients to another leader.

    def produce_failed(self, topic: str, topic_id: bytes, code: int) -> None:
        counts = self._counts(topic, topic_id)
        if counts is not None:
            counts.produces += 1
            counts.failed_produces += code not in _EXPECTED_OF_PRODUCE

    def fetch_failed(self, topic: str, topic_id: bytes, code: int) -> None:
        counts = self._counts(topic, topic_id)
        if counts is not None:
            counts.fetches += 1
            counts.failed_fetches += code not in _EXPECTED_OF_FETCH

    def _counts(self, topic: str, topic_id: bytes) -> TopicCounts | None:
        if not topic:
            known = self.broker.image.topics_by_id.get(topic_id)
            topic = "" if known is None else known.name
        return self.topics.find(topic)

    def _session_changed(self, state: SessionState) -> None:
        self.is_zookeeper_connected = state is not SessionState.SUSPENDED
        self.zookeeper_expires += state is SessionState.EXPIRED
        self.zookeeper_disconnects += state is SessionState.SUSPENDED

    def _tick(self) -> None:
        now = time.monotonic()
        self.lateness.add(max(0, int((now - self._due) * 1e6)))
        self._ticks += 1
        self.turns.adapt()
        if self._ticks % _SAMPLE_TICKS == 0:
            self._samples.append(self._sample())
        if self._ticks % _ROTATE_TICKS == 0:
            self.turns.rotate()
            for histogram in (self.lateness, flush_times, self.broker.member.states.election_times):
                histogram.rotate()
        self._due = now + _TICK_SECONDS
        self._timer = self.broker.loop.call_later(_TICK_SECONDS, self._tick)

    def _sample(self) -> tuple[float, float, int, int]:
        return (
            time.monotonic(),
            time.thread_time(),
            sum(each.accepted for each in self.listeners),
            sum(each.ended for each in self.listeners),
        )

    # The last minute

    @property
    def idle_share(self) -> float:
        """Return the idle share of the loop, the single thread that handles requests and transfers their bytes."""
        (before, cpu_before, _, _), (now, cpu, _, _) = self._samples[0], self._sample()
        return max(0.0, min(1.0, 1 - (cpu - cpu_before) / (now - before))) if now > before else 1.0

    def connection_rates(self) -> tuple[float, float]:
        (before, _, made_before, ended_before), (now, _, made, ended) = self._samples[0], self._sample()
        seconds = max(now - before, 1e-3)
        return (made - made_before) / seconds, (ended - ended_before) / seconds

    # Output

    def lines(self) -> Iterator[str]:
        broker = self.broker
        yield _state_line(self.state)
        yield from request_metrics(self)
        yield from network_metrics(self)
        yield from storage.topic_metrics(self)
        yield from storage.replica_metrics(self)
        if self.with_partitions:
            yield from storage.partition_metrics(broker)
        yield from storage.disk_metrics(broker)
        yield from controller_metrics(broker)
        yield from purgatory_metrics(broker)
        yield from group_metrics(broker)
        yield from transaction_metrics(broker)
        if broker.telemetry is not None:
            yield from broker.telemetry.lines()
        for beside in (broker.count_audit, broker.otlp_export):
            if beside is not None:
                yield from beside.lines()
        if broker.config.zookeeper_connect:
            yield from self._zookeeper_metrics()
        yield from process_metrics()

    def _zookeeper_metrics(self) -> Iterator[str]:
        yield gauge(
            "ottla_zookeeper_connected",
            "1 while the ensemble can be reached.",
            int(self.is_zookeeper_connected),
        )
        yield counter(
            "kafka_server_sessionexpirelistener_zookeeperexpires_total",
            "Sessions with ZooKeeper that have ended.",
            self.zookeeper_expires,
        )
        yield counter(
            "kafka_server_sessionexpirelistener_zookeeperdisconnects_total",
            "How often ZooKeeper was out of reach.",
            self.zookeeper_disconnects,
        )
