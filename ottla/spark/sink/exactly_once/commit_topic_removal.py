"""Removal of commit logs whose queries are gone.

Invariant: a log is deleted only if no checkpoint can still need its decisions.
docs/explanation/exactly-once.md has the proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.admin.topics import delete_topics
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.transactions import TransactionClient
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import COMMIT_TOPIC_PREFIX
from ottla.spark.checkpoints import local_path, query_of
from ottla.spark.sink.exactly_once.commit_topic import CommitTopic
from ottla.spark.sink.exactly_once.task_transaction import ID_PREFIX, id_prefix

_FENCED_BY = "removal of the commit log"


@dataclass(frozen=True, slots=True)
class Finding:
    """Facts about one commit log."""

    topic: str
    query: str
    removable: bool
    reason: str


def examine(cluster: Cluster) -> list[Finding]:
    """Return all commit logs of a cluster, without changes."""
    topics = [name for name in sorted(cluster.topics()) if name.startswith(COMMIT_TOPIC_PREFIX)]
    busy = _busy(cluster)
    return [_examine(cluster, name.removeprefix(COMMIT_TOPIC_PREFIX), busy) for name in topics]


def _examine(cluster: Cluster, query: str, busy: list[str]) -> Finding:
    topic = CommitTopic(query)
    checkpoint = topic.read(cluster).checkpoint
    removable, reason = False, ""
    path = local_path(checkpoint) if checkpoint else None
    if any(each.startswith(id_prefix(query)) for each in busy):
        reason = "a transaction of its query is open"
    elif not checkpoint:
        reason = "where the checkpoint of its query is was not recorded"
    elif path is None:
        reason = f"the checkpoint of its query is elsewhere: {checkpoint}"
    elif query_of(path) == query:
        reason = f"its query can go on from {path}"
    else:
        removable, reason = True, f"the checkpoint of its query is gone from {path}"
    return Finding(topic.name, query, removable, reason)


def _busy(cluster: Cluster) -> list[str]:
    return TransactionClient(cluster).open_ids(f"{ID_PREFIX}-")


def remove_commit_topics(cluster: Cluster, queries: Iterable[str]) -> list[str]:
    """Delete the logs of queries without checkpoints. Return the deleted ones.

    A driver that still runs without its checkpoint is fenced first, so that its later decisions are void.
    """
    removed = []
    there = cluster.topics()
    for query in queries:
        topic = CommitTopic(query)
        if topic.name not in there:
            continue
        topic.append(cluster, topic.read(cluster).begin(_FENCED_BY))
        try:
            delete_topics(cluster, [topic.name])
        except ClientError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        removed.append(topic.name)
    return removed
