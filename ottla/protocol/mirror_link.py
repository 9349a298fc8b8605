"""Topic settings of mirror links, shared by the brokers and the link commands.

A mirror topic has MIRROR_LINK set. A promotion first sets MIRROR_PROMOTED to PROMOTING, which stops writes by the link
and by producers. A second, atomic step then removes MIRROR_LINK and stores the end offsets of the mirrored records in
MIRROR_PROMOTED.
"""

from __future__ import annotations

from collections.abc import Mapping

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
