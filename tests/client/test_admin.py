"""Administration: each request reaches the responsible broker, even while that role moves."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from ottla.client.admin import configs, groups, offsets, reset, topics
from ottla.client.cluster import Cluster, CoordinatorType, TopicPartition
from ottla.client.errors import (
    ClientError,
    GroupNotFound,
    TopicNotFound,
    Unreachable,
    in_kafkas_words,
    refusal,
)
from ottla.client.offsets import commit_offsets
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker

TOPIC = "orders"


@pytest.fixture
def broker(fresh_ottla_broker: Broker) -> Broker:
    fresh_ottla_broker.create_topic(TOPIC, partitions=2)
    return fresh_ottla_broker


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "retry.backoff.ms": "10",
        "default.api.timeout.ms": "5000",
    }
    cluster = Cluster(Settings.from_properties(properties))
    yield cluster
    cluster.close()


def test_a_controller_that_is_another_by_now_is_asked_for_again(broker: Broker, cluster: Cluster) -> None:
    broker.fail("CreateTopics", ErrorCode.NOT_CONTROLLER, times=2)
    topics.create_topic(cluster, "new", partitions=3)
    assert len(topics.describe_topics(cluster, ["new"])[0].partitions) == 3


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
def test_a_coordinator_that_is_not_ready_is_asked_again(
    broker: Broker, cluster: Cluster, error: ErrorCode
) -> None:
    commit_offsets(cluster, "billing", {TopicPartition(TOPIC, 0): 0})
    broker.fail("OffsetFetch", error, times=2)
    assert groups.committed_offsets(cluster, "billing") == {(TOPIC, 0): 0}


def test_a_leader_that_has_moved_is_asked_again(broker: Broker, cluster: Cluster) -> None:
    for value in (b"a", b"b"):
        broker.produce(TOPIC, value, partition=1)
    broker.fail("DeleteRecords", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert offsets.delete_records(cluster, {(TOPIC, 1): 1, (TOPIC, 0): None}) == {
        (TOPIC, 1): 1,
        (TOPIC, 0): 0,
    }
    assert offsets.available_offsets(cluster, [(TOPIC, 1)]) == ({(TOPIC, 1): 1}, {(TOPIC, 1): 2})


def test_what_a_broker_refuses_is_not_asked_again(cluster: Cluster) -> None:
    with pytest.raises(ClientError, match=r"^Topic 'orders' already exists\.$") as refused:
        topics.create_topic(cluster, TOPIC)
    assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused.value.broker_message
    with pytest.raises(TopicNotFound, match=r"Did you mean 'orders'\?"):
        topics.describe_topics(cluster, ["order"])
    with pytest.raises(GroupNotFound):
        groups.describe_group(cluster, "nobody")


def test_settings_are_changed_where_they_belong(cluster: Cluster) -> None:
    topic = configs.Resource("topic", TOPIC)
    configs.alter_configs(cluster, topic, set_={"retention.ms": "1000"})
    assert topics.describe_topics(cluster, [TOPIC], with_configs=True)[0].configs == {"retention.ms": "1000"}
    [broker_id] = cluster.nodes()
    broker = configs.Resource("broker", str(broker_id))
    assert configs.describe_configs(cluster, broker)
    with pytest.raises(ClientError, match=rf"^There is no broker 77; the cluster has {broker_id}\.$"):
        configs.alter_configs(cluster, configs.Resource("broker", "77"), set_={"log.retention.ms": "1"})


def test_the_offsets_of_an_idle_group_are_moved(broker: Broker, cluster: Cluster) -> None:
    for value in (b"a", b"b", b"c"):
        broker.produce(TOPIC, value, partition=0)
    changes = reset.plan_reset(cluster, "billing", reset.Target("latest"), topics=[f"{TOPIC}:0"])
    reset.execute_reset(cluster, changes)
    described = groups.describe_group(cluster, "billing")
    assert (described.state, described.active) == ("Empty", False)
    [row] = groups.group_lag(cluster, described)
    assert (row.topic, row.partition, row.current_offset, row.lag) == (TOPIC, 0, 3, 0)
    groups.delete_groups(cluster, ["billing"])
    assert groups.list_consumer_groups(cluster) == []


def test_coordinators_are_found_for_many_at_once(cluster: Cluster) -> None:
    found = cluster.coordinators(CoordinatorType.GROUP, ["a", "b"])
    assert {key: node.id for key, node in found.items()} == dict.fromkeys("ab", *cluster.nodes())


def test_advice_follows_where_no_broker_can_be_reached() -> None:
    settings = Settings.from_properties({"bootstrap.servers": "127.0.0.1:1;[::1]:1"})
    with pytest.raises(Unreachable) as failure:
        Cluster(settings, advice="Start one.").any_connection()
    assert failure.value.message == (
        "Cannot reach a broker at 127.0.0.1:1,[::1]:1: is it running? Start one."
    )


def test_refusals_are_sentences() -> None:
    assert refusal(ErrorCode.INVALID_PARTITIONS, "must be larger than 0", "Topic 't'").message == (
        "Must be larger than 0."
    )
    assert refusal(9999, None, "Topic 't'").message == "Topic 't': error 9999."
    assert in_kafkas_words(ErrorCode.NON_EMPTY_GROUP).message == "The group is not empty."


def test_an_error_survives_being_sent_to_another_process() -> None:
    error = refusal(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there", "Topic 't'")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.message, copy.code, copy.broker_message) == (error.message, error.code, "it is there")
