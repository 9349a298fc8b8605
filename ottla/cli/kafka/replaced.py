"""Kafka's tools that have no purpose here: each explains why and names an alternative."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool


def _replaced(name: str, instead: str) -> Callable[[], NoReturn]:
    def run(_argv: list[str]) -> NoReturn:
        raise JobError(f"{name} is not part of Ottla: {instead}.")

    return tool.entry_point()(run)


jmx = _replaced(
    "kafka-jmx",
    "its brokers run on no JVM and have no JMX; kafka-consumer-groups tells the lag of groups, kafka-log-dirs the "
    "sizes on disk",
)
metadata_quorum = _replaced(
    "kafka-metadata-quorum",
    "its clusters keep their metadata in ZooKeeper and have no quorum of controllers; `zookeeper-shell HOST:PORT "
    "get /controller` tells which broker is the controller",
)
metadata_shell = _replaced(
    "kafka-metadata-shell",
    "its clusters keep their metadata in ZooKeeper and not in a log; look into it with zookeeper-shell",
)
replica_verification = _replaced(
    "kafka-replica-verification",
    "`kafka-topics --describe --under-replicated-partitions` tells which replicas are behind, and kafka-dump-log "
    "what the files of each hold",
)
run_class = _replaced(
    "kafka-run-class",
    "it has none of Kafka's Java classes; run the tool by its own name, such as kafka-get-offsets",
)
trogdor = _replaced(
    "trogdor",
    "kafka-producer-perf-test, kafka-consumer-perf-test and kafka-e2e-latency put load on a cluster",
)
