"""Promise: every API denies operations that no ACL allows and permits operations that an ACL allows."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
)
from confluent_kafka.admin import ResourceType as AdminResourceType

from ottla.broker.apis import served_keys
from ottla.broker.lifecycle.server import StartupError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    cluster,
    consumer_groups,
    fetch,
    groups,
    share_fetch,
    share_groups,
    topics,
)
from ottla.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from ottla.security.acls import (
    CLUSTER_NAME,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.testing import Broker
from tests.security.every_api import FREE, SILENT, Names, cases, refusals
from tests.security.sasl_broker import EVERY_ACL, AuthorizedBroker, add_acls, logged_in, remove_all_acls
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(120)

Op, R = Operation, ResourceType
TOPICS = ("orders", "prices")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizedBroker]:
    made = AuthorizedBroker(tmp_path_factory.mktemp("acls"))
    with made.broker:
        for name in TOPICS:
            made.broker.create_topic(name, partitions=1)
        with WireClient(made.plain) as client:  # so that coordinators exist
            for kind, key in ((0, "g"), (1, "x")):
                wait_for_coordinator(client, kind, key)
        yield made


@pytest.fixture
def admin(secured: AuthorizedBroker) -> Iterator[WireClient]:
    with WireClient(secured.plain) as client:
        remove_all_acls(client)
        yield client
        remove_all_acls(client)


@pytest.fixture
def ann(secured: AuthorizedBroker) -> Iterator[WireClient]:
    with logged_in(secured.sasl, "ann") as client:
        yield client


def wait_for_coordinator(client: WireClient, kind: int, key: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        request = cluster.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer: Any = client.call(request, 4)
        if answer.coordinators[0].error_code == 0:
            return
        assert time.monotonic() < deadline, answer


def allow(
    operation: Operation,
    kind: ResourceType,
    name: str = CLUSTER_NAME,
    *,
    principal: str = "User:ann",
    prefixed: bool = False,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
) -> Acl:
    pattern = ResourcePattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    return Acl(pattern, Entry(principal, host, operation, permission))


def names_of(client: WireClient) -> Names:
    answer: Any = client.call(
        cluster.MetadataRequest(topics=[cluster.MetadataRequestTopic(name=name) for name in TOPICS])
    )
    return Names({topic.name: topic.topic_id for topic in answer.topics})


# -- every API ----------------------------------------------------------------------------------------------

_ALL_TOPICS = "*"
_DESCRIBE_TOPICS = [(Op.DESCRIBE, R.TOPIC, _ALL_TOPICS)]
_READ_TOPICS = [(Op.READ, R.TOPIC, _ALL_TOPICS)]
_GROUPS = [(Op.READ, R.GROUP, "*")]
_DESCRIBE_GROUPS = [(Op.DESCRIBE, R.GROUP, "*")]
_WRITE_X = [(Op.WRITE, R.TRANSACTIONAL_ID, "x")]


def _cluster(operation: Operation) -> list[tuple[Operation, ResourceType, str]]:
    return [(operation, R.CLUSTER, CLUSTER_NAME)]


# Rights that each API needs, keyed by API key, or by the case name where a case differs.
RIGHTS: dict[int | str, list[tuple[Operation, ResourceType, str]]] = {
    0: [(Op.WRITE, R.TOPIC, "*")],
    "0 Produce transactional": [(Op.WRITE, R.TOPIC, "*"), *_WRITE_X],
    1: _READ_TOPICS,
    "1 Fetch of a follower": _cluster(Op.CLUSTER_ACTION),
    2: _DESCRIBE_TOPICS,
    3: _DESCRIBE_TOPICS,
    8: [*_GROUPS, *_READ_TOPICS],
    9: [*_DESCRIBE_GROUPS, *_DESCRIBE_TOPICS],
    10: _DESCRIBE_GROUPS,
    "10 FindCoordinator of a transactional id": [(Op.DESCRIBE, R.TRANSACTIONAL_ID, "x")],
    11: _GROUPS,
    12: _GROUPS,
    13: _GROUPS,
    14: _GROUPS,
    15: _DESCRIBE_GROUPS,
    19: [*_cluster(Op.CREATE), (Op.DESCRIBE_CONFIGS, R.TOPIC, "*")],
    20: [(Op.DELETE, R.TOPIC, "*")],
    21: [(Op.DELETE, R.TOPIC, "*")],
    "22 InitProducerId transactional": _WRITE_X,
    "22 InitProducerId idempotent": _cluster(Op.IDEMPOTENT_WRITE),
    23: _DESCRIBE_TOPICS,
    "24 AddPartitionsToTxn of a broker": _cluster(Op.CLUSTER_ACTION),
    25: [*_WRITE_X, *_GROUPS],
    26: _WRITE_X,
    27: _cluster(Op.CLUSTER_ACTION),
    28: [*_WRITE_X, *_GROUPS, *_READ_TOPICS],
    29: _cluster(Op.DESCRIBE),
    30: _cluster(Op.ALTER),
    31: _cluster(Op.ALTER),
    32: [
        *_cluster(Op.DESCRIBE_CONFIGS),
        (Op.DESCRIBE_CONFIGS, R.TOPIC, "*"),
        (Op.DESCRIBE_CONFIGS, R.GROUP, "*"),
    ],
    33: [*_cluster(Op.ALTER_CONFIGS), (Op.ALTER_CONFIGS, R.TOPIC, "*"), (Op.ALTER_CONFIGS, R.GROUP, "*")],
    34: _cluster(Op.ALTER),
    35: _cluster(Op.DESCRIBE),
    38: [(Op.CREATE_TOKENS, R.USER, "User:cat")],
    37: [(Op.ALTER, R.TOPIC, "*")],
    42: [(Op.DELETE, R.GROUP, "*")],
    43: _cluster(Op.ALTER),
    44: [*_cluster(Op.ALTER_CONFIGS), (Op.ALTER_CONFIGS, R.TOPIC, "*"), (Op.ALTER_CONFIGS, R.GROUP, "*")],
    45: _cluster(Op.ALTER),
    46: _cluster(Op.DESCRIBE),
    47: [(Op.DELETE, R.GROUP, "*"), *_READ_TOPICS],
    48: _cluster(Op.DESCRIBE_CONFIGS),
    49: _cluster(Op.ALTER_CONFIGS),
    50: _cluster(Op.DESCRIBE),
    51: _cluster(Op.ALTER),
    57: _cluster(Op.ALTER),
    61: _READ_TOPICS,
    64: _cluster(Op.ALTER),
    65: [(Op.DESCRIBE, R.TRANSACTIONAL_ID, "*")],
    68: [*_GROUPS, *_DESCRIBE_TOPICS],
    69: _DESCRIBE_GROUPS,
    74: _cluster(Op.DESCRIBE_CONFIGS),
    75: _DESCRIBE_TOPICS,
    76: [*_GROUPS, *_DESCRIBE_TOPICS],
    77: _DESCRIBE_GROUPS,
    78: [*_GROUPS],
    79: [*_GROUPS],
    83: _cluster(Op.CLUSTER_ACTION),
    84: _cluster(Op.CLUSTER_ACTION),
    85: _cluster(Op.CLUSTER_ACTION),
    86: _cluster(Op.CLUSTER_ACTION),
    87: _cluster(Op.CLUSTER_ACTION),
    88: [*_GROUPS, *_DESCRIBE_TOPICS],
    89: _DESCRIBE_GROUPS,
    90: [*_DESCRIBE_GROUPS, *_DESCRIBE_TOPICS],
    91: [*_GROUPS, *_READ_TOPICS],
    92: [(Op.DELETE, R.GROUP, "*")],  # the request names topics within a group, see below
    93: [*_GROUPS],
    10001: [(Op.ALTER, R.TOPIC, "*")],
}
NAMES = [case.name for case in cases(Names(dict.fromkeys(TOPICS, bytes(16))))]
# The broker denies internal topics regardless of ACLs.
ALWAYS_REFUSED = "24 AddPartitionsToTxn of a client"


def test_every_api_that_is_served_is_tried() -> None:
    tried = {case.key for case in cases(Names(dict.fromkeys(TOPICS, bytes(16))))}
    assert served_keys().keys() - FREE - tried == set()


def test_a_super_user_is_never_refused(secured: AuthorizedBroker, admin: WireClient) -> None:
    names = names_of(admin)
    with logged_in(secured.sasl, "admin") as client:
        for case in cases(names):
            if case.name != ALWAYS_REFUSED:
                assert refusals(client.call(case.request, case.version)) == set(), case.name


def test_who_has_no_rights_is_refused_or_shown_nothing(admin: WireClient, ann: WireClient) -> None:
    for case in cases(names_of(admin)):
        response = ann.call(case.request, case.version)
        if case.name in SILENT:
            assert refusals(response) == set(), case.name
            for name in TOPICS:
                assert name not in repr(response), case.name
        else:
            assert refusals(response), (case.name, response)


@pytest.mark.parametrize(
    "name", [name for name in dict.fromkeys(NAMES) if name not in {*SILENT, ALWAYS_REFUSED}]
)
def test_each_api_needs_its_rights_and_no_others(admin: WireClient, ann: WireClient, name: str) -> None:
    case = next(each for each in cases(names_of(admin)) if each.name == name)
    needed = RIGHTS.get(name) or RIGHTS[case.key]
    add_acls(admin, [allow(*right) for right in needed])
    answer = ann.call(case.request, case.version)
    assert refusals(answer) == set(), answer
    for missing in needed:
        remove_all_acls(admin)
        add_acls(admin, [allow(*right) for right in needed if right != missing])
        answer = ann.call(case.request, case.version)
        assert refusals(answer), (missing, answer)


def test_topics_of_a_share_group_are_read_acknowledged_and_forgotten_by_those_who_may_read_them(
    admin: WireClient, ann: WireClient
) -> None:
    ids = names_of(admin).topics
    member = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
    join = share_groups.ShareGroupHeartbeatRequest(
        group_id="shared", member_id=member, member_epoch=0, subscribed_topic_names=list(TOPICS)
    )
    assert admin.call(join).error_code == 0  # type: ignore[attr-defined]
    add_acls(admin, [allow(Op.ALL, R.GROUP, "shared"), allow(Op.READ, R.TOPIC, "orders")])
    fetched: Any = ann.call(
        share_fetch.ShareFetchRequest(
            group_id="shared",
            member_id=member,
            share_session_epoch=0,
            max_wait_ms=0,
            max_bytes=1000,
            max_records=10,
            topics=[
                share_fetch.FetchTopic(
                    topic_id=each, partitions=[share_fetch.FetchPartition(partition_index=0)]
                )
                for each in ids.values()
            ],
        )
    )
    told = {topic.topic_id: topic.partitions[0].error_code for topic in fetched.responses}
    assert told.get(ids["prices"]) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert told.get(ids["orders"], 0) == 0
    batch = share_fetch.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    partition = share_fetch.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
    acknowledged: Any = ann.call(
        share_fetch.ShareAcknowledgeRequest(
            group_id="shared",
            member_id=member,
            share_session_epoch=1,
            topics=[share_fetch.AcknowledgeTopic(topic_id=ids["prices"], partitions=[partition])],
        )
    )
    [answer] = acknowledged.responses[0].partitions
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    join.member_epoch = -1
    assert admin.call(join).error_code == 0  # type: ignore[attr-defined]
    forgotten: Any = ann.call(
        share_groups.DeleteShareGroupOffsetsRequest(
            group_id="shared",
            topics=[share_groups.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in TOPICS],
        )
    )
    assert {each.topic_name: each.error_code for each in forgotten.responses} == {
        "orders": 0,
        "prices": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }


def test_who_may_see_a_topic_but_not_delete_it_learns_that_it_is_not_there(
    admin: WireClient, ann: WireClient
) -> None:
    add_acls(admin, [allow(Op.DESCRIBE, R.TOPIC, "*")])
    asked = [topics.DeleteTopicState(name=name) for name in ("orders", "never made")]
    answer: Any = ann.call(topics.DeleteTopicsRequest(topics=asked, timeout_ms=10_000))
    assert {each.name: each.error_code for each in answer.responses} == {
        "orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "never made": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


# -- information in refusals ----------------------------------------------------------------------------------


def test_a_topic_that_one_may_not_see_looks_like_one_that_is_not_there(
    admin: WireClient, ann: WireClient
) -> None:
    asked = [cluster.MetadataRequestTopic(name=name) for name in ("orders", "never made")]
    answer: Any = ann.call(cluster.MetadataRequest(topics=asked, allow_auto_topic_creation=True))
    for topic in answer.topics:
        assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (topic.topic_id, topic.partitions, topic.is_internal) == (bytes(16), [], False)
    by_id = [cluster.MetadataRequestTopic(topic_id=names_of(admin).topics["orders"], name=None)]
    [topic] = ann.call(cluster.MetadataRequest(topics=by_id)).topics  # type: ignore[attr-defined]
    assert (topic.error_code, topic.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def test_creating_by_asking_needs_the_right_to_create(admin: WireClient, ann: WireClient) -> None:
    asked = cluster.MetadataRequest(
        topics=[cluster.MetadataRequestTopic(name="made-by-asking")], allow_auto_topic_creation=True
    )
    add_acls(admin, [allow(Op.DESCRIBE, R.TOPIC, "made-", prefixed=True)])
    [topic] = ann.call(asked).topics  # type: ignore[attr-defined]
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    add_acls(admin, [allow(Op.CREATE, R.TOPIC, "made-by-asking")])
    [topic] = ann.call(asked).topics  # type: ignore[attr-defined]
    assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_topic_is_created_without_telling_its_configs(admin: WireClient, ann: WireClient) -> None:
    add_acls(admin, [allow(Op.CREATE, R.TOPIC, "quiet")])
    wanted = topics.CreatableTopic(name="quiet", num_partitions=1, replication_factor=1)
    request = topics.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    [topic] = ann.call(request).topics  # type: ignore[attr-defined]
    assert (topic.error_code, topic.topic_config_error_code) == (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, [])


def test_lists_hold_what_one_may_see(secured: AuthorizedBroker, admin: WireClient, ann: WireClient) -> None:
    for group in ("seen", "unseen"):
        consumer = Consumer({"bootstrap.servers": secured.plain, "group.id": group})
        consumer.commit(offsets=[_offset("orders")], asynchronous=False)
        consumer.close()
    add_acls(admin, [allow(Op.READ, R.GROUP, "seen"), allow(Op.WRITE, R.TOPIC, "ord", prefixed=True)])
    listed: Any = ann.call(groups.ListGroupsRequest())
    assert [group.group_id for group in listed.groups] == ["seen"]
    shown: Any = ann.call(cluster.MetadataRequest(topics=None))
    assert [topic.name for topic in shown.topics] == ["orders"]
    add_acls(admin, [allow(Op.DESCRIBE, R.CLUSTER)])
    listed = ann.call(groups.ListGroupsRequest())
    assert {"seen", "unseen"} <= {group.group_id for group in listed.groups}


def _offset(topic: str) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, 0, 0)


def test_operations_that_one_may_carry_out_are_told(admin: WireClient, ann: WireClient) -> None:
    add_acls(admin, [allow(Op.READ, R.TOPIC, "orders"), allow(Op.ALTER_CONFIGS, R.TOPIC, "orders")])
    asked = [cluster.MetadataRequestTopic(name="orders")]
    request = cluster.MetadataRequest(
        topics=asked, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    answer: Any = ann.call(request, 10)
    bits = sum(1 << each for each in (Op.READ, Op.DESCRIBE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS))
    assert answer.topics[0].topic_authorized_operations == bits
    assert answer.cluster_authorized_operations == 0
    everything: Any = admin.call(request, 10)
    assert everything.topics[0].topic_authorized_operations == 3576
    assert everything.cluster_authorized_operations == 8096


def test_a_pattern_matches_only_topics_that_the_member_may_see(admin: WireClient, ann: WireClient) -> None:
    add_acls(admin, [allow(Op.READ, R.GROUP, "by-pattern"), allow(Op.DESCRIBE, R.TOPIC, "prices")])
    orders, prices = (names_of(admin).topics[name] for name in TOPICS)
    request = consumer_groups.ConsumerGroupHeartbeatRequest(
        group_id="by-pattern",
        member_id="m1",
        member_epoch=0,
        subscribed_topic_regex="orders|prices",
        topic_partitions=[],
        rebalance_timeout_ms=10_000,
    )
    answer: Any = ann.call(request, 1)
    assert answer.error_code == 0, answer
    assert [part.topic_id for part in answer.assignment.topic_partitions] == [prices]
    assert orders != prices
    request.member_epoch = -1
    ann.call(request, 1)


# -- revoked rights -------------------------------------------------------------------------------------------


def consume(topic: str, max_wait_ms: int, session: int = 0, epoch: int = -1) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)
    return fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=100_000,
        session_id=session,
        session_epoch=epoch,
        topics=[fetch.FetchTopic(topic=topic, partitions=[partition])] if epoch <= 0 else [],
    )


def test_a_waiting_fetch_gets_nothing_after_its_right_is_taken_away(
    secured: AuthorizedBroker, admin: WireClient, ann: WireClient
) -> None:
    secured.broker.create_topic("revoked", partitions=1)
    add_acls(admin, [allow(Op.READ, R.TOPIC, "revoked")])
    request = consume("revoked", max_wait_ms=30_000)
    ann.send(request, 12)
    deadline = time.monotonic() + 30
    while not secured.broker.waiting_fetches("revoked"):
        assert time.monotonic() < deadline
    remove_all_acls(admin)
    producer = Producer({"bootstrap.servers": secured.plain})
    producer.produce("revoked", b"secret")
    assert producer.flush(30) == 0
    answer: Any = ann.receive(request, 12)
    [partition] = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not partition.records


def test_a_fetch_session_does_not_outlive_a_right(
    secured: AuthorizedBroker, admin: WireClient, ann: WireClient
) -> None:
    producer = Producer({"bootstrap.servers": secured.plain})
    producer.produce("orders", b"public")
    assert producer.flush(30) == 0
    add_acls(admin, [allow(Op.READ, R.TOPIC, "orders")])
    first: Any = ann.call(consume("orders", 0, epoch=0), 12)
    assert first.responses[0].partitions[0].records
    remove_all_acls(admin)
    again: Any = ann.call(consume("orders", 0, first.session_id, 1), 12)
    [partition] = again.responses[0].partitions
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not partition.records


def test_real_clients_are_told_what_they_may_not_do(secured: AuthorizedBroker, admin: WireClient) -> None:
    producer = Producer({**secured.client_config("ann"), "message.timeout.ms": 10_000})
    failures: list[KafkaError | None] = []
    producer.produce("orders", b"v", on_delivery=lambda error, _: failures.append(error))
    producer.flush(30)
    [failure] = failures
    assert failure is not None
    assert failure.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    add_acls(admin, [allow(Op.WRITE, R.TOPIC, "orders")])
    producer = Producer(secured.client_config("ann"))  # librdkafka caches a denial for a while
    producer.produce("orders", b"v", on_delivery=lambda error, _: failures.append(error))
    producer.flush(30)
    assert failures[-1] is None
    consumer = Consumer({**secured.client_config("ann"), "group.id": "of-ann"})
    consumer.subscribe(["orders"])
    message = consumer.poll(30)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()


# -- ACLs themselves ------------------------------------------------------------------------------------------


def test_acls_are_made_found_and_removed_by_an_admin_client(
    secured: AuthorizedBroker, admin: WireClient
) -> None:
    client = AdminClient(secured.client_config("admin"))
    wanted = [
        AclBinding(
            AdminResourceType.TOPIC, "ord", ResourcePatternType.PREFIXED, "User:ann", "*", operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE)
    ]  # fmt: skip
    for _ in range(2):  # adding an existing ACL is no error
        for created in client.create_acls(wanted).values():
            created.result(30)
    applies = AclBindingFilter(
        AdminResourceType.TOPIC, "orders", ResourcePatternType.MATCH, None, None, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    assert sorted(client.describe_acls(applies).result(30)) == sorted(wanted)
    one = AclBindingFilter(
        AdminResourceType.TOPIC, "ord", ResourcePatternType.PREFIXED, "User:ann", "*", AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    [removed] = client.delete_acls([one]).values()
    assert removed.result(30) == [wanted[1]]
    assert sorted(client.describe_acls(applies).result(30)) == sorted([wanted[0], wanted[2]])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"resource_type": 4, "resource_name": "mine"}, "only valid name for the CLUSTER resource"),
        ({"resource_name": ""}, "should not be empty"),
        ({"resource_name": "a/b"}, "invalid resource name"),
        ({"resource_pattern_type": 1}, "PatternType"),
        ({"resource_pattern_type": 2}, "PatternType"),
        ({"resource_type": 1}, "ResourceType"),
        ({"operation": 1}, "Operation"),
        ({"operation": 99}, "Operation"),
        ({"permission_type": 0}, "Permission"),
        ({"principal": "ann"}, "no colon"),
    ],
)
def test_an_acl_that_means_nothing_is_refused(
    admin: WireClient, changes: dict[str, Any], reason: str
) -> None:
    good = {
        "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:ann", "host": "*",
        "operation": 3, "permission_type": 3,
    }  # fmt: skip
    creations = [AclCreation(**{**good, **changes}), AclCreation(**good)]
    bad, fine = admin.call(CreateAclsRequest(creations=creations)).results  # type: ignore[attr-defined]
    assert bad.error_code == ErrorCode.INVALID_REQUEST
    assert reason in bad.error_message
    assert fine.error_code == 0
    assert remove_all_acls(admin) == 1


def test_a_filter_that_means_nothing_is_refused(admin: WireClient) -> None:
    asked = {"resource_type_filter": 99, "operation": 1, "permission_type": 1}
    described: Any = admin.call(DescribeAclsRequest(**asked))
    assert described.error_code == ErrorCode.INVALID_REQUEST
    deleted: Any = admin.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**asked)]))
    assert deleted.filter_results[0].error_code == ErrorCode.INVALID_REQUEST


def test_deny_and_hosts_and_wildcards_decide(secured: AuthorizedBroker, admin: WireClient) -> None:
    def may_read(user: str) -> bool:
        with logged_in(secured.sasl, user) as client:
            answer: Any = client.call(consume("orders", 0), 12)
            return bool(answer.responses[0].partitions[0].error_code == 0)

    add_acls(admin, [allow(Op.ALL, R.TOPIC, "*", principal="User:*")])
    assert may_read("ann")
    assert may_read("bob")
    add_acls(admin, [allow(Op.READ, R.TOPIC, "ord", prefixed=True, permission=Permission.DENY)])
    assert not may_read("ann")
    assert may_read("bob")
    add_acls(
        admin,
        [
            allow(Op.READ, R.TOPIC, "orders", principal="User:bob", permission=Permission.DENY, host=host)
            for host in ("10.0.0.1", "127.0.0.2")
        ],
    )
    assert may_read("bob")
    add_acls(
        admin,
        [
            allow(
                Op.READ, R.TOPIC, "orders", principal="User:bob", permission=Permission.DENY, host="127.0.0.1"
            )
        ],
    )
    assert not may_read("bob")


def test_acls_are_there_after_a_restart_and_lie_in_kafkas_nodes(tmp_path: Path) -> None:
    acls = [
        allow(Op.DESCRIBE_CONFIGS, R.TOPIC, "orders"),
        allow(Op.READ, R.TRANSACTIONAL_ID, "x", prefixed=True),
    ]
    made = AuthorizedBroker(tmp_path)
    with made.broker, WireClient(made.plain) as client:
        add_acls(client, acls)
    made = AuthorizedBroker(tmp_path)
    with made.broker, WireClient(made.plain) as client:
        answer: Any = client.call(EVERY_ACL)
        found = [(each.resource_type, each.resource_name, each.pattern_type) for each in answer.resources]
        assert found == [(2, "orders", 3), (5, "x", 4)]
        node = made.broker._run(made.broker._running().broker.store.get("/kafka-acl/Topic/orders"))
        assert json.loads(node.data) == {
            "version": 1,
            "acls": [
                {
                    "principal": "User:ann",
                    "permissionType": "Allow",
                    "operation": "DescribeConfigs",
                    "host": "*",
                }
            ],
        }
        assert remove_all_acls(client) == 2


# -- the audit log --------------------------------------------------------------------------------------------


def test_what_is_denied_is_in_the_audit_log(
    admin: WireClient, ann: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        ann.call(consume("orders", 0), 12)
        ann.call(cluster.MetadataRequest(topics=None))  # the response only omits topics
        admin.call(consume("orders", 0), 12)
    lines = [record.getMessage() for record in caplog.records if record.name == "kafka.authorizer.logger"]
    assert lines == [
        "Principal = User:ann is Denied operation = READ from host = 127.0.0.1 on resource = Topic:LITERAL:orders "
        "for request = FETCH with resourceRefCount = 1 based on rule DefaultDeny"
    ]


# -- settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"authorizer.class.name": "com.example.Mine"}, "authorizer.class.name is com.example.Mine"),
        (
            {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "ann"},
            "super.users cannot be read: 'ann' is not a principal such as User:ann",
        ),
    ],
)
def test_a_broker_with_an_authorizer_that_it_does_not_have_does_not_start(
    config: dict[str, str], reason: str
) -> None:
    with pytest.raises(StartupError, match=reason.replace(".", r"\.")), Broker(config=config):
        pass


def test_without_an_authorizer_acls_are_refused_and_everybody_may_do_everything() -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("orders", partitions=1)
        described: Any = client.call(DescribeAclsRequest(operation=1, permission_type=1))
        assert described.error_code == ErrorCode.SECURITY_DISABLED
        for case in cases(Names({"orders": bytes(16), "prices": bytes(16)})):
            if case.name != ALWAYS_REFUSED and "transactional" not in case.name:
                assert refusals(client.call(case.request, case.version)) == set(), case.name
