"""Promise: `ottla apply` and `ottla export` work with Apache Kafka as they do with Ottla."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from ottla.testing import Broker
from tests.cli.conftest import Ottla

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

FILE = """\
version: 1
topics:
  orders: {partitions: 3, replication: 1, configs: {retention.ms: 86400000, cleanup.policy: [compact, delete]}}
  payments: {partitions: 1, replication: 1}
brokers:
  default: {log.cleaner.threads: 2}
users:
  ann: {password: secret, mechanisms: {SCRAM-SHA-512: 4096}}
acls:
  - {principal: "User:ann", resource: topic, name: orders, operations: [read, describe]}
  - {principal: "User:ann", resource: group, name: ann-, pattern: prefixed, operations: [read]}
quotas:
  - {user: ann, producer_byte_rate: 1000000}
  - {user: null, client-id: slow, request_percentage: 12.5}
"""
SMALL_JVM = ("-Xms192m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def test_a_file_moves_between_ottla_and_apache_kafka(tmp_path: Path) -> None:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    ours = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    file, exported = tmp_path / "cluster.yaml", tmp_path / "exported.yaml"
    file.write_text(FILE)
    with ExitStack() as stack:
        clusters = [
            Ottla(stack.enter_context(ApacheKafka(jvm=SMALL_JVM, config=authorizer)).bootstrap_servers),
            Ottla(stack.enter_context(Broker(config=ours)).bootstrap_servers),
            Ottla(stack.enter_context(ApacheKafka(jvm=SMALL_JVM, config=authorizer)).bootstrap_servers),
        ]
        for number, ottla in enumerate(clusters):
            ottla.environment["OTTLA_PASSWORD_ANN"] = "secret"
            assert "+ topic orders" in ottla("apply", "-f", file).text
            # Apache Kafka starts with a cluster-wide min.insync.replicas, which the first file does not mention.
            prune = ["--prune"] if number else []
            assert ottla("apply", "-f", file, *prune).text == "Nothing to change.\n"
            shown = ottla("export").text
            assert not number or shown == exported.read_text()
            exported.write_text(shown)
            file = exported
        fewer = tmp_path / "fewer.yaml"
        fewer.write_text("version: 1\ntopics:\n  new: {}\n  orders: {partitions: 1}\n")
        refused = clusters[0]("apply", "-f", fewer, check=False)
        assert f"{fewer}:4: topics.orders.partitions is 1, but the topic has 3 partitions" in refused.err
        assert "new" not in clusters[0]("topics", "list").text
