"""Tools of Kafka that would have nothing to do here: each says why in a sentence, and what to use instead."""

from __future__ import annotations

from typing import NoReturn

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool


def jmx() -> NoReturn:
    _not_here(
        "kafka-jmx",
        "its brokers run on no JVM and have no JMX; kafka-consumer-groups tells the lag of groups, kafka-log-dirs the "
        "sizes on disk",
    )


def metadata_quorum() -> NoReturn:
    _not_here(
        "kafka-metadata-quorum",
        "its clusters keep their metadata in ZooKeeper and have no quorum of controllers; `zookeeper-shell HOST:PORT "
        "get /controller` tells which broker is the controller",
    )


def metadata_shell() -> NoReturn:
    _not_here(
        "kafka-metadata-shell",
        "its clusters keep their metadata in ZooKeeper and not in a log; look into it with zookeeper-shell",
    )


def replica_verification() -> NoReturn:
    _not_here(
        "kafka-replica-verification",
        "`kafka-topics --describe --under-replicated-partitions` tells which replicas are behind, and kafka-dump-log "
        "what the files of each hold",
    )


def run_class() -> NoReturn:
    _not_here(
        "kafka-run-class",
        "it has none of Kafka's Java classes; run the tool by its own name, such as kafka-get-offsets",
    )


def trogdor() -> NoReturn:
    _not_here(
        "trogdor",
        "kafka-producer-perf-test, kafka-consumer-perf-test and kafka-e2e-latency put load on a cluster",
    )


def zookeeper_security_migration() -> NoReturn:
    _not_here(
        "zookeeper-security-migration",
        "its brokers write their nodes in ZooKeeper without access control lists, so that there are none to change",
    )


def _not_here(name: str, instead: str) -> NoReturn:
    def run(_argv: list[str]) -> int | None:
        raise JobError(f"{name} is not part of Ottla: {instead}.")

    tool.main(run)
