"""The benchmark's clusters: result rows, the frames that describe them, and a cluster that loses a leader."""

import io
import struct
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.serial import entity_writer

from bench.measuring.experiment import Row, Scale, topic_on
from bench.measuring.figures import summary
from bench.measuring.table import Measured
from bench.peers.brokers import cpu_seconds, mean_resident_mb, ottla_command
from bench.peers.clusters import ottla_cluster
from bench.rows.cluster_rows import every_experiment, gap_without_leader
from bench.rows.metadata import (
    TOPIC_ALREADY_EXISTS,
    addresses,
    create_on,
    describe,
    leader_port,
    read_metadata,
    wait_until_served,
)


def test_rows_have_names_of_their_own():
    names = [row.name for experiment in every_experiment(Scale()) for row in experiment.rows]
    assert len(names) == len(set(names))


def test_a_row_shows_the_best_the_median_or_the_worst():
    assert [summary([3, 1, 2], "lower", of) for of in ("best", "median", "worst")] == [1, 2, 3]
    assert [summary([3, 1, 2], "higher", of) for of in ("best", "median", "worst")] == [3, 2, 1]
    assert summary([], "lower", "median") is None
    row = Measured(Row("gap", "s", "lower", "worst"), {"Ottla": [1, 2], "Apache Kafka": [10, 8]})
    assert row.ratio == 5


def test_leaders_are_found_in_a_metadata_response():
    partitions = tuple(
        MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=index,
            leader_id=leader,
            leader_epoch=4,
            replica_nodes=(1, 2, 3),
            isr_nodes=isr,
            offline_replicas=(),
        )
        for index, leader, isr in ((0, 2, (2, 3)), (200, -1, ()))
    )
    topic = MetadataResponseTopic(
        error_code=ErrorCode.none,
        name="orders",
        is_internal=False,
        partitions=partitions,
        topic_authorized_operations=-(2**31),
    )
    response = MetadataResponse(
        throttle_time=timedelta(),
        brokers=tuple(MetadataResponseBroker(node_id=n, host="h", port=9000 + n, rack=None) for n in (1, 2)),
        cluster_id="some-cluster",
        controller_id=2,
        topics=(topic,),
        cluster_authorized_operations=-(2**31),
    )
    body = io.BytesIO()
    entity_writer(MetadataResponse)(body, response)
    view = read_metadata(struct.pack(">ib", 1, 0) + body.getvalue())
    assert view.brokers == {1: ("h", 9001), 2: ("h", 9002)}
    assert view.controller == 2
    assert view.partitions == {0: (2, (2, 3)), 200: (-1, ())}


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_a_leader_is_killed_and_comes_back():
    cluster = ottla_cluster(ottla_command())
    try:
        cluster.start()
        assert len(set(cluster.pids)) == 3
        assert len(cluster.all_pids) == 4
        assert cluster.controller() in cluster.members
        assert mean_resident_mb(cluster) > 10
        assert cpu_seconds(cluster.all_pids) > 0
        with topic_on(cluster, 3) as topic:
            view = describe(cluster.bootstrap_servers, topic)
            assert all(set(partition.isr) == {1, 2, 3} for partition in view.partitions.values())
            ports = [leader_port(cluster.bootstrap_servers, topic, index) for index in range(3)]
            assert sorted(ports) == sorted(member.port for member in cluster.members.values())
            assert gap_without_leader(cluster, topic, "SIGKILL") > 0
            assert cluster.running
            wait_until_served(cluster.bootstrap_servers, topic, 3)
        [first, *_] = addresses(cluster.bootstrap_servers)
        assert create_on(first, "placed", [[2, 3], [3, 2]]) == 0
        assert create_on(first, "placed", [[2, 3]]) == TOPIC_ALREADY_EXISTS
        wait_until_served(cluster.bootstrap_servers, "placed", 2)
        leaders = describe(cluster.bootstrap_servers, "placed").partitions
        assert [leaders[index].leader for index in range(2)] == [2, 3]
    finally:
        cluster.stop()
        cluster.remove()
