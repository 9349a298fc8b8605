"""Reasons for undelivered messages. They come from the cluster, because librdkafka retries silently."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.client.admin.configs import Resource, describe_configs
from ottla.client.coordinators import CoordinatorType, without_leader
from ottla.client.errors import Unsupported, in_kafkas_words
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.protocol.messages.cluster import MetadataResponsePartition

# How long nothing may happen before the cluster is asked why.
_PATIENCE = 2.0
# Longest pause between two checks; pauses grow up to it.
_MOST_PATIENCE = 60.0


def undeliverable(
    client: Client, topic: str, *, partitions: Iterable[int] | None = None, acks_all: bool = False
) -> JobError | None:
    """Why messages to these partitions, or to any, are not accepted; None if nothing speaks against it.

    With `acks_all`: also whether enough replicas are in sync.
    """
    try:
        found = _partitions(client, topic, partitions)
        for each in found:
            if each.leader_id < 0:
                clause = without_leader(topic, each, client.cluster.nodes())
                return JobError(f"{clause[0].upper()}{clause[1:]}.", ErrorCode.LEADER_NOT_AVAILABLE)
        for leader in sorted({each.leader_id for each in found}):
            client.cluster.node(leader)  # raises if the address that it advertises cannot be reached
        return _too_few_in_sync(client, topic, found) if acks_all else None
    except Unsupported:
        return None  # this client cannot ask
    except JobError as error:
        return error


def _partitions(client: Client, topic: str, wanted: Iterable[int] | None) -> list[MetadataResponsePartition]:
    [found] = client.cluster.metadata([topic]).topics
    if found.error_code:
        raise in_kafkas_words(found.error_code)
    chosen = None if wanted is None else set(wanted)
    return [each for each in found.partitions if chosen is None or each.partition_index in chosen]


def _too_few_in_sync(
    client: Client, topic: str, partitions: list[MetadataResponsePartition]
) -> JobError | None:
    least = _min_insync_replicas(client, topic)
    for each in partitions:
        if len(each.isr_nodes) < least:
            return JobError(
                "Messages are rejected since there are fewer in-sync replicas than required: partition "
                f"{each.partition_index} of topic {topic} has {len(each.isr_nodes)}, and min.insync.replicas is "
                f"{least}.",
                ErrorCode.NOT_ENOUGH_REPLICAS,
            )
    return None


def _min_insync_replicas(client: Client, topic: str) -> int:
    try:
        entries = describe_configs(client.cluster, Resource("topic", topic))
    except JobError:
        return 0  # perhaps we may produce there and no more
    return next((int(each.value or 0) for each in entries if each.name == "min.insync.replicas"), 0)


def without_coordinator(client: Client, kind: CoordinatorType, key: str) -> JobError | None:
    """Why a group or a transactional id has no coordinator; None if it has one."""
    try:
        client.cluster.coordinators(kind, [key])
    except Unsupported:
        return None
    except JobError as error:
        return error
    return None


class Watch:
    """Says what one waits for, once for each reason, when nothing has moved for a while."""

    def __init__(self, reason: Callable[[], JobError | None], say: Callable[[JobError], None]) -> None:
        self._reason = reason
        self._say = say
        self.last: JobError | None = None  # the last reason that was found
        self._said: set[str] = set()
        self._state: object = None
        self._wait = _PATIENCE
        self._ask_at = time.monotonic() + self._wait

    def look(self, state: object) -> None:
        """`state` changes with whatever moves."""
        if state != self._state:
            self._state, self._wait = state, _PATIENCE
        elif time.monotonic() < self._ask_at:
            return
        else:
            reason = self._reason()
            self._wait = min(self._wait * 2, _MOST_PATIENCE)
            self.last = reason or self.last
            if reason is not None and reason.message not in self._said:
                self._said.add(reason.message)
                self._say(reason)
        self._ask_at = time.monotonic() + self._wait


def named(reason: JobError) -> str:
    """With Kafka's name of the error, by which people look for it."""
    return reason.message if reason.code is None else f"{reason.code.name}: {reason.message}"
