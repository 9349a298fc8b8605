"""Requests a second and microseconds a request: on a raw connection, and from producer to consumer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.measuring.experiment import Experiment, Figures, Row, RunningClient, Scale, run_client, topic_on
from bench.measuring.limit import TOPIC as LIMIT_TOPIC
from bench.measuring.limit import BareServer
from bench.peers.brokers import Broker, Contestant, Fresh
from bench.rows.metadata import leader_port


def one_record_requests() -> Experiment:
    row = Row("one-record Produce requests, pipelined", "requests/s")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        with topic_on(broker, 1) as topic:
            port = leader_port(broker.bootstrap_servers, topic)
            work = {"host": "127.0.0.1", "port": port, "topic": topic, "size": 100}
            figures = run_client("requests", count=scale.requests, **work)
        return {row.name: figures["requests_per_s"]}

    def limit(server: BareServer, scale: Scale) -> Figures:
        figures = run_client(
            "requests", host="127.0.0.1", port=server.port, topic=LIMIT_TOPIC, count=scale.requests, size=100
        )
        return {row.name: figures["requests_per_s"]}

    return Experiment((row,), measure, limit)


@contextmanager
def full_speed_consumer(broker: Broker, scale: Scale) -> Iterator[None]:
    """Another process that reads a topic of its own as fast as the broker hands it out."""
    with topic_on(broker, 1) as topic:
        work = {"host": "127.0.0.1", "port": broker.port, "topic": topic, "batches": scale.drain_batches}
        run_client("fill", **work)
        reader = RunningClient("drain", **work)
        try:
            yield
        finally:
            reader.stop()
            reader.figures()


@contextmanager
def alone(broker: Broker, scale: Scale) -> Iterator[None]:
    yield


def round_trip(under_load: bool) -> Experiment:
    suffix = " beside a full-speed consumer" if under_load else ""
    p50 = Row(f"round trip of a one-record Produce{suffix}, p50", "µs", "lower")
    p99 = Row(f"round trip of a one-record Produce{suffix}, p99", "µs", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        beside = full_speed_consumer if under_load else alone
        with topic_on(broker, 1) as topic, beside(broker, scale):
            port = leader_port(broker.bootstrap_servers, topic)
            return named(p50, p99, round_trip_figures(port, topic, scale, 1))

    def limit(server: BareServer, scale: Scale) -> Figures:
        return named(p50, p99, round_trip_figures(server.port, LIMIT_TOPIC, scale, 1))

    return Experiment((p50, p99), measure, limit)


def round_trip_figures(port: int, topic: str, scale: Scale, partitions: int) -> Figures:
    work = {"count": scale.round_trips, "warm_up": scale.round_trips // 5, "size": 100}
    return run_client("round_trip", host="127.0.0.1", port=port, topic=topic, partitions=partitions, **work)


def named(p50: Row, p99: Row, figures: Figures) -> Figures:
    return {p50.name: figures["p50_us"], p99.name: figures["p99_us"]}


def end_to_end(under_load: bool) -> Experiment:
    suffix = " beside a full-speed consumer" if under_load else ""
    p50 = Row(f"produce → consume latency{suffix}, p50", "µs", "lower")
    p99 = Row(f"produce → consume latency{suffix}, p99", "µs", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        beside = full_speed_consumer if under_load else alone
        with topic_on(broker, 1) as topic, beside(broker, scale):
            work = {"count": scale.end_to_end, "warm_up": scale.end_to_end // 5, "size": 100}
            figures = run_client("end_to_end", bootstrap=broker.bootstrap_servers, topic=topic, **work)
        return named(p50, p99, figures)

    def limit(server: BareServer, scale: Scale) -> Figures:
        return named(p50, p99, round_trip_figures(server.port, LIMIT_TOPIC, scale, 1))

    return Experiment((p50, p99), measure, limit)


def flat_latency(wanted: int) -> Experiment:
    few = Row("round trip with 1 partition on the broker, p50", "µs", "lower")
    many = Row(f"round trip over {wanted:,} partitions, p50", "µs", "lower")
    growth = Row(f"round trip, {wanted:,} partitions ÷ 1 partition", "times", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        with Fresh(contestant) as broker:
            with topic_on(broker, 1) as topic:
                # Both figures from a warm broker, or the second would profit from the first.
                work = {"host": "127.0.0.1", "port": broker.port, "topic": topic, "size": 100}
                run_client("requests", count=scale.requests // 2, **work)
                one = round_trip_figures(broker.port, topic, scale, 1)["p50_us"]
            run_client("create_topic", bootstrap=broker.bootstrap_servers, topic="many", partitions=wanted)
            all_of_them = round_trip_figures(broker.port, "many", scale, wanted)["p50_us"]
        return {few.name: one, many.name: all_of_them, growth.name: all_of_them / one}

    def limit(server: BareServer, scale: Scale) -> Figures:
        one = round_trip_figures(server.port, LIMIT_TOPIC, scale, 1)["p50_us"]
        return {few.name: one, many.name: one}

    return Experiment((few, many, growth), measure, limit)
