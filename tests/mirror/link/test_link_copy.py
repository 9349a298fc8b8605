"""Offset-preserving copies: batches of one broker's log in another's, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer

pytest.importorskip("pyarrow")

from ottla.client.admin.configs import Resource, alter_configs
from ottla.client.admin.topics import describe_topics
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.mirror.link.append import mirror_append
from ottla.testing import Broker
from tests.mirror.link.clusters import LINK, copy, create_mirror, log_bytes, produce, settings

Pair = tuple[Broker, Broker]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Broker() as a, Broker() as b:
        yield a, b


def mirrored(pair: Pair, topic: str, values: int = 100) -> None:
    source, target = pair
    source.create_topic(topic)
    assert produce(source, topic, [b"%d" % number for number in range(values)]) == []
    create_mirror(source, target, topic)


def test_the_log_is_the_same_byte_for_byte_with_the_same_topic_id(pair: Pair) -> None:
    source, target = pair
    mirrored(pair, "same")
    copied = copy(source, target, "same")
    assert copied.next_offset == 100
    assert log_bytes(target, "same") == log_bytes(source, "same")
    assert target.topic_id("same") == source.topic_id("same")
    produce(source, "same", [b"more"] * 10)
    assert copy(source, target, "same").next_offset == 110
    assert log_bytes(target, "same") == log_bytes(source, "same")
    assert [record.value for record in target.records("same")] == [
        record.value for record in source.records("same")
    ]


def test_aborted_records_and_markers_come_as_they_are_and_open_transactions_do_not(pair: Pair) -> None:
    source, target = pair
    mirrored(pair, "transactions", values=5)
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(30)
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce("transactions", b"committed" if commit else b"aborted")
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    whole = log_bytes(source, "transactions")
    producer.begin_transaction()
    producer.produce("transactions", b"open")
    producer.flush(30)
    copy(source, target, "transactions")
    assert log_bytes(target, "transactions") == whole
    producer.abort_transaction(30)
    copy(source, target, "transactions")
    assert log_bytes(target, "transactions") == log_bytes(source, "transactions")


def test_a_batch_that_comes_twice_is_written_once(pair: Pair) -> None:
    source, target = pair
    mirrored(pair, "twice")
    copy(source, target, "twice")
    before = log_bytes(target, "twice")
    with closing(Cluster(settings(target))) as cluster:
        answer = mirror_append(cluster, LINK, TopicPartition("twice", 0), log_bytes(source, "twice"))
    assert (answer.error_code, answer.log_end_offset) == (1, 100)  # OFFSET_OUT_OF_RANGE
    assert log_bytes(target, "twice") == before


def test_producers_are_refused_also_those_with_transactions(pair: Pair) -> None:
    _, target = pair
    mirrored(pair, "read-only")
    words = "Cannot append records to read-only mirror topic 'read-only'"
    errors = produce(target, "read-only", [b"x"])
    assert len(errors) == 1
    assert "INVALID_REQUEST" in errors[0] or words in errors[0]
    with pytest.raises(Exception, match="read-only mirror topic"):
        target.produce("read-only", b"x")
    producer = Producer({"bootstrap.servers": target.bootstrap_servers, "transactional.id": "refused"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("read-only", b"x")
    with pytest.raises(Exception, match=r".+"):
        producer.commit_transaction(30)
    assert target.records("read-only") == []


def test_only_the_link_of_the_topic_may_append(pair: Pair) -> None:
    source, target = pair
    mirrored(pair, "linked")
    source.create_topic("plain")
    target.create_topic("plain")
    with closing(Cluster(settings(target))) as cluster:
        other = mirror_append(cluster, "other", TopicPartition("linked", 0), log_bytes(source, "linked"))
        plain = mirror_append(cluster, LINK, TopicPartition("plain", 0), log_bytes(source, "linked"))
    assert other.error_message == "Topic 'linked' is a mirror of link 'dr', not 'other'."
    assert plain.error_message == "Topic 'plain' is not a mirror topic."
    assert log_bytes(target, "linked") == log_bytes(target, "plain") == b""


def test_an_existing_topic_cannot_become_a_mirror(pair: Pair) -> None:
    _, target = pair
    target.create_topic("own")
    with (
        closing(Cluster(settings(target))) as cluster,
        pytest.raises(ClientError, match="only be set when a topic is created"),
    ):
        alter_configs(cluster, Resource("topic", "own"), set_={"ottla.mirror.link": LINK}, delete=[])


def test_what_the_source_has_deleted_is_deleted_and_a_new_mirror_starts_where_the_source_does(
    pair: Pair,
) -> None:
    source, target = pair
    mirrored(pair, "deleted")
    for value in (b"a", b"b"):
        produce(source, "deleted", [value])
    copy(source, target, "deleted")
    delete_records(source, "deleted", 100)
    copy(source, target, "deleted")
    with closing(Cluster(settings(target))) as cluster:
        [described] = describe_topics(cluster, ["deleted"], with_offsets=True)
        assert (described.partitions[0].start_offset, described.partitions[0].end_offset) == (100, 102)
    source.create_topic("late")
    produce(source, "late", [b"a"] * 10)
    delete_records(source, "late", 5)  # in the middle of a batch
    create_mirror(source, target, "late")
    copy(source, target, "late")
    with closing(Cluster(settings(target))) as cluster:
        [described] = describe_topics(cluster, ["late"], with_offsets=True)
        assert (described.partitions[0].start_offset, described.partitions[0].end_offset) == (5, 10)
    assert log_bytes(target, "late") == log_bytes(source, "late")


def delete_records(broker: Broker, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([Place(topic, 0, offset)]).values():
        future.result(30)


def test_the_own_leader_epoch_is_above_those_of_the_batches(pair: Pair) -> None:
    source, target = pair
    mirrored(pair, "epochs", values=1)
    batch = bytearray(log_bytes(source, "epochs"))
    batch[12:16] = (7).to_bytes(4, "big")  # not covered by the checksum
    with closing(Cluster(settings(target))) as cluster:
        answer = mirror_append(cluster, LINK, TopicPartition("epochs", 0), bytes(batch))
        assert (answer.error_code, answer.leader_epoch, answer.log_end_offset) == (0, 8, 1)
        batch[0:8], batch[12:16] = (1).to_bytes(8, "big"), (6).to_bytes(4, "big")
        answer = mirror_append(cluster, LINK, TopicPartition("epochs", 0), bytes(batch))
    assert answer.error_message is not None
    assert "has records of leader epoch 7" in answer.error_message
