"""Kafka's own tools and ours, run against the same broker."""

from __future__ import annotations

import subprocess

from bench.peers.apache_kafka import run_tool
from ottla.testing import Broker
from tests.installed import kafka_tool

CLASSES = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "storage": "kafka.tools.StorageTool",
    "streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
    "acls": "org.apache.kafka.tools.AclCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
}


def command(broker: Broker | None, tool: str, *args: str) -> list[str]:
    servers = [] if broker is None else ["--bootstrap-server", broker.bootstrap_servers]
    if tool == "cluster":
        args, servers = (*args, *servers), []
    return [kafka_tool(tool), *servers, *args]


def ours(broker: Broker | None, tool: str, *args: str, input: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(broker, tool, *args), input=input, capture_output=True, text=True, timeout=60
    )


# A tool lives for a second, so a fast start beats compiled code.
QUICK_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def theirs(broker: Broker | None, tool: str, *args: str, input: str = "") -> subprocess.CompletedProcess[str]:
    arguments = command(broker, tool, *args)[1:]
    return run_tool(CLASSES[tool], arguments, check=False, timeout=60, input=input, jvm=QUICK_JVM)


def without_logging(text: str) -> list[str]:
    """Remove Kafka's log lines and exception traces from the standard output."""
    return [
        line.rstrip()
        for line in text.splitlines()
        if " ERROR " not in line and not line.startswith("\tat ") and line.strip()
    ]
