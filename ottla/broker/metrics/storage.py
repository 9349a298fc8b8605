"""Metrics of topics, replicas and disks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cluster.partitions.topic_counts import TopicCounts
from ottla.log.local_log import flush_times
from ottla.monitoring.metrics.text import counter, family, gauge, header, labels, line, summary

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.metrics.broker_metrics import BrokerMetrics
    from ottla.cluster.partitions.partition import Partition

_PER_PIECE = 200

_TOPICS = "kafka_server_brokertopicmetrics"
_COUNTS = {
    "messagesin": ("messages_in", "Messages that were written."),
    "bytesin": ("bytes_in", "Bytes that were written by clients."),
    "bytesout": ("bytes_out", "Bytes that were read by clients."),
    "totalproducerequests": ("produces", "Batches that clients have sent, as Kafka counts produce requests."),
    "failedproducerequests": ("failed_produces", "Those of them that failed for no fault of the client's."),
    "totalfetchrequests": (
        "fetches",
        "Reads of a partition by clients, as Kafka counts fetch requests.",
    ),
    "failedfetchrequests": ("failed_fetches", "Those of them that failed for no fault of the client's."),
    "replicationbytesin": ("replicated_in", "Bytes that were fetched from leaders."),
    "replicationbytesout": ("replicated_out", "Bytes that followers have fetched."),
}


def topic_metrics(metrics: BrokerMetrics) -> Iterator[str]:
    total = metrics.topics.total()
    topics: dict[str, TopicCounts] = {}
    for name, counts in metrics.topics:
        topics[name] = TopicCounts()
        topics[name].add(counts)
    # Without interruption: a partition passes its counts to the topic when it loses leadership, and must count once.
    for partition in metrics.broker.replicas.partitions():
        if partition.is_leader:
            for counts in (total, topics.setdefault(partition.topic, TopicCounts())):
                counts.messages_in += partition.messages_in
                counts.produces += partition.produces
                counts.bytes_in += partition.bytes_in
    yield ""
    labelled = [(labels(topic=name), counts) for name, counts in topics.items()]
    for name, (field, about) in _COUNTS.items():
        metric = f"{_TOPICS}_{name}_total"
        yield counter(metric, about, getattr(total, field))
        for label, counts in labelled:
            yield line(metric, getattr(counts, field), label)


def replica_metrics(metrics: BrokerMetrics) -> Iterator[str]:
    replicas = metrics.broker.replicas
    held = led = under_replicated = under_min_isr = at_min_isr = 0
    for partition in list(replicas.partitions()):
        held += 1
        if held % _PER_PIECE == 0:
            yield ""
        if partition.is_leader:
            led += 1
            lacking, below, least = _in_sync(partition)
            under_replicated += lacking
            under_min_isr += below
            at_min_isr += least
    manager = "kafka_server_replicamanager"
    yield gauge(f"{manager}_partitioncount", "Replicas here.", held)
    yield gauge(f"{manager}_leadercount", "Those that lead.", led)
    yield gauge(
        f"{manager}_offlinereplicacount", "Replicas whose log is out of reach.", len(replicas.offline)
    )
    yield gauge(
        f"{manager}_underreplicatedpartitions",
        "Led here, with a replica that is not in sync.",
        under_replicated,
    )
    yield gauge(
        f"{manager}_underminisrpartitioncount",
        "Led here, with fewer than min.insync.replicas.",
        under_min_isr,
    )
    yield gauge(f"{manager}_atminisrpartitioncount", "Led here, with just min.insync.replicas.", at_min_isr)
    moving = (each for each in metrics.broker.image.partitions.values() if each.adding_replicas)
    reassigning = sum(each.leader == metrics.broker.node_id for each in moving)
    yield gauge(
        f"{manager}_reassigningpartitions", "Led here, with replicas that are being added.", reassigning
    )
    context = replicas.leader_context
    yield counter(f"{manager}_isrshrinks_total", "How often a replica left the ISR.", context.isr_shrinks)
    yield counter(f"{manager}_isrexpands_total", "How often a replica joined the ISR.", context.isr_expands)
    yield counter(
        f"{manager}_failedisrupdates_total",
        "How often the ISR could not be written.",
        context.failed_isr_updates,
    )


def _in_sync(partition: Partition) -> tuple[bool, bool, bool]:
    """Return whether the partition is under-replicated, below min.insync.replicas, and exactly at it."""
    if partition.leading is None:
        return False, False, len(partition.isr) == 1
    count, least = len(partition.leading.isr), partition.leading.min_isr
    return count < len(partition.replicas), count < least, count == least


def partition_metrics(broker: Broker) -> Iterator[str]:
    partitions = sorted(broker.replicas.partitions(), key=lambda each: (each.topic, each.index))
    names = [labels(topic=each.topic, partition=each.index) for each in partitions]
    logs: dict[str, tuple[str, Callable[[Partition], int]]] = {
        "kafka_log_log_size": ("Bytes of the log.", lambda each: each.log.size),
        "kafka_log_log_numlogsegments": ("Segments of the log.", lambda each: len(each.log.segments)),
        "kafka_log_log_logstartoffset": ("Where the log begins.", lambda each: each.log.log_start_offset),
        "kafka_log_log_logendoffset": ("Where the log ends.", lambda each: each.log.log_end_offset),
    }
    for name, (about, value) in logs.items():
        yield header(name, "gauge", about)
        for label, partition in zip(names, partitions, strict=True):
            yield line(name, value(partition), label)
    led = [
        (label, each, _in_sync(each)) for label, each in zip(names, partitions, strict=True) if each.is_leader
    ]
    of_leaders: dict[str, tuple[str, Callable[[Partition, tuple[bool, bool, bool]], int]]] = {
        "underreplicated": ("1 if a replica is not in sync.", lambda each, sync: sync[0]),
        "underminisr": ("1 with fewer than min.insync.replicas.", lambda each, sync: sync[1]),
        "atminisr": ("1 with just min.insync.replicas.", lambda each, sync: sync[2]),
        "replicascount": ("Replicas.", lambda each, sync: len(each.replicas)),
        "insyncreplicascount": (
            "Replicas in sync.",
            lambda each, sync: len(each.isr if each.leading is None else each.leading.isr),
        ),
        "laststableoffsetlag": (
            "Records of transactions that have not ended.",
            lambda each, sync: each.high_watermark - each.last_stable_offset,
        ),
    }
    for name, (about, of_leader) in of_leaders.items():
        metric = f"kafka_cluster_partition_{name}"
        yield from family(
            metric, "gauge", about, ((label, int(of_leader(each, sync))) for label, each, sync in led)
        )


def _disk_traffic() -> Iterator[str]:
    """Yield bytes read from and written to disks by this process, if the system reports them."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return
    found = dict(line.split(": ") for line in lines)
    for name in ("read_bytes", "write_bytes"):
        metric = f"kafka_server_kafkaserver_linux_disk_{name}"
        yield counter(metric, "Of this process, by the kernel's count.", int(found[name]))


def disk_metrics(broker: Broker) -> Iterator[str]:
    directories = broker.replicas.log_directories
    offline = sum(not each.online for each in directories)
    yield gauge("kafka_log_logmanager_offlinelogdirectorycount", "Directories that have failed.", offline)
    yield from family(
        "kafka_log_logmanager_logdirectoryoffline",
        "gauge",
        "1 if the directory has failed.",
        ((labels(logDirectory=each.path), int(not each.online)) for each in directories),
    )
    yield from summary(
        "kafka_log_logflushstats_logflushrateandtimems",
        "How long it takes to flush a log to disk.",
        {"": flush_times},
        scale=0.001,
    )
    yield from _disk_traffic()
    space = []
    for each in directories:
        try:
            found = os.statvfs(each.path)
        except OSError:
            continue
        space.append((labels(logDirectory=each.path), found))
    about = "Size of the disk with the log directory."
    yield from family(
        "ottla_log_directory_total_bytes",
        "gauge",
        about,
        ((label, each.f_frsize * each.f_blocks) for label, each in space),
    )
    yield from family(
        "ottla_log_directory_usable_bytes",
        "gauge",
        about,
        ((label, each.f_frsize * each.f_bavail) for label, each in space),
    )
