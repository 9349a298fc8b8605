"""Names of internal topics: the brokers' own, and the topics of Ottla's pipelines and SQL.

Metadata marks topics as internal for clients: subscription patterns skip them (`exclude.internal.topics`), and listings
can omit them.
"""

from __future__ import annotations

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
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
