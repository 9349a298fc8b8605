"""Settings of topics that a mirror link writes, as brokers and the link's commands know them.

A mirror topic has MIRROR_LINK. To promote it, MIRROR_PROMOTED is first set to PROMOTING, so that neither the link nor
producers write; then in one step MIRROR_LINK goes and MIRROR_PROMOTED says where what was mirrored ends.
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
    """Where what was mirrored of a partition ends; -1 if nothing was, or the topic is still a mirror."""
    for pair in promoted.split(","):
        name, colon, end = pair.partition(":")
        if colon and int(name) == partition:
            return int(end)
    return -1
