"""Whether the source still has what was copied: it may have lost records by an unclean leader election.

As a follower does: each log knows where its leader epochs ended. What was copied in the mirror's last epoch is part of
the source's log if that epoch ended there at the mirror's end, or later.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from ottla.client.admin.configs import Resource, describe_many
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.leader_epochs import EpochEnd, epoch_ends
from ottla.client.offsets import EARLIEST, list_offsets
from ottla.mirror.errors import Diverged
from ottla.protocol.mirror_link import MIRROR_LINK

#: A mirror answers with its last epoch when it is asked for a later one.
_LAST = 2**31 - 1
_UNKNOWN = EpochEnd(-1, -1)
#: A broker that does not know yet that another one leads may lack what was copied since: so it is asked again.
_ATTEMPTS = 4
_WAIT_SECONDS = 0.5


def check_history(
    source: Cluster, target: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The last leader epoch of each mirror, -1 if it is empty. Diverged if the source lacks what a mirror has."""
    ends = _ends_of(target, partitions)
    try:
        check_ends(source, ends)
    except Diverged as error:
        if error.partition is not None and not _config(target, error.partition.topic, MIRROR_LINK):
            raise ClientError(f"Topic '{error.partition.topic}' is no mirror any more.") from None
        raise
    return {partition: end.epoch for partition, end in ends.items()}


def _ends_of(target: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, EpochEnd]:
    """The epoch of the last record of each mirror, and where it ended; unknown if the mirror is empty."""
    last = epoch_ends(target, dict.fromkeys(partitions, _LAST))
    starts = list_offsets(target, dict.fromkeys(last, EARLIEST))
    last = {each: end if starts[each].offset < end.end_offset else _UNKNOWN for each, end in last.items()}
    # A leader notes its own epoch when it begins to lead, and has written nothing in it.
    before = epoch_ends(target, {each: end.epoch - 1 for each, end in last.items() if end.epoch > 0})
    return last | {
        each: end
        for each, end in before.items()
        if end.end_offset == last[each].end_offset and end.epoch < last[each].epoch
    }


def check_ends(source: Cluster, ends: dict[TopicPartition, EpochEnd]) -> None:
    """Diverged if the source has not, in the same epoch, what lies below these ends."""
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
    """A replica that was built of a compacted log may know nothing of an epoch of which no record is left."""
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
        else f"what was copied up to offset {mirror.end_offset - 1}"
    )
    return (
        f"Partition {partition} of the source has lost {lost} in leader epoch {mirror.epoch}: by an unclean leader "
        "election, or because it was restored from an older copy. The mirror still has these records. To keep them, "
        f"fail over ('ottla mirror link failover … {partition.topic}'); to go on with the source's, delete topic "
        f"'{partition.topic}' on the target, and it is copied anew."
    )
