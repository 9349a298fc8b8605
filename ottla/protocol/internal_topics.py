"""Names of internal topics, the hash that chooses their partitions, and topic settings of mirror links."""

from __future__ import annotations

from collections.abc import Mapping

# Java's `String.hashCode`: Kafka chooses coordinators with it, and the order of Kafka's tool output depends on it.


def string_hash(text: str) -> int:
    """Return the hash over UTF-16 units as an unsigned 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (value * 31 + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value


# Names of internal topics: the brokers' own, and the topics of Ottla's pipelines and SQL.
#
# Metadata marks topics as internal for clients: subscription patterns skip them
# (`exclude.internal.topics`), and listings can omit them.

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
#: Metadata of remote log segments. Like in Kafka, clients see it as an ordinary topic.
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
#: Only brokers write to these topics.
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})

#: Prefix of a topic per exactly-once streaming query; the query id follows.
COMMIT_TOPIC_PREFIX = "__ottla_spark_commits_"
SQL_CATALOGUE_TOPIC = "__ottla_sql"
#: Queries run by SQL servers.
SQL_QUERIES_TOPIC = "__ottla_sql_queries"


def is_internal(name: str) -> bool:
    if name in INTERNAL_TOPICS or name in (SQL_CATALOGUE_TOPIC, SQL_QUERIES_TOPIC):
        return True
    return name.startswith(COMMIT_TOPIC_PREFIX)


# Topic settings of mirror links, shared by the brokers and the link commands.
#
# A mirror topic has MIRROR_LINK set. A promotion first sets MIRROR_PROMOTED to PROMOTING, which stops
# writes by the link and by producers. A second, atomic step then removes MIRROR_LINK and stores the end
# offsets of the mirrored records in MIRROR_PROMOTED.

MIRROR_LINK = "ottla.mirror.link"
MIRROR_PROMOTED = "ottla.mirror.promoted"
MIRROR_TOPIC_ID = "ottla.mirror.topic.id"
PROMOTING = "promoting"


def encode_ends(ends: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{end}" for partition, end in sorted(ends.items()))


def mirrored_end(promoted: str, partition: int) -> int:
    """Return the end offset of the mirrored records; -1 if there are none or the topic is still a mirror."""
    for pair in promoted.split(","):
        name, colon, end = pair.partition(":")
        if colon and int(name) == partition:
            return int(end)
    return -1
