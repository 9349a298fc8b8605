"""Client capabilities in plain words.

A word is an operation (`list_offsets`), a codec (`codec:zstd`), an assignor (`assignor:sticky`), a login
(`login:SASL_SSL PLAIN`) or a trait (`headers`). A case names the words it needs and runs with every client that has
them. A dash in the matrix marks a client that lacks the call, or that the suite cannot drive that way.
"""

from __future__ import annotations

from .security.logins import LOGINS, WITHOUT_SASL

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
# Server-side assignors of KIP-848: a member that requests one speaks the consumer protocol.
BROKER_ASSIGNORS = ("broker:uniform", "broker:range")

TRAITS = frozenset(
    {
        "keys",
        "headers",
        "null values",
        "timestamps",
        "partitioner",
        "idempotence",
        "acks",
        "offsets",
        "seek",
        "reset",
        "reset errors",
    }
)
TRANSACTIONS = frozenset({"transactions"})
SHARE_GROUPS = frozenset({"share groups"})
GROUPS = frozenset({"groups", "static members", "commit"})
TOPIC_ADMIN = frozenset(
    {"create_topic", "delete_topic", "create_partitions", "list_topics", "describe_topic"}
)
CONFIG_ADMIN = frozenset({"describe_configs", "alter_configs"})
GROUP_ADMIN = frozenset({"list_groups", "describe_group", "group_offsets"})
SHARE_GROUP_ADMIN = frozenset(
    {
        "list_share_groups",
        "describe_share_group",
        "share_group_offsets",
        "alter_share_group_offsets",
        "delete_share_group_offsets",
        "delete_share_group",
    }
)
POSITIONS = frozenset({"position", "watermarks", "offsets_for_time"})
ADMIN = TOPIC_ADMIN | CONFIG_ADMIN | GROUP_ADMIN | {"delete_records", "describe_cluster"}


def codecs(*names: str) -> frozenset[str]:
    return frozenset(f"codec:{name}" for name in names)


def logins(*mechanisms: str) -> frozenset[str]:
    """Return the logins without SASL, and with SASL by these mechanisms."""
    with_sasl = [each for each in LOGINS if each.rpartition(" ")[2] in mechanisms]
    return frozenset(f"login:{name}" for name in (*WITHOUT_SASL, *with_sasl))


def assignors(*names: str) -> frozenset[str]:
    return frozenset(f"assignor:{name}" for name in names)
