"""A broker without security answers like Apache Kafka 4.3.0 without an authorizer and without SASL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.testing import Broker
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Any]:
    with WireClient(broker.bootstrap_servers) as client:
        yield client


@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_are_no_acls(client: Any, version: int) -> None:
    disabled = ErrorCode.SECURITY_DISABLED
    described = client.call(DescribeAclsRequest(operation=1, permission_type=1), version)
    assert (described.error_code, described.resources) == (disabled, [])
    assert described.error_message == "No Authorizer is configured on the broker"
    acl = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3)
    created = client.call(CreateAclsRequest(creations=[acl, acl]), version)
    expected = (disabled, "No Authorizer is configured.")
    assert [(each.error_code, each.error_message) for each in created.results] == [expected] * 2
    deleted = client.call(DeleteAclsRequest(filters=[DeleteAclsFilter()]), version)
    assert [(each.error_code, each.error_message) for each in deleted.filter_results] == [expected]


def test_a_listener_without_sasl_says_so(client: Any) -> None:
    illegal = ErrorCode.ILLEGAL_SASL_STATE
    for version in (0, 1):
        shaken = client.call(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (shaken.error_code, shaken.mechanisms) == (illegal, [])
    for version in (0, 1, 2):
        assert client.call(SaslAuthenticateRequest(auth_bytes=b"x"), version).error_code == illegal


def test_a_client_learns_that_there_are_no_acls(broker: Broker) -> None:
    acl = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "logger": None})
    [creation] = admin.create_acls([acl]).values()
    with pytest.raises(KafkaException) as refused:
        creation.result(20)
    assert refused.value.args[0].name() == "SECURITY_DISABLED"
