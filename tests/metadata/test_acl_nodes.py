"""Promise: ACLs are stored in the same znodes and the same format as in Kafka 3.9."""

from __future__ import annotations

import pytest

from ottla.metadata.acl_nodes import (
    acl_path,
    change_notification,
    decode_entries,
    decode_notification,
    encode_entries,
)
from ottla.security.acls import Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType

ANN = Entry("User:ann", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW)
LITERAL = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "*")
PREFIXED = ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED)


def test_paths_and_data_are_kafkas() -> None:
    assert acl_path(LITERAL) == "/kafka-acl/TransactionalId/*"
    assert acl_path(PREFIXED) == "/kafka-acl-extended/prefixed/Topic/ord"
    data = encode_entries([ANN])
    assert data == (
        b'{"version":1,"acls":[{"principal":"User:ann","permissionType":"Allow","operation":"DescribeConfigs",'
        b'"host":"*"}]}'
    )
    assert decode_entries(data) == {ANN}
    assert decode_entries(b"") == frozenset()


def test_notifications_are_kafkas() -> None:
    literal, prefixed = change_notification(LITERAL), change_notification(PREFIXED)
    assert (literal.path, literal.data) == ("/kafka-acl-changes/acl_changes_", b"TRANSACTIONAL_ID:*")
    assert prefixed.path == "/kafka-acl-extended-changes/acl_changes_"
    assert prefixed.data == b'{"version":1,"resourceType":"TOPIC","name":"ord","patternType":"PREFIXED"}'
    for pattern, notification in ((LITERAL, literal), (PREFIXED, prefixed)):
        assert notification.sequential
        assert decode_notification(notification.data) == pattern
    # The format of brokers before 2.0; a name may contain colons.
    assert decode_notification(b"Group:a:b") == ResourcePattern(ResourceType.GROUP, "a:b")


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"nothing",
        b'{"version":1,"acls":[{"principal":"User:ann"}]}',
        b'{"version":1,"acls":[{"principal":"User:ann","permissionType":"Perhaps","operation":"Read","host":"*"}]}',
    ],
)
def test_what_cannot_be_understood_is_not_taken_for_nothing(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"lacks|Expecting"):
        decode_entries(data)


@pytest.mark.parametrize("data", [b"orders", b"{", b"{}"])
def test_a_notification_that_names_nothing_says_so(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"names no resource|Expecting|lacks"):
        decode_notification(data)
