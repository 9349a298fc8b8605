"""Runtime metrics of a broker: requests, load and latency of the event loop, connections."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.metrics import storage
from ottla.broker.metrics.cluster_state import (
    controller_metrics,
    group_metrics,
    purgatory_metrics,
    transaction_metrics,
)
from ottla.broker.metrics.requests import network_metrics, request_metrics
from ottla.broker.network.request_times import TimedTurns
from ottla.cluster.partitions.topic_counts import CountedTopics, TopicCounts
from ottla.log.local_log import flush_times
from ottla.metadata.stores.store import SessionState
from ottla.monitoring.metrics.histogram import Histogram
from ottla.monitoring.metrics.process import process_metrics
from ottla.monitoring.metrics.text import counter, gauge
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.listener import Listener

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
