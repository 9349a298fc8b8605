"""Detection of diverged logs: an unclean leader election may have lost source records that the mirror already has.

The check works like a follower's truncation. Each log knows the end offset of its leader epochs. The mirror is a prefix
of the source if the mirror's last epoch ended on the source at or after the mirror's log end offset.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from ottla.client.admin.configs import Resource, describe_many
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.offsets import EARLIEST, EpochEnd, epoch_ends, list_offsets
from ottla.mirror.errors import Diverged
from ottla.protocol.internal_topics import MIRROR_LINK

#: Asking for this epoch returns the last epoch of the mirror.
_LAST = 2**31 - 1
_UNKNOWN = EpochEnd(-1, -1)
#: Retries: a stale leader may lack recently copied records.
_ATTEMPTS = 4
_WAIT_SECONDS = 0.5


def check_history(
    source: Cluster, target: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the last leader epoch of each mirror, or -1 if it is empty.

    Raises Diverged if the source lacks records that a mirror has.
    """
    ends = _ends_of(target, partitions)
    try:
        check_ends(source, ends)
    except Diverged as error:
        if error.partition is not None and not _config(target, error.partition.topic, MIRROR_LINK):
            raise ClientError(f"Topic '{error.partition.topic}' is no longer a mirror.") from None
        raise
    return {partition: end.epoch for partition, end in ends.items()}


def _ends_of(target: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, EpochEnd]:
    """Return the epoch of each mirror's last record and its end offset, or `_UNKNOWN` for an empty mirror."""
    last = epoch_ends(target, dict.fromkeys(partitions, _LAST))
    starts = list_offsets(target, dict.fromkeys(last, EARLIEST))
    last = {each: end if starts[each].offset < end.end_offset else _UNKNOWN for each, end in last.items()}
    # A new leader records its own epoch before it has written any records in that epoch.
    before = epoch_ends(target, {each: end.epoch - 1 for each, end in last.items() if end.epoch > 0})
    return last | {
        each: end
        for each, end in before.items()
        if end.end_offset == last[each].end_offset and end.epoch < last[each].epoch
    }


def check_ends(source: Cluster, ends: dict[TopicPartition, EpochEnd]) -> None:
    """Check that the source has all records below these ends in the same epoch. Raises Diverged."""
    asked = {partition: end for partition, end in ends.items() if end.epoch >= 0}
    for attempt in range(_ATTEMPTS):
        if not asked:
            return
        if attempt:
            time.sleep(_WAIT_SECONDS)
            for partition in asked:
                source.forget(partition.topic)
        here = epoch_ends(source, {partition: end.epoch for partition, end in asked.items()})
        asked = {
            partition: end
            for partition, end in asked.items()
            if not _has(here[partition], end)
            and not _is_compacted_away(source, partition, here[partition], end)
        }
    partition, end = min(asked.items())
    raise Diverged(_sentence(partition, end, here[partition]), partition)


def _has(source: EpochEnd, mirror: EpochEnd) -> bool:
    return source.epoch == mirror.epoch and source.end_offset >= mirror.end_offset


def _is_compacted_away(
    cluster: Cluster, partition: TopicPartition, source: EpochEnd, mirror: EpochEnd
) -> bool:
    """Return True if compaction explains the missing epoch.

    A replica built from a compacted log may not know an epoch whose records are all gone.
    """
    if source.end_offset < mirror.end_offset:
        return False
    return "compact" in _config(cluster, partition.topic, "cleanup.policy")


def _config(cluster: Cluster, topic: str, name: str) -> str:
    [entries] = describe_many(cluster, [Resource("topic", topic)], synonyms=False).values()
    return next((each.value or "" for each in entries if each.name == name), "")


def _sentence(partition: TopicPartition, mirror: EpochEnd, source: EpochEnd) -> str:
    common = min(source.end_offset, mirror.end_offset)
    lost = (
        f"offsets {common} to {mirror.end_offset - 1}, which were copied"
        if 0 <= common < mirror.end_offset
        else f"records copied up to offset {mirror.end_offset - 1}"
    )
    return (
        f"Partition {partition} of the source has lost {lost} in leader epoch {mirror.epoch}: by an unclean leader "
        "election, or because it was restored from an older copy. The mirror still has these records. To keep them, "
        f"fail over ('ottla mirror link failover … {partition.topic}'); to go on with the source's, delete topic "
        f"'{partition.topic}' on the target, and it is copied anew."
    )
