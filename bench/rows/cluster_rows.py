"""What is measured of a cluster: replication, failover, and what its controller and its memory cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from bench.measuring.experiment import Experiment, Figures, Row, RunningClient, Scale, run_client, topic_on
from bench.measuring.limit import BareServer
from bench.peers.brokers import Contestant, cpu_seconds, mean_resident_mb, resident_mb
from bench.peers.clusters import Cluster
from bench.rows import latency
from bench.rows.capacity import idle_memory
from bench.rows.metadata import describe, leader_port
from bench.rows.throughput import throughput_label

_WARM_MEGABYTES, _WARM_REQUESTS = 128, 20_000
_SECONDS_BEFORE, _SECONDS_AFTER = 1.0, 1.0


def every_experiment(scale: Scale) -> list[Experiment]:
    """In the order of the table; what kills members comes after what needs them warm."""
    return [
        *(replicated_produce(size, partitions) for size in (100, 1_000, 10_000) for partitions in (1, 16)),
        warm(latency.one_record_requests()),
        warm(latency.round_trip(under_load=False)),
        warm(latency.end_to_end(under_load=False)),
        per_broker(idle_memory(), "resident memory of a broker, idle"),
        loaded_memory(),
        zookeeper_memory(),
        leader_failover("SIGKILL"),
        leader_failover("SIGTERM"),
        many_partitions(scale.partitions),
        controller_failover(scale.controller_partitions),
    ]


def cluster_of(contestant: Contestant, scale: Scale) -> Cluster:
    """The contestant's cluster, after enough work for a JVM to have compiled what matters."""
    cluster = contestant.shared()
    assert isinstance(cluster, Cluster)
    if not contestant.loaded:
        contestant.loaded = True
        share = 1 if scale.megabytes >= _WARM_MEGABYTES else 8
        with topic_on(cluster, 16) as topic:
            run_client(
                "produce_confluent",
                bootstrap=cluster.bootstrap_servers,
                topic=topic,
                size=1_000,
                records=_WARM_MEGABYTES * 1_000 // share,
                partitions=16,
                round_bytes=64_000_000,
            )
        with topic_on(cluster, 1) as topic:
            port = leader_port(cluster.bootstrap_servers, topic)
            work = {"host": "127.0.0.1", "port": port, "topic": topic, "size": 100}
            run_client("requests", count=_WARM_REQUESTS // share, **work)
    return cluster


def warm(experiment: Experiment) -> Experiment:
    def measure(contestant: Contestant, scale: Scale) -> Figures:
        cluster_of(contestant, scale)
        return experiment.measure(contestant, scale)

    return replace(experiment, measure=measure)


def replicated_produce(size: int, partitions: int) -> Experiment:
    label = throughput_label(size, partitions)
    produce = Row(f"replicated produce {label}", "MB/s")
    cost = Row(f"replicated produce {label}, all processes", "CPU ms/MB", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        cluster = cluster_of(contestant, scale)
        megabytes = scale.small_record_megabytes if size < 1_000 else scale.megabytes
        with topic_on(cluster, partitions) as topic:
            before = cpu_seconds(cluster.all_pids)
            produced = run_client(
                "produce_confluent",
                bootstrap=cluster.bootstrap_servers,
                topic=topic,
                size=size,
                records=megabytes * 1_000_000 // size,
                partitions=partitions,
                round_bytes=64_000_000,
            )
            used = cpu_seconds(cluster.all_pids) - before
        sent = produced["records"] * size / 1e6
        return {produce.name: produced["mb_per_s"], cost.name: used * 1000 / sent}

    def limit(server: BareServer, scale: Scale) -> Figures:
        return {produce.name: server.write_mb_per_s(scale.megabytes * 1_000_000) / 3}

    return Experiment((produce, cost), measure, limit)


def per_broker(experiment: Experiment, name: str) -> Experiment:
    """The same figure by a name that says that there are several."""
    [row] = experiment.rows
    named = replace(row, name=name)

    def renamed(work: Callable[..., Figures]) -> Callable[..., Figures]:
        return lambda *arguments: {name: work(*arguments)[row.name]}

    limit = None if experiment.limit is None else renamed(experiment.limit)
    return replace(experiment, rows=(named,), measure=renamed(experiment.measure), limit=limit)


def loaded_memory() -> Experiment:
    row = Row("resident memory of a broker, after the load above", "MB", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        return {row.name: mean_resident_mb(cluster_of(contestant, scale))}

    return Experiment((row,), measure)


def zookeeper_memory() -> Experiment:
    row = Row("resident memory of ZooKeeper, after the load above", "MB", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        cluster = cluster_of(contestant, scale)
        assert cluster.zookeeper is not None
        assert cluster.zookeeper.process is not None
        return {row.name: resident_mb(cluster.zookeeper.process.pid)}

    return Experiment((row,), measure, only="Ottla")


def leader_failover(signal: str) -> Experiment:
    label = f"leader gets {signal}, longest gap between acknowledgements"
    middle = Row(f"{label}, median", "s", "lower", "median")
    worst = Row(f"{label}, worst", "s", "lower", "worst")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        cluster = cluster_of(contestant, scale)
        gaps = []
        with topic_on(cluster, len(cluster.members)) as topic:
            for _ in range(scale.failovers):
                gaps.append(gap_without_leader(cluster, topic, signal))
        return {middle.name: median(gaps), worst.name: max(gaps)}

    return Experiment((middle, worst), measure)


def gap_without_leader(cluster: Cluster, topic: str, signal: str) -> float:
    """A leader goes, if possible not the controller too, while a producer writes to what it leads."""
    controller = cluster.controller()
    view = describe(cluster.bootstrap_servers, topic)
    partition = min(view.partitions, key=lambda index: view.partitions[index].leader == controller)
    victim = view.partitions[partition].leader
    producer = RunningClient(
        "acknowledgements", bootstrap=cluster.bootstrap_servers, topic=topic, partition=partition
    )
    try:
        time.sleep(_SECONDS_BEFORE)
        member = cluster.members[victim]
        (member.kill if signal == "SIGKILL" else member.stop)()
        others = cluster.survivors(victim)
        deadline = time.monotonic() + 60
        while describe(others, topic).partitions[partition].leader in (victim, -1):
            if time.monotonic() > deadline:
                raise TimeoutError("there was no new leader within a minute")
            time.sleep(0.05)
        time.sleep(_SECONDS_AFTER)
    finally:
        producer.stop()
    gap = producer.figures()["gap_seconds"]
    cluster.bring_back(victim, topic)
    return gap


def many_partitions(wanted: int) -> Experiment:
    row = Row(f"{wanted:,} partitions: create a topic with them, until every leader answers", "s", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        cluster = cluster_of(contestant, scale)
        work = {"topic": f"many-{time.time_ns()}", "partitions": wanted}
        seconds = run_client("create_topic", bootstrap=cluster.bootstrap_servers, **work)["seconds"]
        run_client("delete_topic", bootstrap=cluster.bootstrap_servers, topic=work["topic"])
        return {row.name: seconds}

    return Experiment((row,), measure)


def controller_failover(wanted: int) -> Experiment:
    changed = Row(f"{wanted:,} partitions: controller killed, until a topic is created", "s", "lower")
    led = Row(f"{wanted:,} partitions: controller killed, until all are led again", "s", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        cluster = cluster_of(contestant, scale)
        with topic_on(cluster, wanted) as topic:
            victim = cluster.controller()
            others = [broker_id for broker_id in cluster.members if broker_id != victim]
            watcher = RunningClient(
                "next_change",
                bootstrap=cluster.survivors(victim),
                topic=topic,
                partitions=wanted,
                victim=victim,
                replicas=others,
            )
            killed_at = time.monotonic()
            try:
                cluster.members[victim].kill()
            finally:
                watcher.stop()
            figures = watcher.figures()
            cluster.bring_back(victim, topic)
        return {
            changed.name: figures["changed_at"] - killed_at,
            led.name: figures["led_at"] - killed_at,
        }

    return Experiment((changed, led), measure)
