"""Who may read and change which node of ZooKeeper: Kafka's rules for `zookeeper.set.acl`.

A node belongs to whoever made it, which is the user that the brokers log in as. Everybody may read it, so that tools
work without a password, unless there are secrets in it or below it.
"""

from __future__ import annotations

from collections.abc import Callable

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

NodeAcls = Callable[[str], list[ACL]]

# Old consumers, which have no user, keep their offsets below this.
_OPEN = "/consumers"
# SCRAM credentials and their secret, passwords of brokers, delegation tokens. As in Kafka, these are prefixes.
_SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token/tokens", "/ottla/scram_salt_secret")

# What every cluster has, and all that is protected by Kafka or by Ottla, at the top of the tree.
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
