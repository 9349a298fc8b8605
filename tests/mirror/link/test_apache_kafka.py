"""A link from Apache Kafka into Ottla, and the reason why the other direction does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

pytest.importorskip("pyarrow")

from bench.peers import apache_kafka
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import LATEST, READ_COMMITTED, EpochEnd, list_offsets
from ottla.client.settings import Settings
from ottla.mirror.errors import CannotMirror, Diverged
from ottla.mirror.link.append import check_target
from ottla.mirror.link.copy import copy_log
from ottla.mirror.link.history import check_ends, check_history
from ottla.mirror.link.settings import parse_link
from ottla.mirror.link.topics import LinkTopics
from ottla.testing import Broker
from tests.mirror.link.clusters import log_bytes, settings

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    data = tmp_path_factory.mktemp("kafka")
    try:
        apache_kafka.kafka_jars()
    except apache_kafka.Unavailable as reason:
        pytest.skip(str(reason))
    with apache_kafka.ApacheKafka(data=data) as running:
        yield running.bootstrap_servers, data


def test_kafkas_log_is_the_same_here(kafka: tuple[str, Path]) -> None:
    address, data = kafka
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    producer = Producer({"bootstrap.servers": address, "transactional.id": "x", "compression.type": "lz4"})
    producer.init_transactions(60)
    for commit in (True, False, True):
        producer.begin_transaction()
        for number in range(200):
            producer.produce("t", b"%d" % number)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    with Broker() as target:
        properties = {
            "clusters": "kafka, ottla",
            "kafka.bootstrap.servers": address,
            "ottla.bootstrap.servers": target.bootstrap_servers,
            "kafka->ottla.enabled": "true",
            "topics": "t",
        }
        link = parse_link(properties)
        source = Settings.from_properties({"bootstrap.servers": address})
        with closing(Cluster(source)) as here, closing(Cluster(settings(target))) as there:
            assert LinkTopics(link, here, there).prepare() == {"t": 1}
            assert there.topics(["t"])["t"].topic_id == here.topics(["t"])["t"].topic_id
            place = TopicPartition("t", 0)
            end = list_offsets(here, {place: LATEST}, READ_COMMITTED)[place].offset
        assert (
            copy_log(source, settings(target), link.name, place, end, skip_gaps=False).next_offset
            == end
            == 603
        )
        # The second run asks Kafka whether it still has the copied records.
        producer.begin_transaction()
        producer.produce("t", b"more")
        producer.commit_transaction(30)
        assert copy_log(source, settings(target), link.name, place, 605, skip_gaps=False).next_offset == 605
        with closing(Cluster(source)) as here, closing(Cluster(settings(target))) as there:
            assert check_history(here, there, [place])[place] >= 0
            with pytest.raises(Diverged, match="t-0 of the source has lost"):
                check_ends(here, {place: EpochEnd(0, 606)})
            with pytest.raises(Diverged, match="records copied up to offset 604 in leader epoch 9"):
                check_ends(here, {place: EpochEnd(9, 605)})
        [segment] = data.glob("**/t-0/*.log")
        assert log_bytes(target, "t") == segment.read_bytes()
        [copied] = (target.data / "t-0").glob("*.log")
        dumps = [
            apache_kafka.run_tool(apache_kafka.DUMP_LOG, ["--print-data-log", "--files", str(each)]).stdout
            for each in (segment, copied)
        ]
        first, second = (dump[dump.index("Log starting offset") :] for dump in dumps)
        assert first == second
        assert first.count("baseOffset") >= 6


def test_a_target_that_is_no_ottla_is_refused_with_a_sentence(kafka: tuple[str, Path]) -> None:
    settings_ = Settings.from_properties({"bootstrap.servers": kafka[0]})
    with closing(Cluster(settings_)) as cluster, pytest.raises(CannotMirror, match="only Ottla can"):
        check_target(cluster.any_connection())
