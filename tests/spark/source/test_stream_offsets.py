"""Stream progress, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.client.cluster import TopicPartition
from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.spark.options import OptionError
from ottla.spark.source.data_loss import DataLoss
from ottla.spark.source.partition_planning import MissingPartition, plan_batch
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.source_options import parse_options
from ottla.spark.source.stream_offsets import StreamOffsets
from ottla.testing import Broker

MakeOffsets = Callable[..., StreamOffsets]

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def progress(broker: Broker) -> Iterator[MakeOffsets]:
    made = []

    def make(**options: Any) -> StreamOffsets:
        given = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "startingOffsets": "earliest",
            "kafka.retry.backoff.ms": "10",
            **{name.replace("__", "."): str(value) for name, value in options.items()},
        }
        if "assign" not in given and "subscribePattern" not in given:
            given.setdefault("subscribe", "orders")
        made.append(StreamOffsets(parse_options(given, streaming=True)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def produce(broker: Broker, count: int, partition: int = 0, topic: str = "orders") -> None:
    for number in range(count):
        broker.produce(topic, b"%d" % number, partition=partition, timestamp=1000 * number)


@pytest.fixture
def broker(fresh_ottla_broker: Broker) -> Broker:
    fresh_ottla_broker.create_topic("orders", partitions=2)
    produce(fresh_ottla_broker, 10)
    return fresh_ottla_broker


def add_partitions(broker: Broker, total: int) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions("orders", total)])["orders"].result(10)


def test_starts_where_the_options_say(broker: Broker, progress: MakeOffsets) -> None:
    assert progress().initial() == {A: 0, B: 0}
    assert progress(startingOffsets="latest").initial() == {A: 10, B: 0}
    exact = '{"orders": {"0": 4, "1": -2}}'
    assert progress(startingOffsets=exact).initial() == {A: 4, B: 0}
    assert progress(assign='{"orders": [0]}', startingTimestamp="3500").initial() == {A: 4}


def test_a_time_that_no_record_has_reached(broker: Broker, progress: MakeOffsets) -> None:
    with pytest.raises(
        OptionError, match=r"No record of orders-1 is as young as startingTimestamp asks \(3500\)"
    ):
        progress(startingTimestamp="3500").initial()
    latest = progress(startingTimestamp="3500", startingOffsetsByTimestampStrategy="latest")
    assert latest.initial() == {A: 4, B: 0}


def test_offsets_must_name_every_partition_and_no_other(broker: Broker, progress: MakeOffsets) -> None:
    with pytest.raises(
        OptionError, match="startingOffsets must name every partition, and orders-1 is not in it"
    ):
        progress(startingOffsets='{"orders": {"0": 4}}').initial()
    with pytest.raises(OptionError, match="startingOffsets names orders-2, which is not read"):
        progress(startingOffsets='{"orders": {"0": 4, "1": 0, "2": 0}}').initial()


def test_topics_that_are_not_there(broker: Broker, progress: MakeOffsets) -> None:
    with pytest.raises(MissingPartition, match=r"^Topic 'invoices' does not exist at 127.0.0.1:"):
        progress(subscribe="orders,invoices").initial()
    with pytest.raises(MissingPartition, match=r"^Partition orders-7 does not exist at 127.0.0.1:"):
        progress(assign='{"orders": [0, 7]}').initial()
    assert progress(subscribePattern="nothing.*").initial() == {}


def test_a_batch_goes_to_the_end_or_as_far_as_it_may(broker: Broker, progress: MakeOffsets) -> None:
    produce(broker, 30, partition=1)
    everything = progress(maxOffsetsPerTrigger=8)
    assert everything.next_end({A: 0, B: 0}, limited=False) == {A: 10, B: 30}
    assert everything.next_end({A: 0, B: 0}, limited=True) == {A: 2, B: 6}
    assert everything.latest == {A: 10, B: 30}


def test_a_small_batch_waits_for_more_but_not_for_ever(broker: Broker, progress: MakeOffsets) -> None:
    waiting = progress(minOffsetsPerTrigger=5, maxTriggerDelay="1h")
    assert waiting.next_end({A: 0, B: 0}, limited=True) == {A: 10, B: 0}
    produce(broker, 4)
    assert waiting.next_end({A: 10, B: 0}, limited=True) == {A: 10, B: 0}
    produce(broker, 1)
    assert waiting.next_end({A: 10, B: 0}, limited=True) == {A: 15, B: 0}
    hasty = progress(minOffsetsPerTrigger=5, maxTriggerDelay="0ms")
    hasty.next_end({A: 14, B: 0}, limited=True)
    assert hasty.next_end({A: 14, B: 0}, limited=True) == {A: 15, B: 0}


def test_what_comes_after_available_now_is_not_read(broker: Broker, progress: MakeOffsets) -> None:
    now = progress(maxOffsetsPerTrigger=6, minOffsetsPerTrigger=6)
    now.stop_at_latest()
    produce(broker, 5)
    produce(broker, 5, partition=1)
    assert now.next_end({A: 0, B: 0}, limited=True) == {A: 6, B: 0}
    assert now.next_end({A: 6, B: 0}, limited=True) == {A: 10, B: 0}
    assert now.next_end({A: 10, B: 0}, limited=True) == {A: 10, B: 0}


def test_new_partitions_are_read_from_their_first_record(broker: Broker, progress: MakeOffsets) -> None:
    going = progress()
    start = going.next_end(going.initial(), limited=False)
    add_partitions(broker, 3)
    produce(broker, 3, partition=2)
    new = TopicPartition("orders", 2)
    end = going.next_end(start, limited=False)
    assert end == {**start, new: 3}
    assert going.ranges(start, end) == [OffsetRange(new, 0, 3)]
    restarted = progress()  # it has not seen the partition appear
    assert restarted.ranges(start, end) == [OffsetRange(new, 0, 3)]


def test_new_topics_of_a_pattern_are_found(broker: Broker, progress: MakeOffsets) -> None:
    going = progress(subscribePattern="ord.*")
    start = going.next_end(going.initial(), limited=False)
    broker.create_topic("ordinary")
    produce(broker, 2, topic="ordinary")
    broker.create_topic("other")
    assert going.next_end(start, limited=False) == {**start, TopicPartition("ordinary", 0): 2}


def test_a_deleted_topic_ends_the_query_or_is_left_behind(
    broker: Broker, progress: MakeOffsets, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("other")
    start = {A: 10, B: 0, TopicPartition("other", 0): 0}
    broker.delete_topic("other")
    with pytest.raises(DataLoss, match=r"^other-0 no longer exists"):
        progress(subscribe="orders,other").next_end(start, limited=False)
    with caplog.at_level(logging.WARNING):
        careless = progress(subscribe="orders,other", failOnDataLoss="false")
        assert careless.next_end(start, limited=False) == {A: 10, B: 0}
    assert "other-0 no longer exists. Some data may have been missed." in caplog.text


def test_a_batch_that_is_run_again_after_its_new_topic_was_deleted(
    broker: Broker, progress: MakeOffsets
) -> None:
    start = {A: 10, B: 0}
    end = {**start, TopicPartition("ordinary", 0): 2}
    with pytest.raises(DataLoss, match=r"^ordinary-0 no longer exists"):
        progress(subscribePattern="ord.*").ranges(start, end)
    assert progress(subscribePattern="ord.*", failOnDataLoss="false").ranges(start, end) == []


def test_a_topic_that_was_made_again(broker: Broker, progress: MakeOffsets) -> None:
    start = {A: 10, B: 0}
    broker.delete_topic("orders")
    broker.create_topic("orders", partitions=2)
    produce(broker, 3)
    with pytest.raises(DataLoss, match="Partition orders-0 ends at offset 3 and was read up to 10"):
        progress().next_end(start, limited=False)
    careless = progress(failOnDataLoss="false")
    end = careless.next_end(start, limited=False)
    assert end == {A: 3, B: 0}
    assert careless.ranges(start, end) == []


def test_progress_is_committed_for_lag_tools(broker: Broker, progress: MakeOffsets) -> None:
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Assigned

    progress(kafka__group__id="pipeline").next_end({A: 6, B: 0}, limited=False)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "pipeline"})
    [committed] = consumer.committed([Assigned("orders", 0)], timeout=20)
    consumer.close()
    assert committed.offset == 6


def test_a_commit_that_fails_does_not_stop_the_query(
    broker: Broker, progress: MakeOffsets, caplog: pytest.LogCaptureFixture
) -> None:
    broker.fail("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED, times=5)
    going = progress(ottla__commit__group="pipeline")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert going.next_end({A: 6, B: 0}, limited=False) == {A: 10, B: 0}
    assert caplog.text.count("The progress of the query is not visible in group 'pipeline'") == 1


def test_a_batch_query_reads_what_lies_between_two_offsets(broker: Broker, progress: MakeOffsets) -> None:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": "orders",
        "startingOffsets": '{"orders": {"0": 3, "1": -2}}',
        "endingOffsets": '{"orders": {"0": 8, "1": -1}}',
    }
    going = progress()
    assert plan_batch(going._cluster, parse_options(options, streaming=False)) == [OffsetRange(A, 3, 8)]
    options["endingOffsets"] = '{"orders": {"0": 12, "1": -1}}'
    with pytest.raises(DataLoss, match="Offset 12 of orders-0 is not there: it ends at 10"):
        plan_batch(going._cluster, parse_options(options, streaming=False))
    options["failOnDataLoss"] = "false"
    assert plan_batch(going._cluster, parse_options(options, streaming=False)) == [OffsetRange(A, 3, 10)]


def test_a_broker_that_is_away_is_waited_for(broker: Broker, progress: MakeOffsets) -> None:
    going = progress()
    broker.drop("Metadata", times=3)
    assert going.next_end({A: 0, B: 0}, limited=False) == {A: 10, B: 0}
    broker.fail("ListOffsets", ErrorCode.LEADER_NOT_AVAILABLE, times=100_000)
    hasty = progress(kafka__default__api__timeout__ms="200")
    with pytest.raises(ClientError, match="LEADER_NOT_AVAILABLE"):
        hasty.next_end({A: 0, B: 0}, limited=False)
