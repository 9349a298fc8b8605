"""ZooKeeper node ACLs: Kafka's rules for `zookeeper.set.acl`.

A node belongs to its creator, the user of the brokers. Everyone may read it, so that tools work without a password,
unless it or its descendants contain secrets.
"""

from __future__ import annotations

from collections.abc import Callable

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

NodeAcls = Callable[[str], list[ACL]]

# Old consumers store their offsets here without logging in.
_OPEN = "/consumers"
# SCRAM credentials and their secret, broker passwords, delegation tokens. As in Kafka, these are prefixes.
_SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token/tokens", "/ottla/scram_salt_secret")

# Top-level nodes of every cluster, including all nodes protected by Kafka or Ottla.
ROOTS = ("/admin", "/brokers", "/cluster", "/config", "/controller_epoch", "/isr_change_notification")
TOP = (
    *ROOTS,
    "/controller",
    "/delegation_token",
    "/feature",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/migration",
    "/ottla",
)


def open_to_all(path: str) -> list[ACL]:
    return OPEN_ACL_UNSAFE  # type: ignore[no-any-return]


def owned_by_creator(path: str) -> list[ACL]:
    if path == _OPEN:
        return open_to_all(path)
    return list(CREATOR_ALL_ACL) if is_sensitive(path) else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


def is_sensitive(path: str) -> bool:
    return path.startswith(_SENSITIVE)
