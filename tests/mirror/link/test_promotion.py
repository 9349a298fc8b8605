"""Promotion, failover and failback, with real brokers and without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import Producer

pytest.importorskip("pyarrow")

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.mirror.link.promotion import Behind, lost_by_failback, make_old_side_a_mirror, promote
from ottla.mirror.link.settings import LinkSettings, parse_link
from ottla.mirror.link.topics import LinkTopics, lags
from ottla.testing import Broker
from tests.mirror.link.clusters import LINK, copy, create_mirror, log_bytes, produce, settings

Pair = tuple[Broker, Broker]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Broker() as a, Broker() as b:
        yield a, b


@pytest.fixture
def clusters(pair: Pair) -> Iterator[tuple[Cluster, Cluster]]:
    with ExitStack() as stack:
        yield tuple(stack.enter_context(closing(Cluster(settings(each)))) for each in pair)  # type: ignore[misc]


def link(pair: Pair, *, reverse: bool = False) -> LinkSettings:
    properties = {
        "link.name": LINK,
        "clusters": "a, b",
        "a.bootstrap.servers": pair[0].bootstrap_servers,
        "b.bootstrap.servers": pair[1].bootstrap_servers,
        "a->b.enabled": "true",
        "topics": "drill.*",
    }
    return parse_link(properties, reverse=reverse)


def test_a_mirror_that_is_behind_is_promoted_only_by_a_fail_over(
    pair: Pair, clusters: tuple[Cluster, Cluster]
) -> None:
    source, target = pair
    source.create_topic("behind")
    produce(source, "behind", [b"a"] * 10)
    create_mirror(source, target, "behind")
    copy(source, target, "behind")
    produce(source, "behind", [b"b"] * 3)
    topic = clusters[1].topics(["behind"])["behind"]
    with pytest.raises(Behind, match="behind-0 lacks 3 records"):
        promote(*clusters, LINK, topic)
    copy(source, target, "behind")  # still a mirror
    produce(source, "behind", [b"c"] * 2)
    assert promote(None, clusters[1], LINK, topic) == {0: 13}
    assert produce(target, "behind", [b"own"]) == []
    with pytest.raises(ClientError, match="not a mirror topic"):
        copy(source, target, "behind")
    assert [record.value for record in target.records("behind")] == [b"a"] * 10 + [b"b"] * 3 + [b"own"]


def test_a_transaction_whose_end_was_not_copied_is_aborted(
    pair: Pair, clusters: tuple[Cluster, Cluster]
) -> None:
    source, target = pair
    source.create_topic("open")
    create_mirror(source, target, "open")
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "transactional.id": "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", b"never committed here")
    producer.flush(30)
    batch = log_bytes(source, "open")
    producer.commit_transaction(30)
    from ottla.client.cluster import TopicPartition
    from ottla.mirror.link.append import mirror_append

    assert mirror_append(clusters[1], LINK, TopicPartition("open", 0), batch).error_code == 0
    topic = clusters[1].topics(["open"])["open"]
    assert promote(None, clusters[1], LINK, topic) == {0: 1}
    [lag] = lags(clusters[1], clusters[1], [topic])  # the last stable offset equals the end offset again
    assert lag.source_end == lag.target_end == 2


def test_fail_over_and_come_back(pair: Pair, clusters: tuple[Cluster, Cluster]) -> None:
    a, b = pair
    a.create_topic("drill")
    produce(a, "drill", [b"1", b"2"])
    assert LinkTopics(link(pair), *clusters).prepare() == {"drill": 1}
    copy(a, b, "drill")
    produce(a, "drill", [b"lost"])
    promote(None, clusters[1], LINK, clusters[1].topics(["drill"])["drill"])
    produce(b, "drill", [b"3"])
    [lost] = lost_by_failback(*clusters, "drill")
    assert lost.records == 1
    back = link(pair, reverse=True)
    assert (back.name, back.flow.name) == ("b-a", "b->a")
    topics = LinkTopics(back, clusters[1], clusters[0])
    make_old_side_a_mirror(topics, *clusters, "drill")
    assert topics.prepare() == {"drill": 1}
    copy(b, a, "drill", link=back.name)
    assert log_bytes(a, "drill") == log_bytes(b, "drill")
    assert len(produce(a, "drill", [b"refused"])) == 1
    promote(clusters[1], clusters[0], back.name, clusters[0].topics(["drill"])["drill"])
    assert produce(a, "drill", [b"4"]) == []
    assert [record.value for record in a.records("drill")] == [b"1", b"2", b"3", b"4"]
