"""Promotion of mirror topics to ordinary topics, and failback.

Invariant: once PROMOTING is set, neither the link nor producers write. The end offset of each partition is then final,
and is stored together with the end of the mirror. A leader applies this config before it accepts a batch from a
producer, so the link cannot append after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ottla.client.admin.configs import Resource, alter_configs
from ottla.client.admin.topics import delete_topics
from ottla.client.admin.transactions import abort_transaction, describe_producers
from ottla.client.cluster import Cluster, Topic, TopicPartition
from ottla.client.errors import ClientError, error_code
from ottla.client.offsets import LATEST, list_offsets
from ottla.mirror.link.append import mirror_append
from ottla.mirror.link.topics import LinkTopics, PartitionLag, lags, own_configs
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import (
    MIRROR_LINK,
    MIRROR_PROMOTED,
    PROMOTING,
    encode_ends,
    mirrored_end,
)

_LOOK_SECONDS = 0.05


class Behind(ClientError):
    """The mirror lacks records that the source has."""


def promote(source: Cluster | None, target: Cluster, link: str, topic: Topic) -> dict[int, int]:
    """Turn a mirror topic into an ordinary topic. Return the end offset of the mirrored records by partition.

    Raises Behind if a source is given and the mirror lacks some of its records.
    """
    resource = Resource("topic", topic.name)
    alter_configs(target, resource, set_={MIRROR_PROMOTED: PROMOTING}, delete=[])
    ends = {each.partition: _stopped(target, link, each) for each in topic.partitions}
    if source is not None:
        missing = [lag for lag in lags(source, target, [topic]) if lag.records]
        if missing:
            alter_configs(target, resource, set_={}, delete=[MIRROR_PROMOTED])
            raise Behind(
                f"Topic '{topic.name}' is not promoted: {describe_lags(missing)}. Stop the producers and wait, "
                "or fail over without these records."
            )
    alter_configs(target, resource, set_={MIRROR_PROMOTED: encode_ends(ends)}, delete=[MIRROR_LINK])
    for each in topic.partitions:
        _await(target, link, each, lambda said: "not a mirror" in said)
        _end_transactions(target, each)
    return ends


def describe_lags(found: list[PartitionLag]) -> str:
    return ", ".join(
        f"{lag.partition} lacks {lag.records} records"
        if lag.records is not None
        else f"{lag.partition} is unknown"
        for lag in found
    )


def _stopped(target: Cluster, link: str, partition: TopicPartition) -> int:
    """Wait until the leader refuses appends and has committed the whole log. Return the log end offset."""
    deadline = time.monotonic() + target.settings.api_timeout
    while True:
        end, high_watermark = _await(target, link, partition, lambda said: "being promoted" in said)
        if end == high_watermark:
            return end
        if time.monotonic() > deadline:
            raise ClientError(
                f"Records copied to {partition} is not on all replicas in sync yet: try again later."
            )
        time.sleep(_LOOK_SECONDS)


def _await(
    target: Cluster, link: str, partition: TopicPartition, is_applied: Callable[[str], bool]
) -> tuple[int, int]:
    """Wait until the leader has applied the new config. Return its log end offset and high watermark."""
    deadline = time.monotonic() + target.settings.api_timeout
    while True:
        answer = target.retrying(lambda: mirror_append(target, link, partition), [partition.topic])
        if is_applied(answer.error_message or ""):
            return answer.log_end_offset, answer.high_watermark
        if time.monotonic() > deadline:
            code = error_code(answer.error_code)
            raise ClientError(
                f"The leader of {partition} does not follow the settings of its topic: {code.name}."
            )
        target.forget(partition.topic)
        time.sleep(_LOOK_SECONDS)


def _end_transactions(target: Cluster, partition: TopicPartition) -> None:
    """Abort source transactions whose end was not copied. Nothing else would end them."""
    place = (partition.topic, partition.partition)
    for producer in describe_producers(target, [place])[place]:
        if producer.transaction_start is not None:
            epoch = max(0, producer.coordinator_epoch)
            abort_transaction(target, place, producer.producer_id, producer.producer_epoch, epoch)


# Failback


def lost_by_failback(old: Cluster, new: Cluster, topic: str) -> list[PartitionLag]:
    """Return the lag of the mirror behind the old side at the promotion. `source_end` is the old side's end."""
    configs = own_configs(new, [topic])[topic]
    promoted = configs.get(MIRROR_PROMOTED, "")
    if configs.get(MIRROR_LINK) or promoted in ("", PROMOTING):
        raise ClientError(f"Topic '{topic}' was not promoted, so it cannot fail back.")
    found = old.topics([topic]).get(topic)
    if found is None:
        return []
    if own_configs(old, [topic])[topic].get(MIRROR_LINK):
        raise ClientError(f"Topic '{topic}' is a mirror on the old side already.")
    ends = list_offsets(old, dict.fromkeys(found.partitions, LATEST))
    return [
        PartitionLag(each, ends[each].offset, max(0, mirrored_end(promoted, each.partition)))
        for each in found.partitions
    ]


def make_old_side_a_mirror(back: LinkTopics, old: Cluster, new: Cluster, topic: str) -> None:
    if topic in old.topics([topic]):
        delete_topics(old, [topic])
    current = new.topics([topic])[topic]

    def create() -> None:
        try:
            back.create(current, own_configs(new, [topic])[topic])
        except ClientError as error:
            if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:  # the deletion is still in progress
                raise ClientError(error.message, ErrorCode.LEADER_NOT_AVAILABLE) from None
            raise

    old.retrying(create, [topic])
