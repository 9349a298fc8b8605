"""Errors."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode

from ..cases import case
from ..client import AgentClient, Client
from ..records import ClientError, Record
from ..topics import MakeTopic
from ..waiting import wait_for
from .test_produce_consume import LARGEST_VALUE, fields, numbered


@case("A message above the topic's limit is refused")
def test_too_large_for_topic(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes="2000")
    assert client.produce(topic, [Record(value=b"fits", partition=0)])[0].error is None
    [delivery] = client.produce(topic, [Record(value=b"x" * 3000, partition=0)])
    assert delivery.error == ErrorCode.MESSAGE_TOO_LARGE
    # The rejected record left no trace, and the broker accepts the next one.
    assert client.produce(topic, [Record(value=b"fits too", partition=0)])[0].error is None
    assert [record.value for record in client.consume(topic, 2)] == [b"fits", b"fits too"]


@case("A message above message.max.bytes is refused")
def test_too_large_for_broker(client: Client, topic: str) -> None:
    [delivery] = client.produce(topic, [Record(value=b"x" * (LARGEST_VALUE + 100), partition=0)])
    assert delivery.error == ErrorCode.MESSAGE_TOO_LARGE


@case("A larger max.message.bytes of the topic wins")
def test_topic_allows_more(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes="4000000")
    value = b"x" * 3_000_000
    assert client.produce(topic, [Record(value=value, partition=0)])[0].error is None
    # More than the fetch limit per partition: the broker always returns the first batch whole.
    assert client.consume(topic, 1)[0].value == value


@case("Describing an unknown topic says so and creates nothing", needs=["describe_topic", "no auto-creation"])
def test_describe_unknown(client: Client, observer: AgentClient, unique: str) -> None:
    with pytest.raises(ClientError) as error:
        client.call("describe_topic", name=unique)
    assert error.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unique not in observer.call("list_topics")


@case("Consuming an unknown topic creates nothing", needs=["no auto-creation"])
def test_consume_unknown(client: AgentClient, observer: AgentClient, unique: str) -> None:
    assert client.call("partitions_for", topic=unique) == []
    assert unique not in observer.call("list_topics")


@case("Producing to an unknown topic creates it")
def test_auto_creation(client: Client, observer: AgentClient, unique: str) -> None:
    records = numbered(5, partition=None)
    deliveries = client.produce(unique, records)
    assert [delivery.error for delivery in deliveries] == [None] * 5
    partitions = observer.call("describe_topic", name=unique)["partitions"]
    read = wait_for(
        lambda: client.consume(unique, 5, partitions=range(len(partitions))), "the records can be read"
    )
    assert sorted(fields(read)) == sorted(fields(records))


@case("A bad record for a compacted topic is refused", needs=["keys"])
def test_compacted_topic_needs_keys(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(cleanup_policy="compact")
    assert client.produce(topic, [Record(key=b"k", value=b"v", partition=0)])[0].error is None
    [delivery] = client.produce(topic, [Record(value=b"no key", partition=0)])
    # Error 87 is newer than some clients, which report an unknown error.
    known = "newer errors" in client.capabilities
    assert delivery.error == (ErrorCode.INVALID_RECORD if known else ErrorCode.UNKNOWN_SERVER_ERROR)


@case("A timestamp that is too far ahead is refused", needs=["timestamps"])
def test_timestamp_too_far_ahead(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_after_max_ms="60000")
    far = 4_000_000_000_000
    [delivery] = client.produce(topic, [Record(value=b"v", partition=0, timestamp=far)])
    assert delivery.error == ErrorCode.INVALID_TIMESTAMP
