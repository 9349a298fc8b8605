"""A broker with PLAIN users, and an authenticated wire client."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ottla.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.wire_client import WireClient

USERS = ("admin", "ann", "bob")
_USERS = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
JAAS = f"org.apache.kafka.common.security.plain.PlainLoginModule required {_USERS};"
TOKEN_SECRET = "key of tokens"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


_EVERYTHING: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}
EVERY_ACL = DescribeAclsRequest(**_EVERYTHING)


class AuthorizedBroker:
    """`admin` is a super user, and so is every client of the open listener."""

    def __init__(self, data: Path, **config: str) -> None:
        reserved = ReservedPorts(2)
        plain, sasl = reserved.numbers
        self.plain, self.sasl = f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}"
        self.broker = Broker(
            data=data,
            config={
                "listeners": f"PLAINTEXT://{self.plain},SASL_PLAINTEXT://{self.sasl}",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
                "authorizer.class.name": AUTHORIZER,
                "super.users": "User:admin;User:ANONYMOUS",
                "delegation.token.secret.key": TOKEN_SECRET,
                **config,
            },
        )

    def client_config(self, user: str) -> dict[str, Any]:
        """Return settings for confluent-kafka."""
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }


def logged_in(bootstrap_servers: str, user: str) -> WireClient:
    client = WireClient(bootstrap_servers)
    handshake: Any = client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert handshake.error_code == 0
    token = f"\0{user}\0{user}-secret".encode()
    answer: Any = client.call(SaslAuthenticateRequest(auth_bytes=token), 1)
    assert answer.error_code == 0, answer
    return client


def add_acls(client: WireClient, acls: Iterable[Acl]) -> None:
    wanted = [
        AclCreation(
            resource_type=acl.pattern.resource_type,
            resource_name=acl.pattern.name,
            resource_pattern_type=acl.pattern.pattern_type,
            principal=acl.entry.principal,
            host=acl.entry.host,
            operation=acl.entry.operation,
            permission_type=acl.entry.permission,
        )
        for acl in acls
    ]
    answer: Any = client.call(CreateAclsRequest(creations=wanted))
    assert [result.error_code for result in answer.results] == [0] * len(wanted), answer


def remove_all_acls(client: WireClient) -> int:
    """Remove all ACLs and return their number."""
    answer: Any = client.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**_EVERYTHING)]))
    [result] = answer.filter_results
    assert result.error_code == 0, answer
    return len(result.matching_acls)
