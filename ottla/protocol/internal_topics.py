"""Topics that are not for users: those of the brokers, and those of Ottla's pipelines and SQL.

Kafka's clients learn from Metadata that a topic is internal: a pattern does not match it (`exclude.internal.topics`),
and listings omit it on request.
"""

from __future__ import annotations

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
#: Only brokers write to these.
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})

#: One for each streaming query that writes exactly once; the id of the query follows.
COMMIT_TOPIC_PREFIX = "__ottla_spark_commits_"
SQL_CATALOGUE_TOPIC = "__ottla_sql"
#: The queries that SQL servers run.
SQL_QUERIES_TOPIC = "__ottla_sql_queries"


def is_internal(name: str) -> bool:
    if name in INTERNAL_TOPICS or name in (SQL_CATALOGUE_TOPIC, SQL_QUERIES_TOPIC):
        return True
    return name.startswith(COMMIT_TOPIC_PREFIX)
