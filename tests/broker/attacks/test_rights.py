"""Promise: rights on topics, groups and transactional ids open neither broker APIs nor other users' resources."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.security.acls import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from ottla.testing import ZooKeeper
from tests.broker.transactions.wire_producer import NONE, WireProducer, fetch, find_transaction_coordinator
from tests.security.every_api import Names, cases, refusals
from tests.security.sasl_broker import AuthorizedBroker, add_acls, logged_in
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(120)

TOPICS = ("orders", "prices")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def allow(kind: ResourceType, name: str, operation: Operation = Operation.ALL, user: str = "ann") -> Acl:
    return Acl(
        ResourcePattern(kind, name, PatternType.LITERAL),
        Entry(f"User:{user}", "*", operation, Permission.ALLOW),
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizedBroker]:
    """ann may do everything with every topic, group and transactional id; bob only with resources called bob."""
    made = AuthorizedBroker(tmp_path_factory.mktemp("attacked"))
    with made.broker:
        for name in TOPICS:
            made.broker.create_topic(name)
        with WireClient(made.plain) as admin:
            kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
            add_acls(admin, [allow(kind, "*") for kind in kinds])
            add_acls(admin, [allow(kind, "bob", user="bob") for kind in kinds])
            add_acls(admin, [allow(ResourceType.TOPIC, "orders", user="bob")])
            deadline = time.monotonic() + 30
            while find_transaction_coordinator(admin, "x").error_code:
                assert time.monotonic() < deadline
        yield made


@pytest.fixture
def ann(secured: AuthorizedBroker) -> Iterator[Any]:
    with logged_in(secured.sasl, "ann") as client:
        yield client


@pytest.fixture
def bob(secured: AuthorizedBroker) -> Iterator[Any]:
    with logged_in(secured.sasl, "bob") as client:
        yield client


# Broker-only requests (CVE-2018-1288)


@pytest.mark.parametrize(
    "name",
    [
        "1 Fetch of a follower",
        "24 AddPartitionsToTxn of a broker",
        "27 WriteTxnMarkers",
        "83 InitializeShareGroupState",
        "84 ReadShareGroupState",
        "85 WriteShareGroupState",
        "86 DeleteShareGroupState",
        "87 ReadShareGroupStateSummary",
    ],
)
def test_what_brokers_ask_of_each_other_is_refused_to_a_client(
    secured: AuthorizedBroker, ann: Any, name: str
) -> None:
    asked: Any = ann.call(MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in TOPICS]))
    names = Names({topic.name: topic.topic_id for topic in asked.topics})
    [case] = [each for each in cases(names) if each.name == name]
    expected = ErrorCode.TOPIC_AUTHORIZATION_FAILED if name.startswith("1 ") else None
    refused = refusals(ann.call(case.request, case.version))
    assert refused == {expected or ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("version", [12, 17])
def test_a_client_that_calls_itself_a_follower_reads_nothing(
    secured: AuthorizedBroker, ann: Any, version: int
) -> None:
    secured.broker.produce("orders", b"one")
    topic_id = secured.broker.topic_id("orders")
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=0,
        replica_state=ReplicaState(replica_id=0, replica_epoch=1),
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic="orders", topic_id=topic_id, partitions=[asked])],
    )
    [topic] = ann.call(request, version).responses
    [partition] = topic.partitions
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not partition.records


def test_nobody_ends_the_transaction_of_another(secured: AuthorizedBroker, ann: Any, bob: Any) -> None:
    secured.broker.create_topic("bob")
    theirs = WireProducer(bob, "bob", v2=True)
    assert theirs.init() is NONE
    assert theirs.produce("bob", b"precious") is NONE
    marker = WritableTxnMarker(
        producer_id=theirs.producer_id,
        producer_epoch=theirs.epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="bob", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    answer = ann.call(WriteTxnMarkersRequest(markers=[marker]))
    assert refusals(answer) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert theirs.end(commit=True) is NONE
    assert b"precious" in bytes(fetch(bob, "bob").records)


# Transactional batches (CVE-2018-17196)


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("transactional_id", [None, "ann"])
def test_a_transactional_batch_needs_the_right_to_its_own_transactional_id(
    secured: AuthorizedBroker, bob: Any, transactional_id: str | None, v2: bool
) -> None:
    producer = WireProducer(bob, "bob", v2=v2)
    assert producer.init() is NONE
    if not v2:
        assert producer.add("orders", 0) == [NONE]
    before = len(secured.broker.records("orders"))
    refused = producer.produce("orders", b"forged", transactional_id=transactional_id)
    assert refused is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert len(secured.broker.records("orders")) == before
    assert producer.produce("orders", b"honest") is NONE
    assert producer.end(commit=True) is NONE


@pytest.mark.parametrize("v2", [False, True])
def test_nobody_adds_to_the_transaction_of_another(
    secured: AuthorizedBroker, ann: Any, bob: Any, v2: bool
) -> None:
    """The attacker uses its own transactional id with another client's producer id."""
    theirs = WireProducer(ann, f"anns-{v2}", v2=v2)
    mine = WireProducer(bob, "bob", v2=v2)
    assert theirs.init() is NONE
    assert mine.init() is NONE
    if not v2:
        assert theirs.add("prices", 0) == [NONE]
    assert theirs.produce("prices", b"theirs") is NONE
    mine.producer_id, mine.epoch = theirs.producer_id, theirs.epoch
    before = len(secured.broker.records("orders"))
    assert mine.produce("orders", b"forged") is not NONE
    assert len(secured.broker.records("orders")) == before
    assert mine.end(commit=False) is not NONE
    assert theirs.end(commit=True) is NONE


