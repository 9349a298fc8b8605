"""Administration."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode

from ..cases import case
from ..client import AgentClient, Client
from ..records import ClientError
from ..topics import MakeTopic, is_served
from ..waiting import wait_for
from .test_produce_consume import numbered


def create_topic(client: Client, name: str, **options: Any) -> None:
    defaults: dict[str, Any] = {"partitions": 1, "replication": 1, "configs": {}, "validate_only": False}
    client.call("create_topic", name=name, **(defaults | options))


def code_of(call: Callable[[], Any]) -> int | None:
    with pytest.raises(ClientError) as error:
        call()
    return error.value.code


@case("Create, list, describe and delete a topic", needs=["create_topic", "describe_topic", "delete_topic"])
def test_topic_life(client: Client, observer: AgentClient, unique: str) -> None:
    create_topic(client, unique, partitions=3)
    wait_for(lambda: is_served(observer, unique, 3), "the topic has leaders")
    assert unique in client.call("list_topics")
    topic = client.call("describe_topic", name=unique)
    brokers = [broker[0] for broker in observer.call("describe_cluster")["brokers"]]
    assert [partition["partition"] for partition in topic["partitions"]] == [0, 1, 2]
    for partition in topic["partitions"]:
        assert partition["leader"] in brokers
        assert partition["replicas"] == partition["isr"] == [partition["leader"]]
    client.call("delete_topic", name=unique)
    wait_for(lambda: unique not in client.call("list_topics"), "the topic is gone")


@case("List topics and describe one's partitions", needs=["list_topics", "describe_topic"])
def test_describe_topic(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=4)
    assert topic in client.call("list_topics")
    partitions = client.call("describe_topic", name=topic)["partitions"]
    assert [partition["partition"] for partition in partitions] == [0, 1, 2, 3]
    assert all(partition["leader"] in partition["isr"] for partition in partitions)


@case("A topic that is made again is empty", needs=["create_topic", "delete_topic"])
def test_topic_is_made_again(client: Client, observer: AgentClient, topic: str) -> None:
    observer.produce(topic, numbered(5))
    client.call("delete_topic", name=topic)
    wait_for(lambda: topic not in observer.call("list_topics"), "the topic is gone")
    create_topic(client, topic)
    wait_for(lambda: is_served(observer, topic, 1), "the topic is back")
    assert wait_for(lambda: watermarks(observer, topic), "the new log is served") == [0, 0]


def watermarks(observer: AgentClient, topic: str) -> list[int] | None:
    try:
        found: list[int] = observer.call("watermarks", topic=topic, partition=0)
    except ClientError:
        return None
    return found


@case("Defaults for partitions and replication", needs=["create_topic", "broker defaults"])
def test_broker_defaults(client: Client, observer: AgentClient, unique: str) -> None:
    create_topic(client, unique, partitions=-1, replication=-1)
    broker = observer.call("describe_cluster")["brokers"][0][0]
    configs = observer.call("describe_configs", kind="broker", name=str(broker))
    partitions = int(configs["num.partitions"]["value"])
    wait_for(lambda: is_served(observer, unique, partitions), "the topic has num.partitions")


REFUSED = {
    "an existing topic": ({}, ErrorCode.TOPIC_ALREADY_EXISTS),
    "no partitions": ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
    "more replicas than brokers": ({"replication": 9}, ErrorCode.INVALID_REPLICATION_FACTOR),
    "a bad config value": ({"configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
    "an unknown config": ({"configs": {"no.such.config": "1"}}, ErrorCode.INVALID_CONFIG),
    "a bad name": ({}, ErrorCode.INVALID_TOPIC_EXCEPTION),
}


@case("CreateTopics refuses {what}", needs=["create_topic"], what=[*REFUSED])
def test_create_refused(client: Client, request: pytest.FixtureRequest, unique: str, what: str) -> None:
    options, code = REFUSED[what]
    name = unique
    if what == "an existing topic":
        name = request.getfixturevalue("topic")
    elif what == "a bad name":
        name = "not/a/name"
    assert code_of(lambda: create_topic(client, name, **options)) == code


@case("CreateTopics with validate_only creates nothing", needs=["create_topic"])
def test_validate_only(client: Client, observer: AgentClient, topic: str, unique: str) -> None:
    create_topic(client, unique, validate_only=True)
    existing = code_of(lambda: create_topic(client, topic, validate_only=True))
    assert existing == ErrorCode.TOPIC_ALREADY_EXISTS
    assert unique not in observer.call("list_topics")


@case("Deleting an unknown topic is refused", needs=["delete_topic"])
def test_delete_unknown(client: Client, unique: str) -> None:
    code = code_of(lambda: client.call("delete_topic", name=unique))
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@case("CreatePartitions adds, and never takes away", needs=["create_partitions"])
def test_create_partitions(client: Client, observer: AgentClient, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    client.call("create_partitions", name=topic, total=5)
    wait_for(lambda: is_served(observer, topic, 5), "five partitions")
    code = code_of(lambda: client.call("create_partitions", name=topic, total=3))
    assert code == ErrorCode.INVALID_PARTITIONS


@case("Describe a topic's configuration", needs=["describe_configs"])
def test_describe_topic_configs(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="123456", cleanup_policy="compact")
    configs = client.call("describe_configs", kind="topic", name=topic)
    assert configs["retention.ms"]["value"] == "123456"
    assert configs["cleanup.policy"]["value"] == "compact"
    assert not configs["retention.ms"]["default"]
    assert configs["max.message.bytes"] == {
        "value": "1048588",
        "default": True,
        "read_only": False,
        "sensitive": False,
    }


@case("Describe a broker's configuration", needs=["describe_configs"])
def test_describe_broker_configs(client: Client, observer: AgentClient) -> None:
    broker = observer.call("describe_cluster")["brokers"][0][0]
    configs = client.call("describe_configs", kind="broker", name=str(broker))
    assert configs["message.max.bytes"]["value"] == "1048588"
    assert configs["broker.id" if "broker.id" in configs else "node.id"]["value"] == str(broker)
    assert configs["log.dirs"]["read_only"]


@case("Describing an unknown topic's configuration is refused", needs=["describe_configs", "config errors"])
def test_describe_unknown_configs(client: Client, unique: str) -> None:
    code = code_of(lambda: client.call("describe_configs", kind="topic", name=unique))
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@case("AlterConfigs sets", needs=["alter_configs"])
def test_alter_configs(client: Client, observer: AgentClient, topic: str) -> None:
    client.call("alter_configs", kind="topic", name=topic, configs={"retention.ms": "7200000"})
    wait_for(lambda: value_of(observer, topic, "retention.ms") == "7200000", "the value is set")


@case("AlterConfigs replaces everything that was set", needs=["alter_configs", "replacing alter_configs"])
def test_alter_configs_replaces(client: Client, observer: AgentClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="111111")
    client.call("alter_configs", kind="topic", name=topic, configs={"segment.bytes": "2097152"})
    wait_for(lambda: value_of(observer, topic, "segment.bytes") == "2097152", "the value is set")
    assert value_of(observer, topic, "retention.ms") == "604800000"


@case("IncrementalAlterConfigs sets, deletes, appends, subtracts", needs=["incremental_alter_configs"])
def test_incremental_alter_configs(client: Client, observer: AgentClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="111111", segment_bytes="2097152")

    def change(*changes: tuple[str, str, str | None]) -> None:
        client.call("incremental_alter_configs", kind="topic", name=topic, changes=changes)

    change(("SET", "max.message.bytes", "5000"), ("DELETE", "retention.ms", None))
    wait_for(lambda: value_of(observer, topic, "max.message.bytes") == "5000", "the value is set")
    assert value_of(observer, topic, "retention.ms") == "604800000"
    assert value_of(observer, topic, "segment.bytes") == "2097152"
    change(("APPEND", "cleanup.policy", "compact"))
    policies = {"delete,compact", "compact,delete"}
    wait_for(lambda: value_of(observer, topic, "cleanup.policy") in policies, "the policy is added")
    change(("SUBTRACT", "cleanup.policy", "delete"))
    wait_for(lambda: value_of(observer, topic, "cleanup.policy") == "compact", "the policy is taken away")


@case("IncrementalAlterConfigs refuses a bad value", needs=["incremental_alter_configs"])
def test_incremental_alter_configs_refused(client: Client, topic: str) -> None:
    changes = [("SET", "retention.ms", "soon")]
    code = code_of(
        lambda: client.call("incremental_alter_configs", kind="topic", name=topic, changes=changes)
    )
    assert code == ErrorCode.INVALID_CONFIG


@case("IncrementalAlterConfigs of a group, within the broker's bounds", needs=["incremental_alter_configs"])
def test_incremental_alter_group_configs(client: Client, observer: AgentClient, unique: str) -> None:
    key = "consumer.session.timeout.ms"
    broker = observer.call("describe_cluster")["brokers"][0][0]
    bounds = observer.call("describe_configs", kind="broker", name=str(broker))
    most = int(bounds[f"group.consumer.max.{key.removeprefix('consumer.')}"]["value"])

    def change(operation: str, value: str | None) -> None:
        changes = [(operation, key, value)]
        client.call("incremental_alter_configs", kind="group", name=unique, changes=changes)

    def found() -> str:
        value: str = client.call("describe_configs", kind="group", name=unique)[key]["value"]
        return value

    default = found()
    change("SET", str(most))
    wait_for(lambda: found() == str(most), "the value is set")
    assert code_of(lambda: change("SET", str(most + 1))) == ErrorCode.INVALID_CONFIG
    change("DELETE", None)
    wait_for(lambda: found() == default, "the default is back")


def value_of(observer: AgentClient, topic: str, key: str) -> str:
    value: str = observer.call("describe_configs", kind="topic", name=topic)[key]["value"]
    return value


@case("Describe the cluster", needs=["describe_cluster"])
def test_describe_cluster(client: Client, bootstrap: str) -> None:
    cluster = client.call("describe_cluster")
    assert cluster["id"]
    addresses = sorted(f"{host}:{port}" for _, host, port in cluster["brokers"])
    assert addresses == sorted(bootstrap.split(","))
    assert cluster["controller"] in [broker for broker, *_ in cluster["brokers"]]


@case("List groups", needs=["list_groups", "commit"])
def test_list_groups(client: Client, topic: str, unique: str) -> None:
    client.call("commit", group=unique, topic=topic, offsets=[[0, 0]])
    assert unique in client.call("list_groups")


@case("Describe an empty group", needs=["describe_group", "commit"])
def test_describe_empty_group(client: Client, topic: str, unique: str) -> None:
    client.call("commit", group=unique, topic=topic, offsets=[[0, 0]])
    group = client.call("describe_group", group=unique)
    assert (group["state"], group["members"]) == ("Empty", [])


@case("Offsets of a group", needs=["group_offsets"])
def test_group_offsets(client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=3)
    observer.call("commit", group=unique, topic=topic, offsets=[[0, 0], [2, 7]])
    assert client.call("group_offsets", group=unique) == [[topic, 0, 0], [topic, 2, 7]]


@case("Alter the offsets of a group", needs=["alter_group_offsets"])
def test_alter_group_offsets(client: Client, observer: AgentClient, topic: str, unique: str) -> None:
    observer.produce(topic, numbered(10))
    observer.call("commit", group=unique, topic=topic, offsets=[[0, 9]])
    client.call("alter_group_offsets", group=unique, topic=topic, offsets=[[0, 3]])
    assert observer.call("group_offsets", group=unique) == [[topic, 0, 3]]


@case("Delete offsets of a group", needs=["delete_group_offsets"])
def test_delete_group_offsets(
    client: Client, observer: AgentClient, make_topic: MakeTopic, unique: str
) -> None:
    topic = make_topic(partitions=2)
    observer.call("commit", group=unique, topic=topic, offsets=[[0, 1], [1, 1]])
    client.call("delete_group_offsets", group=unique, topic=topic, partitions=[0])
    assert observer.call("group_offsets", group=unique) == [[topic, 1, 1]]


@case("Delete a group", needs=["delete_group"])
def test_delete_group(client: Client, observer: AgentClient, topic: str, unique: str) -> None:
    observer.call("commit", group=unique, topic=topic, offsets=[[0, 0]])
    client.call("delete_group", group=unique)
    assert unique not in observer.call("list_groups")
    unknown = code_of(lambda: client.call("delete_group", group=f"no-such-group-{uuid.uuid4().hex}"))
    assert unknown == ErrorCode.GROUP_ID_NOT_FOUND


@case("A group with members is not deleted", needs=["delete_group", "groups"])
def test_delete_live_group(client: Client, observer: AgentClient, topic: str, unique: str) -> None:
    member = client.member(unique, topic)
    member.wait_until(lambda: member.assignment == {0}, "the member has its partition")
    assert code_of(lambda: client.call("delete_group", group=unique)) == ErrorCode.NON_EMPTY_GROUP


@case("Describe log directories", needs=["log_dirs"])
def test_log_dirs(client: Client, observer: AgentClient, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    observer.produce(topic, numbered(100))
    directories = [found for found in client.call("log_dirs", topic=topic) if found["partitions"]]
    for directory in directories:
        assert directory["path"].startswith("/")
        assert directory["error"] == 0
    sizes = dict(partition for directory in directories for partition in directory["partitions"])
    assert sizes[0] > 1000
    assert sizes[1] == 0


@case("Describe producers of a partition", needs=["describe_producers"])
def test_describe_producers(client: Client, observer: AgentClient, topic: str) -> None:
    observer.produce(topic, numbered(5), idempotent=True)
    [producer] = client.call("describe_producers", topic=topic, partition=0)
    assert producer["id"] >= 0
    assert (producer["epoch"], producer["last_sequence"]) == (0, 4)
