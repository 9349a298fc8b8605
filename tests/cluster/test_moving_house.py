"""Promise: an operator can stop Apache Kafka 3.9, start Ottla in its place, and go back. Nothing is lost on the way."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from bench.apache_kafka import ZOOKEEPER_VERSION, Unavailable, kafka_jars, run_tool
from tests.cluster.house import House

pytestmark = [pytest.mark.cluster, pytest.mark.peers, pytest.mark.slow, pytest.mark.timeout(420)]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    # Sessions of brokers that were killed end soon.
    "zookeeper.session.timeout.ms": "6000",
    "log.segment.bytes": "200000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "auto.create.topics.enable": "false",
    # What Ottla has no use for, and what nobody knows.
    "inter.broker.protocol.version": "3.9",
    "acme.reporter.address": "monitoring:1234",
}
