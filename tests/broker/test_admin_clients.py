"""Administration with third-party clients."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
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

from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker

with warnings.catch_warnings():
    # kafka-python parses its message definitions with a call that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import ConfigResource as PythonConfigResource
    from kafka.admin import ConfigResourceType as PythonResourceType
    from kafka.admin import KafkaAdminClient
    from kafka.admin import NewPartitions as PythonNewPartitions
    from kafka.admin import NewTopic as PythonNewTopic


@pytest.fixture
def name() -> str:
    return f"client-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def confluent(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture(scope="module")
def python(broker: Broker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield client
    client.close()


def code_of(error: pytest.ExceptionInfo[KafkaException]) -> int:
    return int(error.value.args[0].code())


# confluent-kafka


def test_confluent_topic_life(confluent: AdminClient, name: str) -> None:
    confluent.create_topics([NewTopic(name, 3, 1)])[name].result()
    assert set(confluent.list_topics(name, timeout=10).topics[name].partitions) == {0, 1, 2}
    confluent.create_partitions([NewPartitions(name, 5)])[name].result()
    assert len(confluent.list_topics(name, timeout=10).topics[name].partitions) == 5
    confluent.delete_topics([name])[name].result()
    assert name not in confluent.list_topics(timeout=10).topics


def test_confluent_sees_kafkas_errors(confluent: AdminClient, name: str) -> None:
    confluent.create_topics([NewTopic(name, 1, 1)])[name].result()
    for topic, code in (
        (NewTopic(name, 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(f"{name}-x", 1, 5), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(f"{name}-x", 1, 1, config={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
    ):
        with pytest.raises(KafkaException) as error:
            confluent.create_topics([topic])[topic.topic].result()
        assert code_of(error) == code
    with pytest.raises(KafkaException) as error:
        confluent.delete_topics(["nowhere"])["nowhere"].result()
    assert code_of(error) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_confluent_configs(confluent: AdminClient, name: str) -> None:
    confluent.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "60000"})])[name].result()
    resource = ConfigResource(ResourceType.TOPIC, name)
    [described] = [future.result() for future in confluent.describe_configs([resource]).values()]
    assert described["retention.ms"].value == "60000"
    assert not described["retention.ms"].is_default
    assert described["cleanup.policy"].is_default
    resource.add_incremental_config(
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    )
    for future in confluent.incremental_alter_configs([resource]).values():
        future.result()
    [described] = [future.result() for future in confluent.describe_configs([resource]).values()]
    assert described["cleanup.policy"].value == "delete,compact"


def test_confluent_broker_configs(confluent: AdminClient) -> None:
    resource = ConfigResource(ResourceType.BROKER, "0")
    [described] = [future.result() for future in confluent.describe_configs([resource]).values()]
    assert described["log.retention.hours"].value == "168"
    assert described["log.retention.hours"].is_read_only
    resource.add_incremental_config(
        ConfigEntry("num.partitions", "3", incremental_operation=AlterConfigOpType.SET)
    )
    with pytest.raises(KafkaException) as error:
        [future.result() for future in confluent.incremental_alter_configs([resource]).values()]
    assert code_of(error) == ErrorCode.INVALID_REQUEST


def test_confluent_describes_cluster_and_topics(confluent: AdminClient, name: str) -> None:
    confluent.create_topics([NewTopic(name, 2, 1)])[name].result()
    cluster = confluent.describe_cluster(include_authorized_operations=True).result()
    assert [node.id for node in cluster.nodes] == [cluster.controller.id] == [0]
    assert cluster.authorized_operations


def test_confluent_deletes_records(broker: Broker, confluent: AdminClient, name: str) -> None:
    confluent.create_topics([NewTopic(name, 1, 1)])[name].result()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for index in range(10):
        producer.produce(name, str(index))
    assert producer.flush(10) == 0
    partition = TopicPartition(name, 0, 4)
    [deleted] = [future.result() for future in confluent.delete_records([partition]).values()]
    assert deleted.low_watermark == 4
    earliest = confluent.list_offsets(
        {TopicPartition(name, 0): OffsetSpec.earliest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED
    )
    assert [future.result().offset for future in earliest.values()] == [4]


def test_confluent_deleting_a_topic_deletes_committed_offsets(
    broker: Broker, confluent: AdminClient, name: str
) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
    for committed in (5, -1001):
        confluent.create_topics([NewTopic(name, 1, 1)])[name].result()
        if committed > 0:
            consumer.commit(offsets=[TopicPartition(name, 0, committed)], asynchronous=False)
        [found] = consumer.committed([TopicPartition(name, 0)], timeout=10)
        assert found.offset == committed
        confluent.delete_topics([name])[name].result()
    consumer.close()


# kafka-python


def test_kafka_python_topic_life(python: KafkaAdminClient, name: str) -> None:
    python.create_topics([PythonNewTopic(name, 2, 1)])
    assert name in python.list_topics()
    python.create_partitions({name: PythonNewPartitions(4)})
    [described] = python.describe_topics([name])
    assert len(described["partitions"]) == 4
    python.delete_topics([name])
    assert name not in python.list_topics()


def test_kafka_python_configs(python: KafkaAdminClient, name: str) -> None:
    python.create_topics([PythonNewTopic(name, 1, 1, topic_configs={"retention.ms": "60000"})])
    resource = PythonConfigResource(PythonResourceType.TOPIC, name, {"retention.ms": "70000"})
    python.alter_configs([resource])
    described = str(python.describe_configs([PythonConfigResource(PythonResourceType.TOPIC, name)]))
    assert "70000" in described


def test_kafka_python_describes_the_cluster_and_its_disks(python: KafkaAdminClient, broker: Broker) -> None:
    cluster = python.describe_cluster()
    assert [each.get("node_id", each.get("broker_id")) for each in cluster["brokers"]] == [0]
    assert str(broker.data) in str(python.describe_log_dirs())
