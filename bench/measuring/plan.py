"""Every row of the table, in its order."""

from __future__ import annotations

from bench.measuring.experiment import Experiment, Scale
from bench.rows.capacity import (
    embedded,
    idle_memory,
    loaded_memory,
    many_connections,
    many_partitions,
    start_up,
)
from bench.rows.latency import end_to_end, flat_latency, one_record_requests, round_trip
from bench.rows.security import acls, logins
from bench.rows.throughput import java_throughput, throughput
from bench.rows.tls import tls_throughput
from bench.rows.transactions import transactions


def every_experiment(scale: Scale) -> list[Experiment]:
    """In the order of the table; shared brokers are loaded before their memory is read."""
    return [
        *(throughput(size, partitions) for size in (100, 1_000, 10_000) for partitions in (1, 16)),
        java_throughput(),
        tls_throughput(1_000, 1),
        tls_throughput(1_000, 16),
        logins(),
        acls(1_000),
        one_record_requests(),
        round_trip(under_load=False),
        round_trip(under_load=True),
        end_to_end(under_load=False),
        end_to_end(under_load=True),
        transactions(1),
        transactions(100),
        idle_memory(),
        loaded_memory(),
        start_up(),
        embedded(),
        many_connections(scale.connections),
        many_partitions(scale.partitions),
        flat_latency(scale.many_partitions),
    ]


def chosen_experiments(scale: Scale, patterns: list[str]) -> list[Experiment]:
    return [experiment for experiment in every_experiment(scale) if experiment.wanted(patterns)]