# Look-alike names


def test_a_name_that_looks_like_another_has_no_rights_of_it(tmp_path: Path) -> None:
    names = ("ann", "User:ann", "ann:x", "ann/host", "*", "User:*", "Ann", "ANN", "admin/", "admin:")
    jaas = f"{PLAIN} required " + " ".join(f'user_{name}="{name}-secret"' for name in names) + ";"
    secured = AuthorizedBroker(tmp_path, **{"listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas})
    with secured.broker:
        secured.broker.create_topic("orders")
        with WireClient(secured.plain) as admin:
            add_acls(admin, [allow(ResourceType.TOPIC, "orders")])
        for name in names:
            with logged_in(secured.sasl, name) as client:
                answer: Any = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
                expected = NONE if name == "ann" else ErrorCode.TOPIC_AUTHORIZATION_FAILED
                assert answer.topics[0].error_code == expected, name


# One of three ACLs (CVE-2024-27309)


@pytest.mark.cluster
def test_the_other_acls_stay_when_one_of_three_goes_on_every_broker(
    shared_zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    zookeeper = shared_zookeeper.chroot()
    users = ("ann", "bob", "carl")
    jaas = f"{PLAIN} required " + " ".join(f'user_{name}="{name}-secret"' for name in users) + ";"
    with ExitStack() as stack:
        brokers = [
            AuthorizedBroker(
                tmp_path / str(broker_id),
                **{
                    "broker.id": str(broker_id),
                    "zookeeper.connect": zookeeper.connect,
                    "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
                },
            )
            for broker_id in range(2)
        ]
        for each in brokers:
            stack.enter_context(each.broker)
        brokers[0].broker.create_topic("orders")
        admins = [stack.enter_context(WireClient(each.plain)) for each in brokers]
        clients = [
            {user: stack.enter_context(logged_in(each.sasl, user)) for user in users} for each in brokers
        ]
        add_acls(admins[0], [allow(ResourceType.TOPIC, "orders", user=user) for user in users])

        def may_see() -> list[set[str]]:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
            found = []
            for each in clients:
                answers: dict[str, Any] = {user: client.call(asked) for user, client in each.items()}
                codes = {user: answer.topics[0].error_code for user, answer in answers.items()}
                found.append({u for u, code in codes.items() if code != ErrorCode.TOPIC_AUTHORIZATION_FAILED})
            return found

        until(lambda: may_see() == [{*users}, {*users}])
        for admin, gone, left in ((admins[1], "bob", {"ann", "carl"}), (admins[0], "ann", {"carl"})):
            one = DeleteAclsFilter(
                resource_type_filter=ResourceType.TOPIC,
                resource_name_filter="orders",
                pattern_type_filter=PatternType.LITERAL,
                principal_filter=f"User:{gone}",
                host_filter=None,
                operation=Operation.ANY,
                permission_type=Permission.ANY,
            )
            answer: Any = admin.call(DeleteAclsRequest(filters=[one]))
            assert [len(each.matching_acls) for each in answer.filter_results] == [1]
            until(lambda left=left: may_see() == [left, left])


def until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
