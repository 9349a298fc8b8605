"""Promise: with an authorizer, every broker allows brokers their own requests, and clients the rights from ACLs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from ottla.client.connection import Connection
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import fetch, share_state, transactions
from ottla.security.acls import Acl, Entry, Operation, Permission, ResourcePattern, ResourceType
from ottla.testing import Cluster
from tests.cluster.live.test_secure_clusters import BROKERS, Secured, set_up
from tests.cluster.load import Load, check_nothing_lost
from tests.security.sasl_broker import AUTHORIZER, add_acls, remove_all_acls
from tests.wire_client import WireClient

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def allow(operation: Operation, kind: ResourceType, name: str) -> Acl:
    return Acl(ResourcePattern(kind, name), Entry("User:ann", "*", operation, Permission.ALLOW))


def may_write(secured: Secured, broker: int) -> bool:
    """Return True if a broker lets ann write, regardless of the leader."""
    settings = Settings.from_properties({**secured.client(), "bootstrap.servers": secured.servers})
    request = transactions.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    with closing(Connection(settings, "localhost", secured.secure[broker])) as connection:
        answer = connection.request(request, transactions.InitProducerIdResponse)
    assert answer.error_code in (0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), answer
    return bool(answer.error_code == 0)


def test_brokers_replicate_and_clients_do_what_acls_allow(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    secured = Secured(tmp_path)
    cluster = new_cluster(
        3,
        config={"authorizer.class.name": AUTHORIZER, "super.users": "User:broker;User:ANONYMOUS"},
    )
    set_up(cluster, secured, ["SASL_SSL"], "SASL_SSL")
    with cluster, WireClient(f"127.0.0.1:{cluster.ports[0]}") as first:
        cluster.create_topic("t", config={"min.insync.replicas": "2"})
        cluster.wait_for_isr("t", BROKERS)
        failures: list[KafkaError | None] = []
        producer = Producer({**secured.client(), "bootstrap.servers": secured.servers})
        producer.produce("t", b"v", on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(60) == 0
        assert failures[0] is not None
        assert failures[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert not any(may_write(secured, broker) for broker in BROKERS)

        add_acls(first, [allow(Operation.WRITE, ResourceType.TOPIC, "t")])
        cluster.wait_until(
            lambda: all(may_write(secured, broker) for broker in BROKERS), "the ACL counts at every broker"
        )
        with Load(secured.servers, "t", **secured.client()) as load:
            load.wait_for(200)
            leader = cluster.leader("t")
            cluster.kill(leader)
            cluster.wait_for_leader("t", other_than=leader)
            load.wait_for(200)
            cluster.restart(leader)
            cluster.wait_for_isr("t", BROKERS)
        check_nothing_lost(cluster, "t", load)
        # The broker that was down has the ACLs as well.
        assert all(may_write(secured, broker) for broker in BROKERS)

        pretends_to_be_a_broker(secured)
        with WireClient(f"127.0.0.1:{cluster.ports[2]}") as last:
            assert remove_all_acls(last) == 1
        cluster.wait_until(
            lambda: not any(may_write(secured, broker) for broker in BROKERS), "it is gone at every broker"
        )


def pretends_to_be_a_broker(secured: Secured) -> None:
    """A client can neither follow, nor end other clients' transactions, nor change share group state."""
    settings = Settings.from_properties({**secured.client(), "bootstrap.servers": secured.servers})
    partition = fetch.FetchPartition(partition=0, partition_max_bytes=1000)
    following = fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=1, replica_epoch=1),
        max_bytes=1000,
        session_epoch=-1,
        topics=[fetch.FetchTopic(topic="t", topic_id=bytes(15) + b"\1", partitions=[partition])],
    )
    marker = transactions.WritableTxnMarker(
        producer_id=1, topics=[transactions.WritableTxnMarkerTopic(name="t", partition_indexes=[0])]
    )
    state = share_state.DeleteStateData(
        topic_id=bytes(15) + b"\1", partitions=[share_state.DeleteStatePartitionData(partition=0)]
    )
    with closing(Connection(settings, "localhost", secured.secure[0])) as connection:
        fetched = connection.request(following, fetch.FetchResponse)
        assert fetched.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        markers = connection.request(
            transactions.WriteTxnMarkersRequest(markers=[marker]), transactions.WriteTxnMarkersResponse
        )
        [told] = markers.markers[0].topics[0].partitions
        assert told.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        added = connection.request(
            transactions.AddPartitionsToTxnRequest(
                transactions=[transactions.AddPartitionsToTxnTransaction(transactional_id="x")]
            ),
            transactions.AddPartitionsToTxnResponse,
        )
        assert added.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        deleted = connection.request(
            share_state.DeleteShareGroupStateRequest(group_id="g", topics=[state]),
            share_state.DeleteShareGroupStateResponse,
        )
        assert deleted.results[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
